"""What facts do to the model: the joint stage on the release's facts and on the shipped tagger's, from one start.

    agggen train webnlg-quick training.joint.epochs=0 --name plain
    AGGGEN_DATA_HOME=... python tests/benchmarks/fact_sources.py runs/plain/bundle [--out DIR] [KEY=VALUE ...]

The release's facts were cut with AllenNLP by the paper's authors; texts that it has no facts for (two of WebNLG's
training texts) are left out of both trainings, which differ in nothing but the facts. Each model writes about WebNLG's
development records: BLEU by the challenge's protocol, and the measures of values (`agggen.evaluation.values`). A run
that was cut off goes on where its last checkpoint in DIR is. With `--embedded`, the tagger's side is not trained here,
and has those two texts more. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agggen.bundle import Bundle, load_bundle
from agggen.config import load_config, resolved
from agggen.corpora.catalogue import data_home
from agggen.corpora.segmented import attach_release_facts, release_facts
from agggen.evaluation.held_out import write
from agggen.evaluation.values import read_values
from agggen.records import Record
from agggen.report.sections import TextMetrics, text_scores
from agggen.run import RunConfig, train
from agggen.training.callbacks import Silent
from agggen.training.loop import Trainer
from agggen_platform.local import records_of

CORPUS, PROTOCOL = "webnlg", "webnlg-2017"
SOURCES = {"release": "corpus", "embedded": "embedded"}


def with_release_facts(split: str) -> list[Record]:
    """The records of a split with the release's facts; texts without them are left out."""
    records, missing = attach_release_facts(records_of(CORPUS, split), release_facts(data_home(), CORPUS, split))
    say(f"{split}: {missing} texts without facts")
    return [
        replace(record, references=tuple(reference for reference in record.references if reference.facts))
        for record in records
    ]


class Tell(Silent):
    """Says how training goes."""

    def on_log(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        say(f"{trainer.stage} {trainer.progress.step}  {numbers}")

    on_evaluation = on_log


def scores(bundle: Bundle, records: Sequence[Record]) -> dict[str, object]:
    generator = bundle.generator()
    written = write(generator, records, progress=lambda done: say(f"{done} of {len(records)} texts"))
    found = text_scores(TextMetrics(PROTOCOL, ("bleu",)), written.records, written.texts)
    (bleu,) = (measure for measure in found.sections[0].measures if measure.name == "bleu")
    assert bleu.score is not None
    values = read_values(written.records, written.texts, generator.checker).statistics
    scored = {name: counted.corpus() for name, counted in values.items()}
    return {
        "bleu": round(bleu.score.value, 2),
        "bleu_interval": bleu.interval and [round(edge, 2) for edge in bleu.interval],
        **{name: round(score.value, 2) for name, score in scored.items()},
        "signatures": [bleu.score.signature, *(score.signature for score in scored.values())],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="the model on the release's facts and on the shipped tagger's")
    parser.add_argument("start", help="a plain Transformer's bundle")
    parser.add_argument("--preset", default="webnlg-quick")
    parser.add_argument("--out", type=Path, default=Path("runs/fact-sources"))
    parser.add_argument("--records", type=int, default=0, help="write about only so many development records; 0: all")
    parser.add_argument("--embedded", type=Path, help="a bundle of the same recipe on the tagger's facts of all texts")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_intermixed_args()
    began = time.monotonic()
    found: dict[str, object] = {}
    for name, source in SOURCES.items():
        asked = [f"facts.source={source}", f"training.start={options.start}", "training.baseline.epochs=0"]
        config = load_config(RunConfig, options.preset, [*options.overrides, *asked])
        taught, tried = (with_release_facts(split) for split in (config.corpus.train, config.corpus.dev))
        folder = options.out / name
        path = options.embedded if name == "embedded" and options.embedded else folder / "bundle"
        if not path.exists():
            train(config, taught, tried, folder, lambda stage: [Tell()], resolved=resolved(config))
        bundle = load_bundle(path)
        held_out = records_of(CORPUS, config.corpus.dev)[: options.records or None]
        found[name] = {
            "joint_dev_loss": round(bundle.metrics["joint.dev_loss"], 4),
            **scores(bundle, held_out),
        }
    result = {"benchmark": "fact_sources", "preset": options.preset, "overrides": options.overrides}
    print(json.dumps(result | {"minutes": round((time.monotonic() - began) / 60)} | found))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
