"""Ablations of how texts are searched and chosen: one trained model, one setting changed at a time, development data.

    AGGGEN_DATA_HOME=... python tests/benchmarks/ablations.py BUNDLE [SETTING[,SETTING] ...] [--corpus webnlg]

Every n-th record (`--every`) of the development set is written about with the bundle's own settings and with each
change (a setting as `agggen evaluate` takes it; several that belong together are joined by commas; without any, those
below). Of the texts: BLEU by the corpus's protocol, the measures of values by the strict and the lenient check
(`agggen.evaluation.values`), slot errors where the corpus has slots, and the CPU seconds as a multiple of those without
a change. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time

from control import of_texts, rounded, say

from agggen.bundle import load_bundle
from agggen.config import load_config, overrides_of
from agggen.evaluation.held_out import write
from agggen.generation.config import InferenceConfig
from agggen_platform.local import records_of

CHANGES = (
    "verify=off",
    "beam.min_tokens_per_triple=3",
    "beam.length_penalty=0",
    "beam.beam=10",
    "plans=1",
    "plans=10",
    "planner=two-stage",
    "plan_weight=0",
    "plan_weight=0.5",
    "level=2",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="one setting of the search changed at a time")
    parser.add_argument("bundle")
    parser.add_argument("changes", nargs="*", default=CHANGES)
    parser.add_argument("--corpus", default="webnlg")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--every", type=int, default=4)
    options = parser.parse_args()
    generator = load_bundle(options.bundle).generator()
    own = overrides_of(generator.config)
    records = records_of(options.corpus, options.split)[:: options.every]
    found: dict[str, dict[str, float]] = {}
    seconds = {}
    for change in ("", *options.changes):
        config = load_config(InferenceConfig, None, [*own, *filter(None, change.split(","))])
        began = time.process_time()
        written = write(generator, records, config)
        seconds[change] = time.process_time() - began
        cost = seconds[change] / seconds[""]
        found[change or "none"] = of_texts(options.corpus, written.records, written.texts, generator.checker) | {
            "cost": cost
        }
        say(f"{change or 'none'}: {rounded(found[change or 'none'])}")
    said = {"benchmark": "ablations", "corpus": options.corpus, "split": options.split, "records": len(records)}
    print(json.dumps(said | {"changes": rounded(found)}))


if __name__ == "__main__":
    main()
