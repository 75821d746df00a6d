"""Autoscaling of an endpoint under rising and falling load: replicas over time, latencies, failures under kills.

    python tests/benchmarks/scaling.py [KEY=VALUE ...] [--preset tiny | webnlg] [--clients 1 4 16 4 1] [--seconds 30]
        [--kill 0]

In each phase of `--seconds`, the given number of clients sends requests of eight records in a closed loop, with the
retries of `agggen_platform.client`. With ``--kill 30``, a replica is killed every 10 s: a generator, a planner and
an ingress in turn. Each text is compared with the library's. The last line is JSON:

- `requests`, `failed_at_first` (attempts that the client repeated), `lost` (without an answer), `wrong_texts`;
- `p50`, `p95`, `p99`: latency of the requests of a phase in ms, retries included; `records_per_second`;
- `cpu_ms_a_record`: of all processes of the endpoint, starts of replicas included, and of the library (not with kills,
  since the CPU time of killed processes is unknown);
- `replicas`: [second, clients, ingress, planners, generators], every two seconds.
"""

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import torch
from measuring import descendants_titled, killing, percentiles, print_result, tree_cpu_time
from serving import running
from untrained import PRESETS, development_records, save_untrained

from agggen.bundle import load_bundle
from agggen_platform.client import Client, EndpointError

TITLES = [f"ray::ServeReplica:agggen:{kind}" for kind in ("Ingress", "Planner", "Generator")]
SAMPLE = 256  # different records
BATCH = 8  # records per request


class CountingTransport(httpx.HTTPTransport):
    """Counts the attempts without a response of status 200."""

    failed = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = super().handle_request(request)
        except httpx.TransportError:
            CountingTransport.failed += 1
            raise
        CountingTransport.failed += response.status_code != 200
        return response


@dataclass
class Load:
    """Closed-loop load of concurrent clients, and its outcomes."""

    url: str
    records: Sequence[dict[str, Any]]
    texts: dict[str, str]
    """The library's texts by id."""
    seconds: list[float] = field(default_factory=list)
    clients: int = 0
    lost: int = 0  # requests and records without an answer
    wrong_texts: int = 0

    def run(self, clients: int, seconds: float) -> None:
        self.clients, end = clients, time.monotonic() + seconds
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(lambda number: self._client(number, end), range(clients)))

    def _client(self, number: int, end: float) -> None:
        draw = random.Random(number)
        with Client(self.url, transport=CountingTransport()) as client:
            while time.monotonic() < end:
                batch, begin = draw.sample(self.records, BATCH), time.monotonic()
                try:
                    answers = client.generate(batch)
                except EndpointError as error:
                    print(f"lost: {error}", flush=True)
                    self.lost += 1
                    continue
                self.seconds.append(time.monotonic() - begin)
                for record, answer in zip(batch, answers, strict=True):
                    if answer["status"] == "error":
                        print(f"lost: {answer['error']}", flush=True)
                        self.lost += 1
                    elif answer["texts"][0]["text"] != self.texts[record["id"]]:
                        self.wrong_texts += 1


def watch_replicas(server: psutil.Process, load: Load, timeline: list[list[int]], stop: threading.Event) -> None:
    """Appends [second, clients, ingress, planners, generators] every two seconds."""
    begin = time.monotonic()
    while not stop.wait(2):
        replicas = [len(descendants_titled(server, title)) for title in TITLES]
        timeline.append([round(time.monotonic() - begin), load.clients, *replicas])


def main() -> None:
    parser = argparse.ArgumentParser(description="autoscaling of an endpoint")
    parser.add_argument("--preset", choices=PRESETS, default="tiny", help="random weights of these sizes")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 4, 1], help="number in each phase")
    parser.add_argument("--seconds", type=float, default=30, help="duration of a phase")
    parser.add_argument("--kill", type=float, default=0, help="seconds per kill of each kind of replica; 0: none")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the endpoint")
    options = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = save_untrained(options.preset, Path(folder) / "bundle")
        records = development_records(PRESETS[options.preset][0], SAMPLE)
        torch.set_num_threads(1)
        generator, before = load_bundle(bundle).generator(), time.process_time()
        texts = {n_best[0].id: n_best[0].text for n_best in generator.generate(records)}
        library_cpu = (time.process_time() - before) / len(records)
        with (
            running(bundle, options.overrides) as (url, server, _),
            killing(server, TITLES, options.kill / len(TITLES)) as killed,
        ):
            load, stop = Load(url, [record.as_dict() for record in records], texts), threading.Event()
            timeline: list[list[int]] = []
            threading.Thread(target=watch_replicas, args=(server, load, timeline, stop), daemon=True).start()
            phases, cpu = [], tree_cpu_time(server)
            for clients in options.clients:
                first, phase = len(load.seconds), time.monotonic()
                load.run(clients, options.seconds)
                latencies = load.seconds[first:]
                speed = len(latencies) * BATCH / (time.monotonic() - phase)
                latency_ms = {name: round(value) for name, value in percentiles(latencies).items()}
                phases.append({"clients": clients, "records_per_second": round(speed, 1), **latency_ms})
                print(phases[-1], timeline[-1:], flush=True)
            cpu = tree_cpu_time(server) - cpu
            stop.set()
    cost = 1000 * cpu / max(1, len(load.seconds) * BATCH)
    print_result(
        "scaling",
        requests=len(load.seconds) + load.lost,
        failed_at_first=CountingTransport.failed,
        lost=load.lost,
        wrong_texts=load.wrong_texts,
        killed=len(killed),
        phases=phases,
        cpu_ms_a_record={
            "endpoint": None if options.kill else round(cost, 1),
            "library": round(1000 * library_cpu, 1),
        },
        replicas=timeline,
        settings=options.overrides,
    )


if __name__ == "__main__":
    main()
