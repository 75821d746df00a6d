"""An endpoint and bulk jobs on one cluster under load, while their processes are killed at seeded moments.

    python -m tests.chaos.soak --seconds 600 --seed 1 FOLDER

ends in a JSON line: what was asked and answered, what was killed and how long it took to come back, how memory and open
files of each process grew, and what was left behind. `tests/chaos/test_soak.py` says what of it must hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from agggen.bundle import load_bundle
from agggen.records import Record
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import Model, bulk_config, open_model
from agggen_platform.client import Client, Retry
from agggen_platform.ray_cluster import connected
from agggen_platform.serving.deploy import Endpoint
from tests.bulk_jobs import here, numbered_records, published, write_jsonl
from tests.chaos.growth import Watch
from tests.serve_app import PROCESSES, Load, kill, processes, serving, until
from tests.unit.serve.conftest import save_tiny_model

BULK = "ray::MapWorker(MapBatches(BulkWorker"
VICTIMS = {**PROCESSES, "bulk worker": BULK}
WATCHED = ("ingress", "planner", "generator", "controller")
"""Roles of which at least one process must live long enough for its growth to be judged."""
CPUS = 8  # of Ray's counting; the machine may have fewer
_PEOPLE = [f"{name} {number}" for name in ("Ida", "Nils", "Oda", "Per") for number in range(16)]
_STREAM = 60  # records, of which one is bad
_EDGE = 6.0  # seconds without a kill at the beginning and the end


def triples(number: int) -> list[list[str]]:
    """Of the record that requests with this number ask for."""
    return [["Neon", "discoveredBy", _PEOPLE[number % len(_PEOPLE)]], ["Neon", "discoveryPlace", "London"]]


def numbered(key: str) -> dict[str, Any]:
    """The record of the request under `key`, a hexadecimal number."""
    return {"id": key, "triples": triples(int(key, 16))}


def schedule(seconds: float, seed: int) -> list[tuple[float, str]]:
    """When who is killed: each victim once a round, in another order, at a moment of its own part of the time.

    There is a round for every 300 seconds, so that processes live long enough in a long soak to be seen to grow.
    """
    chance = random.Random(seed)
    rounds = max(1, int(seconds // 300))
    victims = [victim for _ in range(rounds) for victim in chance.sample(sorted(VICTIMS), len(VICTIMS))]
    part = (seconds - 2 * _EDGE) / len(victims)
    return [(_EDGE + part * (place + chance.uniform(0, 0.6)), victim) for place, victim in enumerate(victims)]


class Background:
    """Does something again and again in a thread of its own until it is told to stop; a context manager."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(240)
        if self._thread.is_alive():
            self.wrong.append(f"{type(self).__name__} does not end")

    def once(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.once()
                self.count += 1
            except Exception:
                self.wrong.append(traceback.format_exc())
                time.sleep(1)


class Streams(Background):
    """One client that streams."""

    def __init__(self, url: str, texts: Sequence[str]) -> None:
        super().__init__()
        self._url, self._texts = url, texts
        good = [{"id": f"s{number}", "triples": triples(number)} for number in range(_STREAM)]
        self._records = [*good[:7], {"id": "bad", "triples": []}, *good[7:]]

    def once(self) -> None:
        patient = Retry(attempts=1000, longest_wait=1)
        with Client(self._url, retry=patient) as client:
            answers = list(client.stream(iter(self._records)))
        assert [answer["id"] for answer in answers] == [record["id"] for record in self._records]
        for answer in answers:
            if answer["id"] == "bad":
                assert answer["status"] == "error", answer
            else:
                assert answer["status"] == "ok", answer
                expected = self._texts[int(str(answer["id"])[1:]) % len(self._texts)]
                assert answer["texts"][0]["text"] == expected, answer


class BulkJobs(Background):
    """One bulk job after the other, each compared with one that nobody disturbed."""

    def __init__(self, model: Model, folder: Path) -> None:
        super().__init__()
        self._model, self._folder = model, folder
        self._source = str(write_jsonl(folder / "in.jsonl", numbered_records(160)))
        self.redone = 0
        generate(model, self._source, str(folder / "wanted"), here(model))
        self._wanted = published(folder / "wanted")

    def once(self) -> None:
        out = self._folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        settings = bulk_config(self._model, ["actors=2", "shard_rows=8"])
        self.redone += generate(self._model, self._source, str(out), settings).redone
        assert published(out) == self._wanted, "another output than the undisturbed job's"
        left = [path.relative_to(out) for path in (out / "work").rglob("*") if path.is_file()]
        assert not left, f"left behind: {left}"


def wrong_answers(load: Load, texts: Sequence[str]) -> list[str]:
    """Answers that are not the library's, or lack."""
    wrong = list(load.lost)
    for key, body in load.answers.items():
        (answer,) = json.loads(body)["answers"]
        said = answer["texts"][0]["text"] if answer["status"] == "ok" else answer
        if (answer["id"], said) != (key, texts[int(key, 16) % len(texts)]):
            wrong.append(f"{key}: {answer}")
    return wrong


def kill_by(plan: Sequence[tuple[float, str]], begin: float, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Kills as planned, each when its time has come; says how long it took until there was another process."""
    for when, victim in plan:
        time.sleep(max(0.0, begin + when - time.monotonic()))
        doomed = {chance.choice(sorted(until(lambda victim=victim: processes(VICTIMS[victim]), victim)))}
        before = processes(VICTIMS[victim])
        killed = kill(doomed)
        back = None
        if victim != "bulk worker":  # whose job may end before another is needed
            until(lambda victim=victim, before=before: processes(VICTIMS[victim]) - before, f"another {victim}")
            back = time.monotonic() - killed
        yield {"at": killed - begin, "killed": killed, "victim": victim, "back": back}


def measured(endpoint: Endpoint, model: Model, texts: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """All the load and all the kills; when this returns, the load has ended."""
    load = Load(endpoint.url, clients=2, record=numbered)
    streams = Streams(endpoint.url, texts)
    bulk = BulkJobs(model, arguments.folder / "bulk")
    watch = Watch(PROCESSES, max(1.0, arguments.seconds / 300))
    with watch, load, streams, bulk:
        begin = time.monotonic()
        kills = list(kill_by(schedule(arguments.seconds, arguments.seed), begin, random.Random(arguments.seed)))
        time.sleep(max(0.0, begin + arguments.seconds - time.monotonic()))
        until(lambda: endpoint.state().status == "RUNNING", "a whole application")
        # A process killed late is young now: the load goes on until one of each role has lived long enough to judge.
        until(lambda: {*WATCHED} <= {process.role for process in watch.found()}, "a long life of each role", 180)
        load.recovered(time.monotonic())
        seconds = time.monotonic() - begin
    ends = [*(one["killed"] for one in kills[1:]), float("inf")]
    for one, end in zip(kills, ends, strict=True):
        failed = [when for when, how in load.times if one["killed"] < when < end and how != "200"]
        one["failing"] = max(failed, default=one["killed"]) - one.pop("killed")
    return {
        "seconds": seconds,
        "kills": kills,
        "requests": len(load.answers),
        "attempts_that_failed": dict(Counter(how for _, how in load.times if how != "200")),
        "streams": streams.count,
        "bulk_jobs": bulk.count,
        "bulk_shards_redone": bulk.redone,
        "wrong": [*wrong_answers(load, texts), *streams.wrong, *bulk.wrong],
        "growth": [asdict(one) | {"allowed": one.allowed, "leaks": one.leaks} for one in watch.found()],
    }


def alive() -> list[str]:
    """The classes of the cluster's living actors."""
    from ray._private import state  # `ray.util.state` would need the dashboard

    actors = state.actors().values()
    return sorted(str(one.get("ActorClassName")) for one in actors if one["State"] != "DEAD")


def soak(arguments: argparse.Namespace) -> dict[str, Any]:
    """All of it, on a cluster that lives as long."""
    import ray

    os.environ["RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S"] = "1"  # as `agggen serve` has it on a cluster of its own
    bundle = save_tiny_model(arguments.folder / "bundle")
    library = load_bundle(bundle).generator()
    records = [Record.of({"id": str(number), "triples": triples(number)}) for number in range(len(_PEOPLE))]
    texts = [best.text for best, *_ in library.generate(records)]
    with connected(address="local", cpus=CPUS, gpus=0):
        with serving(bundle) as endpoint:
            found = measured(endpoint, open_model(str(bundle)), texts, arguments)
            until(lambda: not processes(BULK), "end of the bulk workers")
            found["actors_while_serving"] = alive()
        until(lambda: not any(processes(title) for title in VICTIMS.values()), "end of Serve's processes")
        until(lambda: ray.available_resources().get("CPU") == CPUS, "all CPUs given back")
        found["actors_left"] = alive()
        groups = ray.util.placement_group_table().values()
        found["placement_groups_left"] = sum(group["state"] != "REMOVED" for group in groups)
    until(lambda: not psutil.Process().children(recursive=True), "end of Ray's processes", 60)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    print("\n" + json.dumps(soak(parser.parse_args())))
