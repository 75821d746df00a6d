"""Scoring time: seconds of each text metric on the E2E test set, and of a paired test of two systems.

    AGGGEN_DATA_HOME=... python tests/benchmarks/scoring.py [--meteor] [--repeats 3]

TGen's and Slug's outputs of the E2E challenge (630 texts, 4,693 references) are scored by protocol e2e. METEOR is left
out unless asked for, as its Java process alone takes longer than all others. The tokenisers' time is in the metric
that needs them. Each number is the best of its repeats; the last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu

from agggen.evaluation.protocols import PROTOCOLS, measure
from agggen.evaluation.significance import RESAMPLES, paired_bootstrap


def seconds(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    best, found = float("inf"), None
    for _ in range(repeats):
        began = time.perf_counter()
        found = call()
        best = min(best, time.perf_counter() - began)
    return best, found


def e2e(home: Path) -> tuple[list[list[str]], dict[str, list[str]]]:
    references: dict[str, list[str]] = {}
    with (home / "e2e" / "testset_w_refs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            references.setdefault(row["mr"], []).append(row["ref"])
    systems = {}
    for name in ("tgen", "slug"):
        path = home / "outputs" / "e2e_challenge" / "primary" / f"{name}.tsv"
        rows = path.read_text(encoding="utf-8-sig").splitlines()[1:]
        systems[name] = [row.split("\t")[1].strip().strip('"') for row in rows if row]
    return list(references.values()), systems


def main() -> None:
    parser = argparse.ArgumentParser(description="seconds of each text metric")
    parser.add_argument("--meteor", action="store_true", help="time METEOR too, once")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    home = os.environ.get("AGGGEN_DATA_HOME")
    if not home:
        sys.exit("AGGGEN_DATA_HOME is not set: this benchmark needs the E2E challenge's outputs")
    references, systems = e2e(Path(home))

    result: dict[str, dict[str, float]] = {"e2e": {}, "paired_bootstrap": {}}
    light = [name for name in PROTOCOLS["e2e"] if name != "meteor"]
    for name in [*light, "meteor"] if options.meteor else light:
        repeats = 1 if name == "meteor" else options.repeats
        took, found = seconds(partial(measure, "e2e", systems["tgen"], references, [name]), repeats)
        result["e2e"][name] = round(took, 3)
        print(f"{name:8s} {took:7.2f} s  {found[name].corpus()}", flush=True)
    took, first = seconds(lambda: measure("e2e", systems["tgen"], references, light), options.repeats)
    result["e2e"]["all_but_meteor"] = round(took, 3)
    print(f"all but METEOR {took:.2f} s", flush=True)

    second = measure("e2e", systems["slug"], references, light)
    for name in light:
        took, found = seconds(partial(paired_bootstrap, first[name], second[name]), options.repeats)
        result["paired_bootstrap"][name] = round(took, 3)
        print(f"{name:8s} {took:7.2f} s  paired bootstrap p = {found.p_value:.3f}", flush=True)

    settings = {"texts": len(references), "references": sum(map(len, references)), "resamples": RESAMPLES}
    versions = {"sacrebleu": sacrebleu.__version__, "numpy": np.__version__}
    print(json.dumps({"benchmark": "scoring", "unit": "s", **result, **settings, **versions}))


if __name__ == "__main__":
    main()
