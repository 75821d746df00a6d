"""The cost of the endpoint: speed and latencies of `agggen serve` against the library on the same cores.

    python tests/benchmarks/serving.py [--preset tiny | --preset webnlg] [--modes default haproxy] [--seconds 20]
        [--rounds 3] [KEY=VALUE ...]

With the paper's sizes, untrained (16 minutes for both modes on two idle cores):

    AGGGEN_DATA_HOME=... python tests/benchmarks/serving.py --preset webnlg --rounds 3 --seconds 20

As a quick test (3 minutes): ``python tests/benchmarks/serving.py --seconds 2 --rounds 1``.

For Serve's own proxy, and for HAProxy, with one generator replica:

- `cold_start`: seconds from starting ``agggen serve`` to the first response of /readyz.
- Records per second at saturation of three alternating modes, best of the rounds: `library` (`Generator.generate` in
  this process, with one thread, on blocks of 256 records), `stream` (`/v1/generate:stream`) and `batch` (`generate`
  with 64 records per request, four concurrent requests). `tax_*` is the endpoint's time divided by the library's, minus
  1; `cpu_ms_a_record` and `tax_cpu_*` are CPU time of all processes (with Ray, without the client), which other load on
  the machine distorts less.
- `latency`: of requests of one record by several concurrent clients, in ms.
The client runs on the same cores. The last line is JSON.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import torch
from measuring import free_port, latencies, print_result, tree_cpu_time
from untrained import PRESETS, development_records, save_untrained

from agggen.bundle import load_bundle
from agggen.generation.generator import Generator
from agggen.records import Record
from agggen_platform.client import Client

BLOCK = 256  # records per call of the library, as in `agggen generate`
BATCH = 64  # records per request
NDJSON = "application/x-ndjson"
BATCHES = 4  # concurrent requests
START_SECONDS = 300.0
SWITCHES = ("RAY_SERVE_ENABLE_HA_PROXY", "RAY_SERVE_THROUGHPUT_OPTIMIZED")


@contextmanager
def running(bundle: Path | str, settings: Sequence[str]) -> Iterator[tuple[str, psutil.Process, float]]:
    """Runs `agggen serve` in the block; yields its address, its process and the seconds until it was ready."""
    port, begin = free_port(), time.perf_counter()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "agggen_platform.cli.main", "serve", str(bundle), f"http.port={port}", *settings]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            while not _is_ready(url):
                if process.poll() is not None or time.perf_counter() - begin > START_SECONDS:
                    output.seek(0)
                    raise SystemExit(f"agggen serve did not start: {output.read().decode()[-3000:]}")
                time.sleep(0.05)
            yield url, psutil.Process(process.pid), time.perf_counter() - begin
        finally:
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                process.kill()
            for child in psutil.wait_procs(children, 15)[1]:
                child.kill()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


Send = Callable[[Client, list[dict[str, Any]]], int]


def by_stream(client: Client, records: list[dict[str, Any]]) -> int:
    """Sends one NDJSON request; returns the number of texts."""
    url, lines = f"{client.url}/v1/generate:stream", "".join(json.dumps(record) + "\n" for record in records)
    with httpx.stream("POST", url, content=lines, headers={"Content-Type": NDJSON}, timeout=600) as response:
        return sum(json.loads(line)["status"] == "ok" for line in response.iter_lines())


def by_batches(client: Client, records: list[dict[str, Any]]) -> int:
    """Sends `BATCHES` concurrent requests; returns the number of texts."""
    batches = [records[start : start + BATCH] for start in range(0, len(records), BATCH)]
    with ThreadPoolExecutor(BATCHES) as pool:
        return sum(answer["status"] == "ok" for answers in pool.map(client.generate, batches) for answer in answers)


def timed_library(generator: Generator, records: list[Record]) -> tuple[float, float]:
    """Generates the records; returns wall time and CPU time in seconds."""
    cpu, begin = time.process_time(), time.perf_counter()
    for start in range(0, len(records), BLOCK):
        generator.generate(records[start : start + BLOCK])
    return time.perf_counter() - begin, time.process_time() - cpu


def timed(send: Send, url: str, records: list[Record], server: psutil.Process) -> tuple[float, float]:
    """Sends the records; returns the wall time and the server's CPU time in seconds."""
    rows = [record.as_dict() for record in records]
    cpu, begin = tree_cpu_time(server), time.perf_counter()
    with Client(url, timeout=600, deadline=3600) as client:
        n_texts = send(client, rows)
    seconds = time.perf_counter() - begin
    if n_texts != len(records):
        raise SystemExit(f"only {n_texts} of {len(records)} records have a text")
    return seconds, tree_cpu_time(server) - cpu


