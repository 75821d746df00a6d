"""Diversity of n texts per record: the n best texts, the texts of the n best plans, the texts of n sampled plans.

    python tests/benchmarks/diversity.py BUNDLE [--corpus elements] [-n 5]

For every n-th development record (`--every`) with at least three triples: self-BLEU (lower is more varied) and the
share of texts without a fault. The last line is JSON.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from agggen.bundle import load_bundle
from agggen.datasets import load_dataset
from agggen.evaluation.text_metrics import self_bleu
from agggen.generation.config import InferenceConfig
from agggen.generation.generator import Generation


def main() -> None:
    parser = argparse.ArgumentParser(description="n-best texts against texts of sampled plans")
    parser.add_argument("bundle")
    parser.add_argument("--corpus", default="elements")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("-n", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = load_bundle(options.bundle).generator()
    dev = load_dataset(options.corpus, splits=("dev",)).dev
    records = [record for record in dev if len(record.triples) > 2][:: options.every]

    def texts_of_plans(config: InferenceConfig) -> list[list[Generation]]:
        """The best text of each of the n plans that `config` finds."""
        plans_of = generator.planner.plan(records, options.n, config)
        jobs = [(record, planned.plan) for record, plans in zip(records, plans_of, strict=True) for planned in plans]
        texts = iter(generator.generate([record for record, _ in jobs], [plan for _, plan in jobs]))
        return [[next(texts)[0] for _ in plans] for plans in plans_of]

    settings = generator.config
    methods: dict[str, Callable[[], Sequence[Sequence[Generation]]]] = {
        "n-best texts": lambda: generator.generate(records, n_best=options.n),
        "n-best plans": lambda: texts_of_plans(replace(settings, planner="exact")),
        "sampled plans": lambda: texts_of_plans(replace(settings, planner="sample", top_p=0.9, seed=1)),
    }
    result = {name: diversity_scores(generate()) for name, generate in methods.items()}
    print(json.dumps({"corpus": options.corpus, "records": len(records), "n": options.n, "ways": result}))


def diversity_scores(texts: Sequence[Sequence[Generation]]) -> dict[str, float]:
    faultless = [not generation.faults for n_best in texts for generation in n_best]
    return {
        "self-BLEU": round(self_bleu([[text.text for text in n_best] for n_best in texts]).corpus().value, 2),
        "without a fault": round(100 * sum(faultless) / len(faultless), 2),
    }


if __name__ == "__main__":
    main()
