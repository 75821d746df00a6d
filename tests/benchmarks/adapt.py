"""Adaptation to 10, 50, 200 and 1,000 texts of a new domain, against training from scratch.

    AGGGEN_DATA_HOME=... python tests/benchmarks/adapt.py BUNDLE FOLDER [--category Athlete]

BUNDLE is a model of WebNLG 2017, the new domain a category that only WebNLG 3.0 has. For each number of texts, the
bundle is adapted to shuffled training records of the category (`agggen.adapt`, which replays its corpus), and another
model is trained on them only (`agggen.train`, preset `auto`), with one development record per 25 texts (at least 2).
All models generate the category's development records, unconstrained (`verify=off`) and with default settings. Adapted
models also generate every n-th (`--every`) development record of WebNLG 2017, which measures forgetting. The bundle's
checker checks all texts. Models and results are saved in FOLDER, so the same command resumes. The last line is JSON.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ablations import rounded, scores_of

import agggen
from agggen.evaluation.held_out import generate_outputs
from agggen.verification.check import Checker

Points = dict[str, dict[str, float]]
SEED = 1


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
        outputs = generate_outputs(model.generator, records, config)
        values = scores_of("webnlg", outputs.records, outputs.texts, checker)
        result |= {f"{mode} {name}": value for name, value in values.items()}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="adaptation against training from scratch")
    parser.add_argument("bundle")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--category", default="Athlete")
    parser.add_argument("--texts", type=int, nargs="*", default=(10, 50, 200, 1000))
    parser.add_argument("--every", type=int, default=4, help="of the development records of WebNLG 2017")
    options = parser.parse_args()
    splits = agggen.load_dataset("webnlg-3.0", splits=("train", "dev")).splits.items()
    category = {
        split: [record for record in records if record.category == options.category] for split, records in splits
    }
    new_domain = agggen.Dataset(options.category, category)
    old_dev = agggen.load_dataset("webnlg", splits=("dev",)).dev[:: options.every]
    base = agggen.load_model(options.bundle)
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "points.json"
    points: Points = json.loads(file.read_text()) if file.exists() else {}

    def measure_point(name: str, train: Callable[[], agggen.Model], score_old_domain: bool) -> None:
        if name not in points:
            started_at = time.process_time()
            model = train()
            points[name] = {"cpu seconds": time.process_time() - started_at}
            points[name] |= scores(model, new_domain.dev, base.generator.checker)
            if score_old_domain:
                old_scores = scores(model, old_dev, base.generator.checker)
                points[name] |= {f"old, {key}": value for key, value in old_scores.items()}
            file.write_text(json.dumps(points))
        print(f"{name}: {rounded(points[name])}", flush=True)

    measure_point("base", lambda: base, True)
    for count in options.texts:
        data, folder = first_texts(new_domain, count), options.folder / str(count)
        measure_point(f"adapted, {count}", partial(agggen.adapt, options.bundle, data, folder / "adapted"), True)
        measure_point(f"from scratch, {count}", partial(agggen.train, data, output=folder / "from_scratch"), False)
    summary = {"benchmark": "adapt", "seed": SEED, "category": options.category, "dev_records": len(new_domain.dev)}
    print(json.dumps(summary | {"old_dev_records": len(old_dev), "points": rounded(points)}))


if __name__ == "__main__":
    main()
