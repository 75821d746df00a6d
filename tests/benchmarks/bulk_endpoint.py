"""`agggen bulk` beside ``agggen bulk --endpoint``: throughput, processor time a record, and failures under kills.

    python tests/benchmarks/bulk_endpoint.py [--bundle elements] [--corpus elements] [--records 800] [--rounds 3]
        [--workers 1] [--kill 20] [KEY=VALUE ...]

Workers have one thread: ``here`` writes in the job's process (``--actors 0``), ``actors`` in actors of Ray, and
``endpoint`` by requests to an ``agggen serve`` with as many generators, started before. Each side does the job with a
quarter of the records and with all; numbers are differences of the two, so that what happens once drops out. The sides
take turns for some rounds: numbers are medians, and `tax_cpu` has, for each round, the side's processor time over that
of ``here``, less one. Processor time is that of the job's processes, Ray's among them, and for ``endpoint`` of all
processes of the server besides; `idle_cpu_ms_a_second` of it are what the server takes without any request.

Then ``actors`` and ``endpoint`` do the job once more while a worker process gets SIGKILL every ``--kill`` seconds (an
actor; a generator, a planner or an ingress in turn). A job that ends with an error is begun again: a failure. The parts
must be those of ``here``, byte for byte. 15 minutes on two quiet cores. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from statistics import median

import psutil
import torch
from measuring import Numbers, cpu_of, free_port, measured
from serving import running
from untrained import development_records

_PAUSE = 10.0
COMMAND = ["-m", "agggen_platform.cli.main"]
SIDES = ("here", "actors", "endpoint")
WORKERS = {
    "actors": ["ray::MapWorker(MapBatches(BulkWorker"],
    "endpoint": [f"ray::ServeReplica:agggen:{kind}" for kind in ("Generator", "Planner", "Ingress")],
}


def job(bundle: str, source: Path, side: str, url: str, workers: int = 1) -> tuple[list[str], Path]:
    """The arguments of a job and its output."""
    out = source.parent / f"{source.stem}-{side}"
    where = ["--out", str(out), "--runs", str(source.parent / "runs"), "--fresh", "ray_address=local"]
    more = ["--endpoint", url] if side == "endpoint" else ["--actors", str(workers) if side == "actors" else "0"]
    return [*COMMAND, "bulk", bundle, str(source), *where, *more], out


def parts_of(out: Path) -> str:
    """SHA-256 of all texts and rejects with their names."""
    files = sorted(path for folder in ("texts", "rejects") for path in (out / folder).glob("*"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


@contextmanager
def kills(titles: Sequence[str], seconds: float) -> Iterator[list[str]]:
    """Kills a descendant process of these titles in turn at an interval in seconds; yields the titles of the killed."""
    done, killed = threading.Event(), list[str]()

    def run() -> None:
        for number in count():
            if done.wait(seconds):
                return
            title = titles[number % len(titles)]
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if " ".join(process.cmdline()).startswith(title):
                        process.kill()
                        killed.append(title)
                        break

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()


def under_kills(command: list[str], out: Path, titles: Sequence[str], seconds: float) -> dict[str, object]:
    """The job until it ends without an error; how often it failed and how many shards were begun again."""
    failures, begin, errors = 0, time.monotonic(), list[str]()
    with kills(titles, seconds) as killed:
        while (run := subprocess.run([sys.executable, *command], capture_output=True, text=True)).returncode:
            failures += 1
            errors.append(run.stderr.strip().splitlines()[-1][:300])
            command = [argument for argument in command if argument != "--fresh"]
            if failures > 20:
                raise SystemExit(f"the job fails again and again: {errors[-1]}")
    report = json.loads((out / "report.json").read_text())
    return {
        "seconds": round(time.monotonic() - begin, 1),
        "kills": len(killed),
        "failures": failures,
        "errors": errors,
        "redone_shards": report["shards"]["redone"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="a bulk job in this process, in actors, and by an endpoint")
    parser.add_argument("--bundle", default="elements")
    parser.add_argument("--corpus", default="elements", help="whose development records are written about")
    parser.add_argument("--records", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="actors, and generators of the endpoint")
    parser.add_argument("--kill", type=float, default=20, help="seconds between two kills; 0: none")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the endpoint")
    options = parser.parse_intermixed_args()
    sizes = (options.records // 4, options.records)
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        sources = [Path(folder) / f"{size}.jsonl" for size in sizes]
        for size, source in zip(sizes, sources, strict=True):
            lines = (json.dumps(record.as_dict()) + "\n" for record in development_records(options.corpus, size))
            source.write_text("".join(lines), encoding="utf-8")
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        replicas = [f"generator.{bound}_replicas={options.workers}" for bound in ("min", "max")]
        settings = [f"http.port={port}", *replicas, *options.overrides]
        with running([*COMMAND, "serve", options.bundle, *settings], url, "/readyz") as (server, _):
            time.sleep(_PAUSE)  # what follows the start
            before = cpu_of(server)
            time.sleep(_PAUSE)
            idle = (cpu_of(server) - before) / _PAUSE
            for _ in range(options.rounds):
                rounds.append({})
                for side in SIDES:
                    numbers: list[Numbers] = []
                    for source in sources:
                        command, _ = job(options.bundle, source, side, url, options.workers)
                        before = cpu_of(server)
                        numbers.append(measured(side, command))
                        if side == "endpoint":
                            numbers[-1]["cpu"] += cpu_of(server) - before
                    seconds, cpu = (numbers[1][name] - numbers[0][name] for name in ("seconds", "cpu"))
                    more = sizes[1] - sizes[0]
                    rounds[-1][side] = {"records_per_second": more / seconds, "cpu_ms_a_record": 1000 * cpu / more}
                    print(f"{side:9}{rounds[-1][side]}", flush=True)
            shared = {parts_of(job(options.bundle, sources[1], side, url)[1]) for side in SIDES}
            killed = {}
            for side, titles in WORKERS.items() if options.kill else ():
                command, out = job(options.bundle, sources[1], side, url, options.workers)
                killed[side] = under_kills(command, out, titles, options.kill)
                shared.add(parts_of(out))
                print(f"{side:9}{killed[side]}", flush=True)
    table = {
        side: {name: round(median(turn[side][name] for turn in rounds), 2) for name in rounds[0][side]}
        for side in SIDES
    }
    tax = {
        side: [round(turn[side]["cpu_ms_a_record"] / turn["here"]["cpu_ms_a_record"] - 1, 3) for turn in rounds]
        for side in SIDES[1:]
    }
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "torch": torch.__version__}
    result = {"records": sizes[1], "workers": options.workers, "sides": table, "tax_cpu": tax}
    result |= {"idle_cpu_ms_a_second": round(1000 * idle), "kill_s": options.kill, "killed": killed}
    print(json.dumps({"benchmark": "bulk_endpoint", **result, "same_bytes": len(shared) == 1, **machine}))


if __name__ == "__main__":
    main()
