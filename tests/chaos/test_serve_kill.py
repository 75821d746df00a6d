"""Kills processes of an endpoint under load: each request must be answered, at the latest after retries."""

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
def test_kills_lose_no_request(served: Endpoint, victim: str, capsys: pytest.CaptureFixture[str]) -> None:
    old_pids = until(lambda: processes(PROCESSES[victim]), victim)
    with Load(served.url) as load:
        killed_at = kill(old_pids)
        until(lambda: processes(PROCESSES[victim]) - old_pids, f"a new {victim}")
        seconds = load.wait_for_recovery(killed_at)
        until(lambda: served.state().status == "RUNNING", "healthy application")
        recovery = time.monotonic() - killed_at
    with capsys.disabled():
        failures = ", ".join(f"{count} x {outcome}" for outcome, count in load.failures().items()) or "none"
        print(f"\n{victim}: last failure after {seconds:.1f} s, healthy after {recovery:.1f} s; failed: {failures}")
    assert load.lost == []
    if victim == "controller":
        assert load.failures() == {}  # the controller handles no requests
    keys = list(load.answers)
    for key in keys[-2:]:
        response = httpx.post(f"{served.url}/v1/generate", json={"records": [load.record(key)]}, timeout=60)
        assert response.status_code == 200, response.text
        repeated, answer = response.json(), json.loads(load.answers[key])
        # The numbers may differ by rounding, which depends on the batch.
        assert pop_numbers(repeated) == pytest.approx(pop_numbers(answer), rel=1e-4)
        assert repeated == answer
    assert all(json.loads(load.answers[key])["answers"][0]["id"] == key for key in keys)


def pop_numbers(body: dict[str, Any]) -> list[float]:
    """Removes the numbers of all texts from a response body and returns them."""
    return [text.pop(name) for answer in body["answers"] for text in answer["texts"] for name in NUMBERS]
