"""Kills processes of an endpoint under load. No answer may be lost: each request is answered, or may be sent again."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agggen_platform.serving.deploy import Endpoint
from tests.processes import until
from tests.serve_app import PROCESSES, Load, kill, processes, serving
from tests.unit.serve.conftest import save_tiny_model

pytestmark = [pytest.mark.chaos, pytest.mark.slow]
NUMBERS = ("plan_log_probability", "text_log_probability", "score")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with serving(save_tiny_model(tmp_path_factory.mktemp("served") / "bundle")) as endpoint:
        yield endpoint


@pytest.mark.parametrize("victim", ["generator", "planner", "ingress", "controller", "proxy"])
def test_no_answer_is_lost_when_it_is_killed(served: Endpoint, victim: str, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert load.lost == []
    if victim == "controller":
        assert load.failures() == {}  # no request passes through it
    keys = list(load.answers)
    for key in keys[-2:]:
        repeated = httpx.post(f"{served.url}/v1/generate", json=load.requests[key], timeout=60)
        assert repeated.status_code == 200, repeated.text
        assert_same_writing(repeated.content, load.answers[key])
    assert all(json.loads(load.answers[key])["answers"][0]["id"] == key for key in keys)


def assert_same_writing(one: bytes, other: bytes) -> None:
    """Two runs of one request have everything in common but the last digits of numbers, which depend on the batch."""
    answer, repeated = json.loads(one), json.loads(other)
    assert numbers(answer) == pytest.approx(numbers(repeated), rel=1e-4)
    assert answer == repeated


def numbers(body: dict[str, Any]) -> list[float]:
    """Takes the numbers of all texts out of an answer."""
    return [text.pop(name) for answer in body["answers"] for text in answer["texts"] for name in NUMBERS]
