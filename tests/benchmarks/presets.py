"""Training time and development scores of the presets for a user's own data, on a corpus or a sample of it.

    AGGGEN_DATA_HOME=... OMP_NUM_THREADS=1 python tests/benchmarks/presets.py tiny small [--corpus webnlg --records 800]

`--records` and `--dev` sample training and development records without replacement, with seed 1 (default: all). Each
preset is trained once, with its own seed, and scored (see `ablations.py`) with `verify=strict` (the default) and
`verify=off`. The last line is JSON.
"""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from ablations import rounded, scores_of

import agggen
from agggen.evaluation.held_out import generate_outputs
from agggen.records import Record


def sampled(records: list[Record], count: int) -> list[Record]:
    """A sample of `count` records in corpus order; all records for 0."""
    chosen = set(random.Random(1).sample(range(len(records)), count)) if count else range(len(records))
    return [record for index, record in enumerate(records) if index in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description="training time and development scores of presets")
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--corpus", default="elements")
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--dev", type=int, default=0)
    options = parser.parse_args()
    corpus = agggen.load_dataset(options.corpus, splits=("train", "dev"))
    splits = {"train": sampled(corpus.train, options.records), "dev": sampled(corpus.dev, options.dev)}
    data = agggen.load_dataset(splits, name=options.corpus)
    sizes = {f"{split} texts": sum(len(record.references) for record in records) for split, records in splits.items()}
    results: dict[str, dict[str, float]] = {}
    for preset in options.presets:
        with tempfile.TemporaryDirectory() as folder:
            started_at = time.process_time()
            model = agggen.train(data, preset, Path(folder) / "run", progress=False)
            minutes = {"CPU minutes": (time.process_time() - started_at) / 60}
        for verify in ("strict", "off"):
            outputs = generate_outputs(model.generator, data.dev, model.settings(verify=verify))
            scores = scores_of(options.corpus, outputs.records, outputs.texts, model.generator.checker)
            results[f"{preset} verify={verify}"] = scores | minutes
            print(f"{preset} verify={verify}: {rounded(results[f'{preset} verify={verify}'])}")
    summary = {"benchmark": "presets", "corpus": options.corpus, "train records": len(data.train), **sizes}
    print(json.dumps(summary | {"presets": rounded(results)}))


if __name__ == "__main__":
    main()
