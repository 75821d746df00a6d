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
SMALL = ("ingress.cpus=0.2", "planner.cpus=0.2", "generator.cpus=0.2")
PROCESSES = {
    "generator": "ray::ServeReplica:agggen:Generator",
    "planner": "ray::ServeReplica:agggen:Planner",
    "ingress": "ray::ServeReplica:agggen:Ingress",
    "controller": "ray::ServeController",
    "proxy": "ray::ProxyActor",
}
"""Prefixes of the process titles by role."""


@contextmanager
def serving(bundle: object, *settings: str) -> Iterator[Endpoint]:
    """Serves the bundle at a free port of 127.0.0.1, on this process's Ray cluster or on a new one.

    `settings` are overrides of `ServeConfig` such as ``generator.max_replicas=2``. At the end Serve is shut down.
    """
    fixed = [f"bundle={bundle}", f"http.port={free_ports(1)[0]}", *SMALL]
    config = load_config(ServeConfig, None, [*fixed, *settings])
    with endpoint(config) as served:
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
    """Closed-loop clients, whose requests have random keys and the `record` of the key; they retry."""

    url: str
    clients: int = 3
    record: Callable[[str], dict[str, Any]] = unique_record
    answers: dict[str, bytes] = field(default_factory=dict)  # response bodies of successful requests by key
    attempts: list[tuple[float, int, str]] = field(default_factory=list)
    """Time (monotonic), number in its request (from 0) and outcome (status, or name of the error) of each attempt."""
    lost: list[str] = field(default_factory=list)  # the reason of each failed request

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

    def wait_for_recovery(self, since: float) -> float:
        """Waits for five successive successes after `since`; returns the seconds from `since` to the last failure."""
        until(lambda: [result for at, _, result in self.attempts if at > since][-5:] == ["200"] * 5, "recovery")
        failed = [at for at, _, result in self.attempts if at > since and result != "200"]
        return max(failed, default=since) - since

    def failures(self) -> Counter[str]:
        """The outcomes of failed first attempts."""
        return Counter(outcome for _, number, outcome in self.attempts if number == 0 and outcome != "200")

    def _run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=90) as client:
            while not self._stop.is_set():
                self._ask(client, uuid.uuid4().hex)

    def _ask(self, client: httpx.Client, key: str) -> None:
        for number in range(240):
            try:
                answer = client.post("/v1/generate", json={"records": [self.record(key)]})
                outcome = str(answer.status_code)
            except httpx.TransportError as error:
                outcome = type(error).__name__
            self.attempts.append((time.monotonic(), number, outcome))
            if outcome == "200":
                self.answers[key] = answer.content
                return
            if outcome.isdigit() and not _retryable(answer):
                self.lost.append(f"{outcome}: {answer.text[:300]}")
                return
            time.sleep(0.5)
        self.lost.append(outcome)


def _retryable(answer: httpx.Response) -> bool:
    """Whether the status is retryable, or Serve's proxy lost the ingress replica (status 500 without problem+json)."""
    from_proxy = answer.headers.get("content-type") != "application/problem+json"
    return answer.status_code in (429, 503, 504) or (answer.status_code == 500 and from_proxy)


def kill(pids: set[int]) -> float:
    """Sends SIGKILL; returns the time afterwards (monotonic)."""
    assert pids
    for pid in pids:
        os.kill(pid, 9)
    return time.monotonic()
