"""What facts do to the model: one baseline, then the joint stage on the release's facts and on the shipped tagger's.

    AGGGEN_DATA_HOME=... python tests/benchmarks/fact_sources.py [--preset webnlg-quick] [--out DIR] [KEY=VALUE ...]

The release's facts were cut with AllenNLP by the paper's authors; texts that it has no facts for (two of WebNLG's
training texts) are left out of both trainings. Both joint stages start from the same baseline and differ in nothing but
the facts. Each model writes about WebNLG's development records: BLEU by the challenge's protocol, and the share of
triples that the texts mention. A run that was cut off goes on where its last checkpoint in DIR is. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from agggen.bundle import Bundle, load_bundle, save_bundle
from agggen.corpora.catalogue import data_home
from agggen.corpora.segmented import attach_release_facts, release_facts
from agggen.encoding import replace_references
from agggen.evaluation.coverage import coverage
from agggen.evaluation.held_out import write
from agggen.evaluation.report.texts import Wanted, text_scores
from agggen.model.joint import JointModel
from agggen.records import Record
from agggen.run import Prepared, RunConfig, bundle_of, device_of, prepare
from agggen.training.callbacks import CheckpointEvery, Silent
from agggen.training.checkpoints import FileKeeper
from agggen.training.loop import Trainer
from agggen.training.objectives import ObjectiveName
from agggen_platform.config import load_config, resolved
from agggen_platform.local import records_of

CORPUS, PROTOCOL = "webnlg", "webnlg-2017"
SOURCES = {"release": "corpus", "embedded": "embedded"}


def with_release_facts(split: str) -> list[Record]:
    """The records of a split with the release's facts; texts without them are left out."""
    records, missing = attach_release_facts(records_of(CORPUS, split), release_facts(data_home(), CORPUS, split))
    say(f"{split}: {missing} texts without facts")
    return [
        replace_references(record, tuple(reference for reference in record.references if reference.facts))
        for record in records
    ]


class Tell(Silent):
    """Says how training goes."""

    def on_log(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        say(f"{trainer.stage} {trainer.progress.step}  {numbers}")

    on_evaluation = on_log


def train(model: JointModel, data: Prepared, stage: ObjectiveName, config: RunConfig, folder: Path) -> float:
    """Trains one stage, or what is left of it; its best development loss."""
    keeper = FileKeeper(folder)
    training = config.training
    settings = training.baseline if stage == "baseline" else training.joint
    callbacks = [Tell(), CheckpointEvery(keeper, 120)]
    trainer = Trainer(model, data.train, data.dev, stage, settings, training.seed, callbacks, training.precision)
    keeper.restore(trainer)
    return trainer.run().best_dev_loss


def scores(bundle: Bundle, records: Sequence[Record]) -> dict[str, object]:
    written = write(bundle.generator(), records, progress=lambda done: say(f"{done} of {len(records)} texts"))
    found = text_scores(Wanted(PROTOCOL, ("bleu",)), written.records, written.texts)
    (bleu,) = (measure for measure in found.sections[0].measures if measure.name == "bleu")
    assert bleu.score is not None
    mentioned = coverage(written.records, written.texts)
    return {
        "bleu": round(bleu.score.value, 2),
        "bleu_interval": bleu.interval and [round(edge, 2) for edge in bleu.interval],
        "mentioned": round(mentioned.value, 2),
        "signatures": [bleu.score.signature, mentioned.signature],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="the model on the release's facts and on the shipped tagger's")
    parser.add_argument("--preset", default="webnlg-quick")
    parser.add_argument("--out", type=Path, default=Path("runs/fact-sources"))
    parser.add_argument("--records", type=int, default=0, help="write about only so many development records; 0: all")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    import torch

    began = time.monotonic()
    configs = {
        name: load_config(RunConfig, options.preset, [*options.overrides, f"facts.source={source}"])
        for name, source in SOURCES.items()
    }
    config = configs["release"]
    taught, tried = (with_release_facts(split) for split in (config.corpus.train, config.corpus.dev))
    data = {name: prepare(one, taught, tried) for name, one in configs.items()}
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    torch.manual_seed(config.training.seed)
    encoder = data["release"].encoder
    words = encoder.vocabulary
    model = JointModel(config.model, len(words), words.n_output, len(encoder.predicates)).to(device_of(config.training))
    baseline = train(model, data["release"], "baseline", config, options.out / "checkpoints")
    held_out = records_of(CORPUS, config.corpus.dev)[: options.records or None]
    found: dict[str, object] = {}
    for name, one in configs.items():
        own, folder = copy.deepcopy(model), options.out / name
        loss = train(own, data[name], "joint", one, folder)
        if not (folder / "bundle").exists():
            save_bundle(folder / "bundle", bundle_of(one, data[name], own, {"joint.dev_loss": loss}, {}, resolved(one)))
        facts = [len(example.facts) for example in data[name].train]
        found[name] = {
            "facts_a_text": round(sum(facts) / len(facts), 3),
            "joint_dev_loss": round(loss, 4),
            **scores(load_bundle(folder / "bundle"), held_out),
        }
    result = {"benchmark": "fact_sources", "preset": options.preset, "overrides": options.overrides}
    result |= {
        "texts": len(facts),
        "baseline_dev_loss": round(baseline, 4),
        "minutes": round((time.monotonic() - began) / 60),
    }
    print(json.dumps(result | found))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
