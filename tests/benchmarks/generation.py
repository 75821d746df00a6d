"""Generation speed on WebNLG in records per CPU-second on one thread: five plans per record against one, exact plans
against the paper's two-stage search.

    AGGGEN_DATA_HOME=... python tests/benchmarks/generation.py [BUNDLE] [--rows 320]

Without a bundle, the model has the paper's sizes and random weights; since such a model does not end its facts, they
are limited to 20 tokens, and the numbers measure tokens, not records. The variants alternate in one process; each
number is the best of two. `one_by_one`: five exact plans, one call per record, for every fifth record. The last
line is JSON.
"""

import argparse
import time
from dataclasses import replace

import torch
from measuring import print_result
from untrained import untrained

from agggen.bundle import load_bundle
from agggen.datasets import load_dataset
from agggen.generation.generator import Generator, InferenceConfig
from agggen.records import Record


def cpu_seconds(generator: Generator, records: list[Record], config: InferenceConfig) -> float:
    started_at = time.process_time()
    generator.generate(records, config=config)
    return time.process_time() - started_at


def main() -> None:
    parser = argparse.ArgumentParser(description="generation speed on WebNLG's development set")
    parser.add_argument("bundle", nargs="?", help="a trained model (default: random weights)")
    parser.add_argument("--rows", type=int, default=320, help="hypotheses that are decoded together")
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = (load_bundle(options.bundle) if options.bundle else untrained("webnlg")).generator()
    dev = load_dataset("webnlg", splits=("dev",)).split("dev")
    records = dev[:: len(dev) // 100][:100]
    beam = replace(generator.config.beam, beam=5)
    base = replace(generator.config, beam=beam, rows=options.rows, planner="exact", plans=5)
    variants = {"exact_5": base, "exact_1": replace(base, plans=1), "two_stage_5": replace(base, planner="two-stage")}
    generator.generate(records[:2], config=base)  # the first call builds tables and kernels
    best: dict[str, float] = {}
    for _ in range(2):
        for name, config in variants.items():
            seconds = cpu_seconds(generator, records, config)
            best[name] = min(seconds, best.get(name, seconds))
            print(f"{name:12s} {len(records) / seconds:6.2f} records per CPU-second", flush=True)
        seconds = sum(cpu_seconds(generator, [record], base) for record in records[::5]) * 5
        best["one_by_one"] = min(seconds, best.get("one_by_one", seconds))
    print_result(
        "generation",
        records_per_cpu_second={name: round(len(records) / seconds, 3) for name, seconds in best.items()},
        records=len(records),
        rows=options.rows,
        weights="trained" if options.bundle else "random",
    )


if __name__ == "__main__":
    main()