def measure_saturation(
    generator: Generator, url: str, records: list[Record], server: psutil.Process, rounds: int
) -> dict[str, object]:
    """Speed, CPU time and overhead of the three modes."""
    modes: dict[str, Callable[[], tuple[float, float]]] = {
        "library": lambda: timed_library(generator, records),
        "stream": lambda: timed(by_stream, url, records, server),
        "batch": lambda: timed(by_batches, url, records, server),
    }
    best: dict[str, tuple[float, float]] = {}
    for number in range(rounds):
        for name in [*modes][:: -1 if number % 2 else 1]:
            seconds, cpu = modes[name]()
            best_seconds, best_cpu = best.get(name, (seconds, cpu))
            best[name] = min(seconds, best_seconds), min(cpu, best_cpu)
            print(
                f"  {name:8s} {len(records) / seconds:8.2f} records/s {1000 * cpu / len(records):8.2f} CPU-ms a record"
            )
    library_seconds, library_cpu = best["library"]
    return {
        "records_per_second": {name: round(len(records) / seconds, 2) for name, (seconds, _) in best.items()},
        "cpu_ms_a_record": {name: round(1000 * cpu / len(records), 2) for name, (_, cpu) in best.items()},
        **{f"tax_{name}": round(best[name][0] / library_seconds - 1, 3) for name in ("stream", "batch")},
        **{f"tax_cpu_{name}": round(best[name][1] / library_cpu - 1, 3) for name in ("stream", "batch")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="the endpoint against the library")
    parser.add_argument("--preset", choices=PRESETS, default="tiny", help="random weights of these sizes")
    parser.add_argument("--modes", nargs="+", choices=("default", "haproxy"), default=["default", "haproxy"])
    parser.add_argument("--seconds", type=float, default=20, help="approximate duration of a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the endpoint")
    options = parser.parse_intermixed_args()
    corpus, *_ = PRESETS[options.preset]
    settings = ["generator.min_replicas=1", "generator.max_replicas=1", *options.overrides]
    torch.set_num_threads(1)
    modes: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bundle = save_untrained(options.preset, Path(folder) / "bundle")
        sample = development_records(corpus, BLOCK)
        generator = load_bundle(bundle).generator()
        generator.generate(sample[:8])  # the first call builds tables and kernels
        speed = len(sample) / timed_library(generator, sample)[0]
        count = max(BATCH * BATCHES, int(speed * options.seconds))
        records = development_records(corpus, count)
        bodies = [json.dumps({"records": [record.as_dict()]}).encode() for record in sample]
        print(f"{count:,} records at saturation; the library writes about {speed:.1f} a second", flush=True)
        for mode in options.modes:
            os.environ.update(dict.fromkeys(SWITCHES, str(int(mode == "haproxy"))))
            with running(bundle, settings) as (url, server, start_seconds):
                print(f"{mode}: ready after {start_seconds:.1f} s", flush=True)
                modes[mode] = {"cold_start": round(start_seconds, 1)}
                modes[mode] |= measure_saturation(generator, url, records, server, options.rounds)
                modes[mode]["latency"] = by_clients = {}
                for clients in (1, 8, 32):
                    by_clients[clients] = latencies(f"{url}/v1/generate", bodies, clients, options.seconds)
                    print(f"  {clients:3d} clients  {by_clients[clients]}", flush=True)
    print_result(
        "serving",
        weights=f"random, {options.preset}",
        records=count,
        settings=options.overrides,
        modes=modes,
    )


if __name__ == "__main__":
    main()
