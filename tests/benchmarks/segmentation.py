"""What Ray costs: the segmentation job against a plain multiprocessing loop with the same segmenter.

    python tests/benchmarks/segmentation.py [--facts embedded] [--corpus e2e] [--workers 2] [--records 0] [--rounds 3]

Both sides read the corpus, segment every different text of a shard once, align, and write one prepared Parquet file in
the input's order; the job writes its shards, offsets and errors besides. They get every fourth record of the corpus
(x1) and all of it (x4): other texts each time, so that nothing known helps, and the cache is off. The two take turns;
each is a process of its own, and the smallest time of the rounds counts, because other work on the machine can only
make it longer. Every worker has one thread.

The tax is taken from the difference of the scales, so that what happens once (starting Python, Ray, actors and models)
drops out: marginal seconds a text of the job over those of the loop, less one; once by the clock, and once by processor
seconds, which do not depend on what else the machine does. `peak` is the largest resident memory of all processes
together in MiB (shared pages counted once, PSS). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import tempfile
from pathlib import Path

from measuring import Numbers, in_turns, marginal, measured

from agggen.corpora.prepared import read_records, write_records
from agggen.facts import FactSegmenter
from agggen.records import Fact, Record, Reference

SCALES = (1, 4)


def take(corpus: str, split: str, count: int, scale: int, path: Path) -> int:
    """Writes `scale` of four parts of a corpus, or of its first `count` records; returns how many texts there are."""
    from agggen_platform.local import records_of

    records = records_of(corpus, split)[: count or None][:: SCALES[-1] // scale]
    write_records(path, records, corpus, split)
    return sum(len(record.references) for record in records)


# --- the plain loop --------------------------------------------------------------------------------------------------


CUT: FactSegmenter
"""Of a worker."""


def start_worker(facts: str) -> None:
    global CUT
    from agggen.facts.config import segmenter

    CUT = segmenter(facts)


def cut_records(records: list[Record]) -> list[Record]:
    from agggen.alignment import align

    texts = sorted({reference.text for record in records for reference in record.references}, key=len)
    facts = dict(zip(texts, CUT.segment(texts), strict=True))
    result = []
    for record in records:
        references = []
        for reference in record.references:
            pieces = facts[reference.text]
            said: list[list[str]] = [[] for _ in pieces]
            for name, fact in zip(record.predicates, align(record, pieces).fact_of, strict=True):
                said[fact or 0].append(name)
            cut = tuple(Fact(text, tuple(names)) for text, names in zip(pieces, said, strict=True))
            references.append(Reference(reference.text, cut, reference.plan))
        result.append(Record(record.id, record.triples, tuple(references), record.category))
    return result


def plain_loop(source: Path, out: Path, facts: str, workers: int) -> None:
    records = read_records(source)
    chunks = (records[start : start + 256] for start in range(0, len(records), 256))
    context = multiprocessing.get_context("spawn")  # as Ray's workers: nothing is inherited
    os.environ["OMP_NUM_THREADS"] = "1"  # as Ray sets it for its workers
    with context.Pool(workers, start_worker, (facts,)) as pool:
        done = (record for chunk in pool.imap(cut_records, chunks) for record in chunk)
        write_records(out / "train.parquet", done, "benchmark", "train")


def job(source: Path, out: Path, facts: str, workers: int) -> None:
    from agggen.config import load_config
    from agggen_platform.segmentation.config import SegmentConfig
    from agggen_platform.segmentation.job import segment

    settings = [f"facts.source={facts}", f"actors={workers}", "cache=off", "ray_address=local"]
    segment(str(source), str(out), load_config(SegmentConfig, None, settings))


SIDES = {"loop": plain_loop, "job": job}


# --- measuring -------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description="the segmentation job against a plain multiprocessing loop")
    parser.add_argument("--facts", default="embedded", help="embedded, clauses or sentences")
    parser.add_argument("--corpus", default="e2e")
    parser.add_argument("--split", default="train")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--records", type=int, default=0, help="only so many of the corpus; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        SIDES[options.side](options.source, options.out, options.facts, options.workers)
        return
    texts: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for scale in SCALES:
            path = Path(folder) / f"{scale}.parquet"
            texts[scale] = take(options.corpus, options.split, options.records, scale, path)

        def run(side: str, scale: int) -> Numbers:
            out = Path(folder) / side
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            command = [__file__, "--side", side, "--source", str(Path(folder) / f"{scale}.parquet"), "--out", str(out)]
            return measured(side, [*command, "--facts", options.facts, "--workers", str(options.workers)])

        best = in_turns(list(SIDES), texts, "text", options.rounds, run)
    result = marginal(best, "loop", "job", texts, "text")
    settings = {name: getattr(options, name) for name in ("facts", "corpus", "workers", "rounds")}
    settings |= {"texts": texts[SCALES[-1]]}
    print(json.dumps({"benchmark": "segmentation", **settings, **result}))


if __name__ == "__main__":
    main()
