"""`agggen facts`: shows facts of texts, and their trees of semantic roles; `agggen srl`: checks AllenNLP."""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from agggen.datasets import load_dataset
from agggen.errors import ConfigError, CorpusError
from agggen.facts.frames import Sentence
from agggen.facts.tree import Level, Node, build_tree
from agggen.records import Record
from agggen_platform.cli import console
from agggen_platform.cli.options import FactSource

app = typer.Typer(name="facts", no_args_is_help=True, help="Show the facts of texts.")
srl_app = typer.Typer(name="srl", no_args_is_help=True, help="Semantic role labelling by AllenNLP's models.")

_SETTING = re.compile(r"facts\.[\w.]+=")


@app.command()
def inspect(
    texts: Annotated[
        list[str] | None,
        Argument(metavar="TEXT | KEY=VALUE", help="Texts, each in quotes; settings, such as facts.level=paper"),
    ] = None,
    facts: FactSource = None,
    corpus: Annotated[str | None, Option(metavar="NAME", help="Show texts of this corpus: a name or a folder.")] = None,
    split: Annotated[str, Option(help="The split of the corpus.")] = "dev",
    record: Annotated[list[str] | None, Option(metavar="ID", help="Only this record; can be repeated.")] = None,
    limit: Annotated[int, Option(min=1, help="Maximum number of texts.")] = 5,
) -> None:
    """Show the facts of texts, and the trees of semantic roles from which they are extracted.

    For texts of a corpus, also shows the triples that the rule-based aligner finds in each fact.

    \b
        agggen facts inspect "Bolt, who was drawn by Gary Cohn, is a comic character."
        agggen facts inspect facts.level=paper --corpus webnlg --split dev --limit 20
        agggen facts inspect "Bolt is a hero." --facts allennlp facts.allennlp.archive=srl.tar.gz
    """
    from agggen.config import load_config
    from agggen.facts.config import segmenter
    from agggen.facts.framed import FrameSegmenter
    from agggen_platform.segmentation.config import SegmentConfig

    settings = [text for text in texts or () if _SETTING.match(text)]
    texts = [text for text in texts or () if not _SETTING.match(text)]
    settings += [f"facts.source={facts}"] if facts else []
    config = load_config(SegmentConfig, None, settings).facts
    if bool(texts) == bool(corpus):
        raise ConfigError("give either texts in quotes, or --corpus")
    if record and not corpus:
        raise ConfigError("--record needs --corpus, which contains the record")
    inputs = _corpus_texts(corpus, split, record, limit) if corpus else [(text, None) for text in texts][:limit]
    fact_segmenter = segmenter(config)
    input_texts = [text for text, _ in inputs]
    trees = [list[str]()] * len(inputs)
    if isinstance(fact_segmenter, FrameSegmenter):
        level = fact_segmenter.level
        trees = [[bracketed(sentence, level) for sentence in text] for text in fact_segmenter.sentences(input_texts)]
    segmented = fact_segmenter.segment(input_texts)
    for (text, text_record), facts_of_text, trees_of_text in zip(inputs, segmented, trees, strict=True):
        console.echo(f"{text_record.id}: {text}" if text_record else text)
        for tree in trees_of_text:
            console.echo(f"    {tree}")
        labels = _predicate_labels(text_record, facts_of_text)
        for number, (fact, label) in enumerate(zip(facts_of_text, labels, strict=True), start=1):
            console.echo(f"  {number}. {fact.strip()}{label}")
    if not isinstance(fact_segmenter, FrameSegmenter):
        console.note(f"The segmenter {fact_segmenter.name!r} uses no semantic roles, so no trees are shown")


def _corpus_texts(corpus: str, split: str, ids: Sequence[str] | None, limit: int) -> list[tuple[str, Record]]:
    """The first texts of a corpus, or of its records with these `ids`; each text with its record."""
    records = load_dataset(corpus, splits=(split,)).split(split)
    if ids:
        by_id = {record.id: record for record in records}
        if unknown := [identifier for identifier in ids if identifier not in by_id]:
            raise CorpusError(f"{corpus} {split} has no record {unknown[0]!r}; its first record is {records[0].id!r}")
        records = [by_id[identifier] for identifier in ids]
    pairs = ((reference.text, record) for record in records for reference in record.references)
    return list(islice(pairs, limit))


def _predicate_labels(record: Record | None, facts: Sequence[str]) -> list[str]:
    """The predicates of each fact, in brackets; without a record, empty strings."""
    if record is None or not facts:
        return [""] * len(facts)
    from agggen.alignment import align

    pairs = list(zip(record.predicates, align(record, facts).fact_of, strict=True))
    return [f"   [{' '.join(name for name, fact in pairs if fact == number)}]" for number in range(len(facts))]


def bracketed(sentence: Sentence, level: Level = "full") -> str:
    """The tree of a sentence as a string: ``(S (is (ARG1 Bolt) (V is) (ARG2 a comic (by (V by) (ARG1 Cohn)))) .)``."""
    words = [word.replace("(", "-LRB-").replace(")", "-RRB-") for word in sentence.tokens.words]

    def bracket_frames(nodes: Sequence[Node], start: int, end: int) -> str:
        """The words from `start` to before `end`, with brackets around frames."""
        parts: list[str] = []
        for node in nodes:
            parts += [*words[start : node.start], f"({words[node.predicate]} {bracket_frame(node)})"]
            start = node.end
        return " ".join([*parts, *words[start:end]])

    def bracket_frame(node: Node) -> str:
        parts: list[str] = []
        position = node.start
        for number, phrase in enumerate(node.phrases):
            content = bracket_frames(node.children.get(number, ()), phrase.start, phrase.end)
            parts += [*words[position : phrase.start], f"({phrase.role} {content})"]
            position = phrase.end
        return " ".join(parts)

    return f"(S {bracket_frames(build_tree(sentence, level), 0, len(words))})"


@srl_app.command()
def check(
    folder: Annotated[
        Path | None,
        Option("--dir", metavar="DIR", help="The environment. [default: AGGGEN_SRL_ENV, else ~/.cache/agggen/srl-env]"),
    ] = None,
) -> None:
    """Check that AllenNLP's environment works, and print the versions of its packages.

    To show the semantic roles that an archive finds in a text:

    \b
        agggen facts inspect "Ada wrote it." --facts allennlp facts.allennlp.archive=srl.tar.gz
    """
    from agggen_platform.srl.environment import find_environment, worker_versions

    environment = find_environment(folder)
    versions = worker_versions(environment)
    console.note(f"AllenNLP works in {environment.folder}")
    console.print_table(("package", "version"), list(versions.items()))
