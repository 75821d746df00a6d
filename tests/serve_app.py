"""A real endpoint for tests: the application on Ray Serve, load on it, and its processes."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil

from agggen.config import load_config
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.deploy import Endpoint, endpoint
from agggen_platform.serving.target import find_target
from tests.processes import free_ports, until

RECORDS: list[dict[str, Any]] = [
    {"id": "a", "triples": [["Neon", "discoveredBy", "Ramsay"], ["Neon", "discoveryPlace", "London"]]},
    {"id": "b", "triples": [["Silicon", "symbol", "Si"], ["Silicon", "category", "metalloid"]]},
]
PROCESSES = {
    "generator": "ray::ServeReplica:agggen:Generator",
    "planner": "ray::ServeReplica:agggen:Planner",
    "ingress": "ray::ServeReplica:agggen:Ingress",
    "controller": "ray::ServeController",
    "proxy": "ray::ProxyActor",
}
"""How the titles of the endpoint's processes begin."""


@contextmanager
def serving(bundle: object, *settings: str) -> Iterator[Endpoint]:
    """Serves the bundle at a free port of 127.0.0.1, on this process's Ray cluster or on a new one.

    `settings` are overrides of `ServeConfig` such as ``generator.max_replicas=2``. At the end Serve is shut down, so
    that the next test may start it with other settings.
    """
    small = ["ingress.cpus=0.2", "planner.cpus=0.2", "generator.cpus=0.2"]
    fixed = [f"bundle={bundle}", f"http.port={free_ports(1)[0]}", *small]
    config = load_config(ServeConfig, None, [*fixed, *settings])
    with endpoint(config, say=lambda text: print(text)) as served:
        served.deploy(find_target(config))
        yield served


def replicas(deployment: str) -> set[int]:
    """The process ids of a deployment's replicas (Ingress, Planner, Generator) below this process."""
    return processes(f"ray::ServeReplica:agggen:{deployment}")


def processes(title: str) -> set[int]:
    """The ids of this process's descendants whose title begins with `title`."""
    pids = set()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if " ".join(child.cmdline()).startswith(title):
                pids.add(child.pid)
    return pids


def unique_record(key: str) -> dict[str, Any]:
    """A record that occurs only in the request named `key`."""
    return {"id": key, "triples": [["Neon", "discoveredBy", key[:8]], ["Neon", "discoveryPlace", key[8:12]]]}


@dataclass
class Load:
    """Clients that send one request after the other: each has a random key and the `record` of that key.

    A retryable request is retried until it has an answer.
    """

    url: str
    clients: int = 3
    record: Callable[[str], dict[str, Any]] = unique_record
    first: Counter[str] = field(default_factory=Counter)
    """Outcomes of first attempts: a status, or the name of a connection error."""
    answers: dict[str, bytes] = field(default_factory=dict)
    """The body of each request that was answered, by its key."""
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    """All requests, by their keys."""
    times: list[tuple[float, str]] = field(default_factory=list)
    """The time (monotonic) and outcome of each attempt."""
    lost: list[str] = field(default_factory=list)
    """The reason for each request that was never answered."""

    def __enter__(self) -> Load:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(self.clients)]
        for thread in self._threads:
            thread.start()
        until(lambda: len(self.answers) >= self.clients, "answers under load")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a client did not stop"

    def recovered(self, since: float) -> float:
        """Waits until five attempts in a row succeed; returns the seconds from `since` to the last failure."""

        until(lambda: [outcome for when, outcome in self.times if when > since][-5:] == ["200"] * 5, "recovery")
        failed = [when for when, outcome in self.times if when > since and outcome != "200"]
        return max(failed, default=since) - since

    def failures(self) -> Counter[str]:
        """The outcomes of failed first attempts."""
        return Counter({outcome: count for outcome, count in self.first.items() if outcome != "200"})

    def _run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=90) as client:
            while not self._stop.is_set():
                self._ask(client, uuid.uuid4().hex)

    def _ask(self, client: httpx.Client, key: str) -> None:
        self.requests[key] = {"records": [self.record(key)]}
        for attempt in range(240):
            try:
                answer = client.post("/v1/generate", json=self.requests[key])
                outcome = str(answer.status_code)
            except httpx.TransportError as error:
                outcome = type(error).__name__
            self.times.append((time.monotonic(), outcome))
            if attempt == 0:
                self.first[outcome] += 1
            if outcome == "200":
                self.answers[key] = answer.content
                return
            if outcome.isdigit() and not _retryable(answer):
                self.lost.append(f"{outcome}: {answer.text[:300]}")
                return
            time.sleep(0.5)
        self.lost.append(outcome)


def _retryable(answer: httpx.Response) -> bool:
    """Whether a retry may help: the status says so, or Serve's proxy lost the ingress replica of the request."""
    by_proxy = answer.headers.get("content-type") != "application/problem+json"
    return answer.status_code in (429, 503, 504) or (answer.status_code == 500 and by_proxy)


def kill(pids: set[int]) -> float:
    """Kills the processes with SIGKILL and returns the time afterwards (monotonic)."""
    assert pids
    for pid in pids:
        os.kill(pid, 9)
    return time.monotonic()
