"""Kills processes of an endpoint under load. No answer may be lost: each request is answered, or may be sent again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agggen_platform.serving.deploy import Endpoint
from serve.idempotency import LEASE_SECONDS
from tests.chaos.report import Observed
from tests.serve_app import PROCESSES, Load, kill, processes, serving, until
from tests.unit.serve.conftest import save_tiny_model

pytestmark = [pytest.mark.chaos, pytest.mark.slow]
NUMBERS = ("plan_log_probability", "text_log_probability", "score")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with serving(save_tiny_model(tmp_path_factory.mktemp("served") / "bundle")) as endpoint:
        yield endpoint


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("generator", marks=pytest.mark.fault("serving: a generator is killed")),
        pytest.param("planner", marks=pytest.mark.fault("serving: a planner is killed")),
        pytest.param("memory of answers", marks=pytest.mark.fault("serving: the memory of answers is killed")),
        pytest.param("ingress", marks=pytest.mark.fault("serving: an ingress is killed")),
        pytest.param("controller", marks=pytest.mark.fault("serving: the controller is killed")),
        pytest.param("proxy", marks=pytest.mark.fault("serving: the proxy is killed")),
    ],
)
def test_no_answer_is_lost_when_it_is_killed(
    served: Endpoint, victim: str, capsys: pytest.CaptureFixture[str], observed: Observed
) -> None:
    doomed = until(lambda: processes(PROCESSES[victim]), victim)
    with Load(served.url) as load:
        killed = kill(doomed)
        until(lambda: processes(PROCESSES[victim]) - doomed, f"a new {victim}")
        seconds = load.recovered(killed)
        until(lambda: served.state().status == "RUNNING", "a whole application")
        whole = time.monotonic() - killed
    with capsys.disabled():
        said = ", ".join(f"{count} x {how}" for how, count in load.failures().items()) or "none"
        print(f"\n{victim} killed: last failure {seconds:.1f} s later, whole again after {whole:.1f} s; failed: {said}")
    observed(f"first attempts that failed: {said}; whole again after {whole:.1f} s", seconds)
    assert load.lost == []
    if victim in ("controller", "memory of answers"):
        assert load.failures() == {}  # nothing of a request's way goes through them
    keys = list(load.answers)
    for key in (keys[-1], keys[-2]):
        again = ask(served.url, key, load.asked[key])
        if remembered(again):
            assert again.content == load.answers[key]
        else:  # answered, the first time or now, while the memory of answers was out of reach
            assert_same_writing(again.content, load.answers[key])
    assert all(json.loads(load.answers[key])["answers"][0]["id"] == key for key in keys)
    until(lambda: remembered(ask(served.url, key, load.asked[key])), "memory of answers that is in use")


def ask(url: str, key: str, asked: dict[str, Any]) -> httpx.Response:
    """The request sent again under its key, which the attempt before may hold a while; it must succeed."""

    def attempt() -> httpx.Response | None:
        answer = httpx.post(f"{url}/v1/generate", json=asked, headers={"Idempotency-Key": key}, timeout=60)
        return None if answer.status_code == 409 else answer

    answer = until(attempt, f"answer under {key}", LEASE_SECONDS + 20)
    assert answer.status_code == 200, answer.text
    return answer


def remembered(answer: httpx.Response) -> bool:
    """Whether it came out of the memory of answers."""
    return answer.headers.get("idempotency-replayed") == "true"


def assert_same_writing(one: bytes, other: bytes) -> None:
    """Two runs of one request have everything in common but the last digits of numbers, which depend on the batch."""
    answer, again = json.loads(one), json.loads(other)
    assert numbers(answer) == pytest.approx(numbers(again), rel=1e-4)
    assert answer == again


def numbers(body: dict[str, Any]) -> list[float]:
    """Takes the numbers of all texts out of an answer."""
    return [text.pop(name) for answer in body["answers"] for text in answer["texts"] for name in NUMBERS]
