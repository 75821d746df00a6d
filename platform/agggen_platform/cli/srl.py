"""`agggen srl`: train the semantic role tagger that facts are cut by, and say how good it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agggen_platform.cli import console, srl_setup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agggen_platform.srl.tagger.data import Sentence
    from agggen_platform.srl.tagger.evaluate import Agreement

app = typer.Typer(
    no_args_is_help=True, help="Semantic role labelling: our tagger, and AllenNLP's models.", rich_markup_mode=None
)
app.command(short_help="Make the environment in which AllenNLP runs.")(srl_setup.setup)
app.command(short_help="Look whether AllenNLP and an archive work.")(srl_setup.check)


@app.command()
def train(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the tagger goes.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Training settings, say epochs=5 seed=2")
    ] = None,
) -> None:
    """Train on PropBank EWT in the data home (AGGGEN_DATA_HOME), train and dev parts, and score on its test part.

    The tagger as it stands is written after every epoch, so a run that is cut off leaves the last.
    One thread; the same settings give the same weights on one kind of machine. No number of epochs is chosen by dev,
    so its sentences are worth more as lessons.

    \b
        agggen srl train --out tagger
    """
    from dataclasses import replace

    import torch

    from agggen.config import load_config
    from agggen.facts.tagger.store import RoleTagger, save_tagger
    from agggen_platform.srl.tagger.evaluate import evaluate_annotated
    from agggen_platform.srl.tagger.train import TrainConfig, train_tagger

    config = load_config(TrainConfig, None, overrides or ())
    sentences, test = [*_sentences("train"), *_sentences("dev")], _sentences("test")

    def report(epoch: int, numbers: Mapping[str, float], tagger: RoleTagger) -> None:
        save_tagger(out, tagger)
        console.note(f"epoch {epoch}  " + "  ".join(f"{name} {value:.4f}" for name, value in numbers.items()))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        tagger = train_tagger(sentences, config, report=report)
        counts = evaluate_annotated(tagger, test)
    finally:
        torch.set_num_threads(threads)
    metrics = {f"test_{name}": round(count.f1, 4) for name, count in counts.items()}
    save_tagger(out, replace(tagger, metrics=metrics))
    _print_scores({f"PropBank EWT test {name}": count for name, count in counts.items()})
    console.note(f"The tagger: {out}")


@app.command()
def evaluate(
    tagger: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder that `agggen srl train` wrote. [default: the shipped]")
    ] = None,
    split: Annotated[str, typer.Option(help="The part of PropBank EWT, or `none`.")] = "test",
    allennlp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="AllenNLP's output, a JSON list of sentences a line.")
    ] = None,
    first_text: Annotated[int, typer.Option(min=0, help="Pass over so many texts of FILE.")] = 0,
    texts: Annotated[int, typer.Option(min=0, help="Take so many texts of FILE; 0 takes all.")] = 0,
) -> None:
    """Precision, recall and F1 of predicates and argument spans, and against AllenNLP also of boundaries between facts.

    \b
        agggen srl evaluate
        agggen srl evaluate --split none --allennlp dev-webnlg-tgt.txt --first-text 1134
    """
    from agggen.errors import ConfigError
    from agggen.facts.embedded import SHIPPED, EmbeddedFrames
    from agggen.facts.tagger.store import load_tagger
    from agggen_platform.srl.tagger.evaluate import evaluate_annotated, evaluate_source, read_allennlp

    if split == "none" and allennlp is None:
        raise ConfigError("nothing to score: give --split one of train, dev, test, or --allennlp a file")
    folder = tagger or SHIPPED
    scores: dict[str, Agreement] = {}
    if split != "none":
        found = evaluate_annotated(load_tagger(folder), _sentences(split))
        scores |= {f"PropBank EWT {split} {name}": count for name, count in found.items()}
    if allennlp is not None:
        chosen = read_allennlp(allennlp)[first_text : first_text + texts if texts else None]
        scores |= {f"AllenNLP {name}": count for name, count in evaluate_source(EmbeddedFrames(folder), chosen).items()}
    _print_scores(scores)


def _sentences(split: str) -> list[Sentence]:
    """A split of PropBank EWT; says how many lines could not be read."""
    from agggen.corpora.catalogue import data_home
    from agggen.corpora.rejects import Reject
    from agggen_platform.srl.tagger.data import read_split

    items = list(read_split(data_home(), split))
    rejects = [item for item in items if isinstance(item, Reject)]
    if rejects:
        console.note(f"{len(rejects)} of {len(items)} lines of {split} cannot be read; the first: {rejects[0]}")
    return [item for item in items if not isinstance(item, Reject)]


def _print_scores(scores: Mapping[str, Agreement]) -> None:
    rows = [
        (name, f"{count.precision:.4f}", f"{count.recall:.4f}", f"{count.f1:.4f}", count.wanted)
        for name, count in scores.items()
    ]
    console.print_table(("what", "precision", "recall", "F1", "of"), rows)
