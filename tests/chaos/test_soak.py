"""Soak test: requests and bulk jobs on one cluster while processes are killed at seeded times.

No response is wrong or lost, memory is bounded, and at the end no process, placement group or reserved CPU is left.
AGGGEN_SOAK_SECONDS (60) is the duration of the kills.
"""

import json
import os
import random
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from agggen.bundle import load_bundle
from agggen.records import Record
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import Model, bulk_config, open_model
from tests.bulk_jobs import in_process, numbered_records, published, write_jsonl
from tests.processes import until
from tests.serve_app import PROCESSES, Load, kill, processes, serving
from tests.unit.serve.conftest import save_tiny_model

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]

SECONDS = float(os.environ.get("AGGGEN_SOAK_SECONDS", "60"))
VICTIMS = {**PROCESSES, "bulk worker": "ray::MapWorker(MapBatches(BulkWorker"}
PEOPLE = [f"{name} {number}" for name in ("Ida", "Nils", "Oda", "Per") for number in range(16)]
ROUND = 300.0  # seconds per round of kills; shorter lives of processes would hide memory growth
WARM_UP = 20.0  # seconds of a process without memory samples
MIN_SAMPLED = 40.0  # minimum seconds of samples per judged process
GROWTH_ONCE, GROWTH_A_MINUTE = 24.0, 2.0  # MiB
Samples = dict[tuple[str, int], list[tuple[float, float]]]
"""Seconds (monotonic) and MiB of unshared memory, by role and process id."""


def record_of(key: str) -> dict[str, Any]:
    """The record of the request with this key, a hexadecimal number."""
    person = PEOPLE[int(key, 16) % len(PEOPLE)]
    return {"id": key, "triples": [["Neon", "discoveredBy", person], ["Neon", "discoveryPlace", "London"]]}


def schedule() -> Iterator[tuple[float, str]]:
    """(seconds from the start, victim) of each kill: every victim once per round, in random order."""
    rng = random.Random(1)
    order = [victim for _ in range(max(1, int(SECONDS // ROUND))) for victim in rng.sample([*VICTIMS], len(VICTIMS))]
    for number, victim in enumerate(order):
        yield SECONDS * (number + rng.uniform(0, 0.6)) / len(order), victim


def kill_one(victim: str) -> None:
    """Kills a process of the role `victim`; waits for its replacement, except for bulk workers."""
    pids = until(lambda: processes(VICTIMS[victim]), victim)
    kill({min(pids)})
    if victim != "bulk worker":  # its job may end without a replacement
        until(lambda: processes(VICTIMS[victim]) - pids, f"another {victim}")


def bulk_jobs(model: Model, folder: Path, stop: threading.Event) -> int:
    """Runs bulk jobs, compares each with an uninterrupted one, and returns their number."""
    source, out = str(write_jsonl(folder / "in.jsonl", numbered_records(160))), folder / "out"
    generate(model, source, str(folder / "uninterrupted"), in_process(model))
    jobs = 0
    while not stop.is_set():
        shutil.rmtree(out, ignore_errors=True)
        generate(model, source, str(out), bulk_config(model, ["actors=2", "shard_rows=8"]))
        assert published(out) == published(folder / "uninterrupted")
        assert not [path for path in (out / ".work" / "input").rglob("*") if path.is_file()]
        jobs += 1
    return jobs


def sample_memory(stop: threading.Event) -> Samples:
    samples: Samples = defaultdict(list)
    while not stop.wait(1.0):
        for role, title in PROCESSES.items():
            for pid in processes(title):
                with suppress(psutil.Error):  # the process has ended
                    memory = psutil.Process(pid).memory_info()
                    samples[role, pid].append((time.monotonic(), (memory.rss - memory.shared) / 2**20))
    return samples


def growth(samples: list[tuple[float, float]]) -> tuple[float, float] | None:
    """Growth in MiB from the first to the last third (medians), and its limit; None for too short a life."""
    judged = [sample for sample in samples if sample[0] - samples[0][0] >= WARM_UP]
    seconds = judged[-1][0] - judged[0][0] if judged else 0.0
    if seconds < MIN_SAMPLED:
        return None
    third = len(judged) // 3
    first, last = (median(mib for _, mib in part) for part in (judged[:third], judged[-third:]))
    return last - first, GROWTH_ONCE + GROWTH_A_MINUTE * seconds / 60


def test_requests_and_bulk_jobs_while_processes_are_killed(tmp_path: Path) -> None:
    import ray
    from ray.util import placement_group_table

    bundle = save_tiny_model(tmp_path / "bundle")
    records = [Record.of(record_of(f"{number:x}")) for number in range(len(PEOPLE))]
    texts = [best.text for best, *_ in load_bundle(bundle).generator().generate(records)]
    stop = threading.Event()
    with serving(bundle) as endpoint, ThreadPoolExecutor(2) as pool:
        memory = pool.submit(sample_memory, stop)
        bulk = pool.submit(bulk_jobs, open_model(str(bundle)), tmp_path / "bulk", stop)
        try:
            with Load(endpoint.url, clients=2, record=record_of) as load:
                begin = time.monotonic()
                for seconds, victim in schedule():
                    time.sleep(max(0.0, begin + seconds - time.monotonic()))
                    kill_one(victim)
                until(lambda: endpoint.state().status == "RUNNING", "healthy application")
                time.sleep(WARM_UP + MIN_SAMPLED + 5)  # enough samples of the last replacements
                load.wait_for_recovery(time.monotonic())
        finally:
            stop.set()
        assert bulk.result() >= 1
    assert load.lost == []
    for key, body in load.answers.items():
        (answer,) = json.loads(body)["answers"]
        assert (answer["id"], answer["status"]) == (key, "ok")
        assert answer["texts"][0]["text"] == texts[int(key, 16) % len(texts)]
    judged = {process: mib for process, life in memory.result().items() if (mib := growth(life)) is not None}
    assert {role for role, _ in judged} >= {"ingress", "planner", "generator", "controller"}
    assert not {process: mib for process, mib in judged.items() if mib[0] > mib[1]}
    until(lambda: not any(processes(title) for title in VICTIMS.values()), "end of all processes")
    until(lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"], "release of all CPUs")
    assert all(group["state"] == "REMOVED" for group in placement_group_table().values())
