"""Ablations of search and text selection on development data: each run changes one setting or the model.

    AGGGEN_DATA_HOME=... python tests/benchmarks/ablations.py BUNDLE [SETTING[,SETTING] ...] [--corpus webnlg]

Every n-th record (`--every`) is generated with the bundle's own settings and with each change (default: `CHANGES`). A
change is a comma-separated list of settings of `agggen evaluate`, or of bundle=FOLDER for another model. The checker of
BUNDLE checks all texts. Scores: BLEU by the corpus's protocol, strict and lenient value measures
(`agggen.evaluation.values`), slot errors if the corpus has slots, and CPU time relative to the unchanged settings. The
last line is JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence

from agggen.bundle import load_bundle
from agggen.config import load_config, overrides_of
from agggen.datasets import load_dataset
from agggen.evaluation.held_out import generate_outputs
from agggen.evaluation.systems import slot_statistics
from agggen.evaluation.values import check_values
from agggen.generation.config import InferenceConfig
from agggen.records import Record
from agggen.report.sections import TextMetrics, protocol_of, text_scores
from agggen.verification.check import Checker
from agggen.verification.e2e import slot_of

CHANGES = ("verify=off", "choice=score", "plans=1", "plan_weight=1", "planner=two-stage", "beam.beam=10")


def main() -> None:
    parser = argparse.ArgumentParser(description="one setting of the search changed at a time")
    parser.add_argument("bundle")
    parser.add_argument("changes", nargs="*", default=CHANGES)
    parser.add_argument("--corpus", default="webnlg")
    parser.add_argument("--every", type=int, default=4)
    options = parser.parse_args()
    base = load_bundle(options.bundle).generator()
    bundle_settings = overrides_of(base.config)
    records = load_dataset(options.corpus, splits=("dev",)).dev[:: options.every]
    results: dict[str, dict[str, float]] = {}
    base_seconds = 0.0
    for change in ("", *options.changes):
        parts = [part for part in change.split(",") if part]
        bundles = [part.removeprefix("bundle=") for part in parts if part.startswith("bundle=")]
        generator = load_bundle(bundles[0]).generator() if bundles else base
        settings = [part for part in parts if not part.startswith("bundle=")]
        config = load_config(InferenceConfig, None, [*bundle_settings, *settings])
        started_at = time.process_time()
        outputs = generate_outputs(generator, records, config)
        seconds = time.process_time() - started_at
        base_seconds = base_seconds or seconds
        name = change or "none"
        results[name] = scores_of(options.corpus, outputs.records, outputs.texts, base.checker)
        results[name]["cost"] = seconds / base_seconds
        print(f"{name}: {rounded(results[name])}", file=sys.stderr, flush=True)
    summary = {"benchmark": "ablations", "corpus": options.corpus, "records": len(records)}
    print(json.dumps(summary | {"changes": rounded(results)}))


def scores_of(corpus: str, records: Sequence[Record], texts: Sequence[str], checker: Checker) -> dict[str, float]:
    (section, *_) = text_scores(TextMetrics(protocol_of(corpus), ("bleu",)), records, texts).sections
    scores = {measure.name: measure.score.value for measure in section.measures if measure.score is not None}
    values = check_values(records, texts, checker).statistics
    result = {"bleu": scores["bleu"]} | {name: statistics.corpus().value for name, statistics in values.items()}
    if all(slot_of(triple.predicate) for record in records for triple in record.triples):
        result |= {"ser": slot_statistics(records, texts)["ser.ser"].corpus().value}
    return result


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
