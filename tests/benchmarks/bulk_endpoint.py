"""`agggen bulk` against ``agggen bulk --endpoint``: throughput, CPU time per record, and failures under kills.

    python tests/benchmarks/bulk_endpoint.py [--records 800] [--rounds 3] [--workers 1] [--kill 20] [KEY=VALUE ...]

The shipped model generates texts for development records of its corpus. Workers have one thread: ``here`` generates in
the job's process (``--actors 0``), ``actors`` in Ray actors, and ``endpoint`` by requests to a running ``agggen serve``
with the same number of generators. Each mode runs the job with a quarter of the records and with all; the difference of
the two runs excludes the start-up cost. The modes alternate; results are medians over the rounds. `tax_cpu` is, per
round, the mode's CPU time divided by that of ``here``, minus 1. CPU time includes the job's processes, Ray, and for
``endpoint`` the server's processes; `idle_cpu_ms_a_second` is the server's CPU time without requests.

Then ``actors`` and ``endpoint`` run the job again while a worker process is killed every ``--kill`` seconds (an actor;
a generator, a planner and an ingress in turn). A job that ends with an error counts as a failure and is restarted. The
parts must equal those of ``here`` byte for byte. Takes 15 minutes on two idle cores. The last line is JSON.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil
from measuring import killing, print_result, timed_run, tree_cpu_time
from serving import running
from untrained import development_records

_PAUSE = 10.0
MODES = ("here", "actors", "endpoint")
WORKERS = {
    "actors": ["ray::MapWorker(MapBatches(BulkWorker"],
    "endpoint": [f"ray::ServeReplica:agggen:{kind}" for kind in ("Generator", "Planner", "Ingress")],
}


def job_command(source: Path, mode: str, url: str, workers: int = 1) -> tuple[list[str], Path]:
    """The Python arguments of a bulk job, and its output folder."""
    out = source.parent / f"{source.stem}-{mode}"
    folders = ["--out", str(out), "--runs", str(source.parent / "runs"), "--fresh", "ray_address=local"]
    workers_of = ["--endpoint", url] if mode == "endpoint" else ["--actors", str(workers) if mode == "actors" else "0"]
    return ["-m", "agggen_platform.cli.main", "bulk", "elements", str(source), *folders, *workers_of], out


def hash_of_parts(out: Path) -> str:
    """SHA-256 of the names and contents of all texts and rejects."""
    files = sorted(path for folder in ("texts", "rejects") for path in (out / folder).glob("*"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


def run_under_kills(command: list[str], out: Path, titles: Sequence[str], seconds: float) -> dict[str, object]:
    """Repeats the job until it ends without an error; returns its errors and the number of repeated shards."""
    errors: list[str] = []
    with killing(psutil.Process(), titles, seconds) as killed:
        while (run := subprocess.run([sys.executable, *command], capture_output=True, text=True)).returncode:
            errors.append(run.stderr.strip().splitlines()[-1][:300])
            command = [argument for argument in command if argument != "--fresh"]
            if len(errors) > 20:
                raise SystemExit(f"the job failed {len(errors)} times: {errors[-1]}")
    report = json.loads((out / "report.json").read_text())
    return {"kills": len(killed), "errors": errors, "redone_shards": report["shards"]["redone"]}


def main() -> None:
    parser = argparse.ArgumentParser(description="a bulk job in its process, in actors, and by an endpoint")
    parser.add_argument("--records", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="number of actors, and of the endpoint's generators")
    parser.add_argument("--kill", type=float, default=20, help="seconds between two kills; 0: none")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the endpoint")
    options = parser.parse_intermixed_args()
    sizes = (options.records // 4, options.records)
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        sources = [Path(folder) / f"{size}.jsonl" for size in sizes]
        for size, source in zip(sizes, sources, strict=True):
            lines = (json.dumps(record.as_dict()) + "\n" for record in development_records("elements", size))
            source.write_text("".join(lines), encoding="utf-8")
        replicas = [f"generator.{bound}_replicas={options.workers}" for bound in ("min", "max")]
        with running("elements", [*replicas, *options.overrides]) as (url, server, _):
            time.sleep(_PAUSE)  # until the processes are idle
            before = tree_cpu_time(server)
            time.sleep(_PAUSE)
            idle = (tree_cpu_time(server) - before) / _PAUSE
            for _ in range(options.rounds):
                rounds.append({})
                for mode in MODES:
                    numbers: list[dict[str, float]] = []
                    for source in sources:
                        command, _ = job_command(source, mode, url, options.workers)
                        before = tree_cpu_time(server)
                        numbers.append(timed_run(mode, command))
                        if mode == "endpoint":
                            numbers[-1]["cpu"] += tree_cpu_time(server) - before
                    seconds, cpu = (numbers[1][name] - numbers[0][name] for name in ("seconds", "cpu"))
                    records = sizes[1] - sizes[0]
                    rounds[-1][mode] = {
                        "records_per_second": records / seconds,
                        "cpu_ms_a_record": 1000 * cpu / records,
                    }
                    print(f"{mode:9}{rounds[-1][mode]}", flush=True)
            hashes = {hash_of_parts(job_command(sources[1], mode, url)[1]) for mode in MODES}
            killed = {}
            for mode, titles in WORKERS.items() if options.kill else ():
                command, out = job_command(sources[1], mode, url, options.workers)
                killed[mode] = run_under_kills(command, out, titles, options.kill)
                hashes.add(hash_of_parts(out))
                print(f"{mode:9}{killed[mode]}", flush=True)
    costs = [{mode: numbers[mode]["cpu_ms_a_record"] for mode in MODES} for numbers in rounds]
    print_result(
        "bulk_endpoint",
        records=sizes[1],
        workers=options.workers,
        sides={
            mode: {name: round(median(numbers[mode][name] for numbers in rounds), 2) for name in rounds[0][mode]}
            for mode in MODES
        },
        tax_cpu={mode: [round(cost[mode] / cost["here"] - 1, 3) for cost in costs] for mode in MODES[1:]},
        idle_cpu_ms_a_second=round(1000 * idle),
        killed=killed,
        same_bytes=len(hashes) == 1,
    )


if __name__ == "__main__":
    main()
