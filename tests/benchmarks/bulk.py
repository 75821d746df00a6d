"""What Ray costs a bulk generation: ``agggen bulk`` against a plain multiprocessing loop with the same bundle.

    python tests/benchmarks/bulk.py [--preset tiny | --preset webnlg | --bundle DIR --corpus NAME] [--workers 2]
        [--records N] [--rounds 3] [KEY=VALUE ...]

For the tax that counts (the paper's sizes, untrained; 15 minutes on two quiet cores, 11 with two rounds):

    AGGGEN_DATA_HOME=... python tests/benchmarks/bulk.py --preset webnlg

and to see that it works (2 minutes): ``python tests/benchmarks/bulk.py --records 400 --rounds 1``.

Both sides read JSON lines, write one text a record with one thread a worker, and put one file of JSON lines together
in the input's order; the job keeps parts, rejects and a manifest besides. The loop hands out blocks of as
many records as a shard has. They get every fourth record (x1) and all (x4) and take turns; each is a process of its
own, and the smallest time of the rounds counts.

The tax is taken from the difference of the scales, so that what happens once (starting Python, Ray, workers and models)
drops out; once by the clock, and once by processor seconds, which do not depend on what else the machine does. `start`
is what drops out, in seconds. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from pathlib import Path

import torch
from measuring import SCALES, add_arguments_of_a_side, compare
from untrained import PRESETS, development_records, save_untrained

from agggen.bundle import load_bundle
from agggen.corpora.json_lines import read_jsonl
from agggen.generation.generator import Generator
from agggen.records import Record

RECORDS = {"tiny": 8000, "webnlg": 1600}


# --- the plain loop --------------------------------------------------------------------------------------------------


GENERATOR: Generator
"""Of a worker."""


def start_worker(bundle: str) -> None:
    global GENERATOR
    torch.set_num_threads(1)
    GENERATOR = load_bundle(bundle).generator()


def write(records: list[Record]) -> str:
    results = GENERATOR.generate(records)
    return "".join(json.dumps(best.as_dict(), ensure_ascii=False) + "\n" for best, *_ in results)


def plain_loop(bundle: str, source: Path, out: Path, workers: int, settings: list[str]) -> None:
    from agggen_platform.sharded.config import ShardedConfig

    records = [record for record in read_jsonl(source) if isinstance(record, Record)]
    size = ShardedConfig().rows_a_shard(len(records))
    blocks = [records[start : start + size] for start in range(0, len(records), size)]
    os.environ["OMP_NUM_THREADS"] = "1"  # as Ray sets it for its workers
    with (
        multiprocessing.get_context("spawn").Pool(workers, start_worker, (bundle,)) as pool,
        (out / "texts.jsonl").open("w", encoding="utf-8") as file,
    ):
        file.writelines(pool.imap(write, blocks))


def job(bundle: str, source: Path, out: Path, workers: int, settings: list[str]) -> None:
    from agggen_platform.bulk.job import generate
    from agggen_platform.bulk.model import bulk_config, open_model

    model = open_model(bundle)
    own = [f"actors={workers}", "ray_address=local", "format=jsonl"]
    generate(model, str(source), str(out), bulk_config(model, [*own, *settings]), single_file=True)


SIDES = {"loop": plain_loop, "job": job}


# --- measuring -------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description="the bulk generation job against a plain multiprocessing loop")
    parser.add_argument("--preset", choices=PRESETS, default="tiny", help="random weights of these sizes")
    parser.add_argument("--bundle", help="a trained model instead")
    parser.add_argument("--corpus", help="whose development records are written about; default: the preset's")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--records", type=int, default=0, help=f"at x{SCALES[-1]}; default: {RECORDS}")
    parser.add_argument("--rounds", type=int, default=3)
    add_arguments_of_a_side(parser)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the job")
    options = parser.parse_intermixed_args()
    if options.side:
        SIDES[options.side](options.bundle, options.source, options.out, options.workers, options.overrides)
        asked, written = (path.read_bytes().count(b"\n") for path in (options.source, options.out / "texts.jsonl"))
        if written != asked:
            raise SystemExit(f"{written} texts about {asked} records")
        return
    sizes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        bundle = options.bundle or str(save_untrained(options.preset, Path(folder) / "bundle"))
        corpus = options.corpus or PRESETS[options.preset].corpus
        records = development_records(corpus, options.records or RECORDS[options.preset])
        sources = {scale: Path(folder) / f"{scale}.jsonl" for scale in SCALES}
        for scale, source in sources.items():
            chosen = records[:: SCALES[-1] // scale]
            sizes[scale] = len(chosen)
            lines = (json.dumps(record.as_dict(), ensure_ascii=False) + "\n" for record in chosen)
            source.write_text("".join(lines), encoding="utf-8")
        arguments = ["--bundle", bundle, "--workers", str(options.workers), *options.overrides]
        result = compare(__file__, sources, sizes, "record", options.rounds, arguments)
    settings = {name: getattr(options, name) for name in ("workers", "rounds", "overrides")}
    settings |= {"weights": "trained" if options.bundle else f"random, {options.preset}", "records": sizes[SCALES[-1]]}
    settings |= {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "torch": torch.__version__}
    print(json.dumps({"benchmark": "bulk", **settings, **result}))


if __name__ == "__main__":
    main()
