"""Adaptation to 10, 50, 200 and 1,000 texts of a new domain, against training from scratch.

    AGGGEN_DATA_HOME=... python tests/benchmarks/adapt.py FOLDER [--hold-out Astronaut] [--base 1500] [--plot FILE]

A base model is trained on WebNLG 2017 without one category (`--base` training records, spread over the split). For each
number of texts, the base is adapted to shuffled records of the category (`agggen.adapt`, with replay), and another
model is trained on them only (`agggen.train`, preset `auto`), with one development record per 25 texts (at least 2).
All models generate the category's development records, unconstrained (`verify=off`) and with default settings. Adapted
models also generate every n-th (`--every`) development record of the base, which measures forgetting. The base's
checker checks all texts. Models and results are saved in FOLDER, so the same command resumes. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ablations import rounded, scores_of

import agggen
from agggen.evaluation.held_out import write
from agggen.verification.check import Checker

Points = dict[str, dict[str, float]]
SEED = 1


def without_and_with(category: str, limit: int) -> tuple[agggen.Dataset, agggen.Dataset]:
    """WebNLG without the category, with `limit` training records, and the category's records."""
    splits = agggen.load_dataset("webnlg", splits=("train", "dev")).splits.items()
    old = {split: [record for record in records if record.category != category] for split, records in splits}
    new = {split: [record for record in records if record.category == category] for split, records in splits}
    old["train"] = old["train"][:: max(len(old["train"]) // limit, 1)][:limit]
    return agggen.Dataset(f"webnlg without {category}", old), agggen.Dataset(f"webnlg {category}", new)


def first_texts(data: agggen.Dataset, count: int) -> agggen.Dataset:
    """Shuffled training records with `count` texts, and a few development records."""
    chosen, texts = [], 0
    for record in random.Random(SEED).sample(data.train, len(data.train)):
        if texts < count:
            references = record.references[: count - texts]
            chosen.append(agggen.Record(record.id, record.triples, references, record.category))
            texts += len(references)
    dev = data.dev[: max(count // 25, 2)]
    return agggen.Dataset(f"{data.name}, {count} texts", {"train": chosen, "dev": dev})


def scores(model: agggen.Model, records: Sequence[agggen.Record], checker: Checker) -> dict[str, float]:
    result: dict[str, float] = {}
    for mode, config in (("free", model.settings(verify="off")), ("default", model.settings())):
        written = write(model.generator, records, config)
        values = scores_of("webnlg", written.records, written.texts, checker)
        result |= {f"{mode} {name}": value for name, value in values.items()}
    return result


def plot_points(points: Points, counts: Sequence[int], file: Path) -> None:
    """Plots BLEU and the share of whole values of unconstrained texts over the number of texts."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 2, figsize=(8, 3))
    for axis, name in zip(axes, ("free bleu", "free values_whole"), strict=True):
        for training in ("adapted", "from scratch"):
            axis.plot(counts, [points[f"{training}, {count}"][name] for count in counts], "o-", label=training)
        axis.set(xscale="log", xlabel="texts", ylabel=name)
    axes[0].legend()
    plt.savefig(file, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description="adaptation against training from scratch")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hold-out", default="Astronaut", metavar="CATEGORY")
    parser.add_argument("--base", type=int, default=1500, metavar="RECORDS")
    parser.add_argument("--texts", type=int, nargs="*", default=(10, 50, 200, 1000))
    parser.add_argument("--every", type=int, default=10, help="of the base's own development records")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    old, new = without_and_with(options.hold_out, options.base)
    baseline, joint = {"epochs": 8}, {"epochs": 3}
    base = agggen.train(old, "small", options.folder / "base", training={"baseline": baseline, "joint": joint})
    file = options.folder / "points.json"
    points: Points = json.loads(file.read_text()) if file.exists() else {}

    def measure_point(name: str, train: Callable[[], agggen.Model], score_old_domain: bool) -> None:
        if name not in points:
            began = time.process_time()
            model = train()
            values = {"cpu seconds": time.process_time() - began, **scores(model, new.dev, base.generator.checker)}
            if score_old_domain:
                old_values = scores(model, old.dev[:: options.every], base.generator.checker)
                values |= {f"old, {key}": value for key, value in old_values.items()}
            points[name] = values
            file.write_text(json.dumps(points))
        print(f"{name}: {rounded(points[name])}", flush=True)

    measure_point("base", lambda: base, True)
    for count in options.texts:
        data, folder = first_texts(new, count), options.folder / str(count)
        measure_point(f"adapted, {count}", partial(agggen.adapt, base, data, folder / "adapted", replay=old), True)
        measure_point(f"from scratch, {count}", partial(agggen.train, data, output=folder / "from_scratch"), False)
    if options.plot:
        plot_points(points, options.texts, options.plot)
    summary = {"benchmark": "adapt", "seed": SEED, "hold_out": options.hold_out, "base_records": len(old.train)}
    print(json.dumps(summary | {"dev_records": len(new.dev), "points": rounded(points)}))


if __name__ == "__main__":
    main()
