"""An MLflow that is not there, silent, broken or misnamed costs the run a line and a bounded wait at its end."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agggen_platform.tracking import Tracker
from agggen_platform.tracking.journal import entries
from agggen_platform.tracking.runs import find_runs
from tests.processes import free_ports
from tests.unit.doctor.helpers import answering


@contextmanager
def refusing() -> Iterator[str]:
    yield f"http://127.0.0.1:{free_ports(1)[0]}"


@contextmanager
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts the connection and never answers
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def run_against(
    uri: str | None, runs: Path, patience: float, warned: bool = True
) -> tuple[Tracker, list[str], float, float]:
    """A run of 100 metrics: tracker, what was said, seconds of the slowest call and of the end.

    It ends not before there was a word about MLflow, if there is to be one.
    """
    said: list[str] = []
    slowest = 0.0
    with Tracker(uri, run_name="toy", runs_dir=runs, report=said.append, patience=patience) as tracker:
        for step in range(100):
            begin = time.monotonic()
            tracker.log_metrics({"loss": 1.0}, step)
            slowest = max(slowest, time.monotonic() - begin)
        deadline = time.monotonic() + 60
        while warned and not said:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        begin = time.monotonic()
    return tracker, said, slowest, time.monotonic() - begin


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (refusing, "Connection refused"),
        (silent, "did not answer within 0.5 s"),
        (lambda: answering({}, (500, "")), "500 error responses"),
        (lambda: answering({}, (503, "")), "503 error responses"),
    ],
    ids=["refusing", "silent", "500", "503"],
)
def test_a_server_that_does_not_do_its_work(server, why: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with server() as address:
        uri = address.replace("://", "://someone:hunter2@")
        tracker, said, slowest, end = run_against(uri, tmp_path, 0.5, warned=server is not silent)
    assert slowest < 1.0
    assert 0.5 <= end < 3.0
    assert len(list(entries(tracker.path))) == 102
    assert why in said[-1]
    assert "102 entries of run toy" in said[-1]
    assert f"agggen runs sync toy --runs {tmp_path}" in said[-1]
    assert "hunter2" not in "".join(said) + tracker.ui_command() + tracker.path.read_text()
    (run,) = find_runs(tmp_path)
    assert (run.status, run.entries, run.unsent, run.uri) == ("FINISHED", 102, 102, address)


@pytest.mark.parametrize("what", ["401", "no such store"])
def test_what_will_not_get_better_is_not_waited_for(what: str, tmp_path: Path) -> None:
    with answering({}, (401, "")) as address:
        uri = address if what == "401" else "nonsense://x"
        _, said, _, end = run_against(uri, tmp_path, 60)
    assert end < 10
    assert "102 entries of run toy are not in MLflow" in said[-1]


def test_a_folder_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be", encoding="utf-8")
    _, said, _, end = run_against(None, tmp_path / "runs", 60)
    assert end < 1
    assert len(said) == 1
    assert "the run log misses parts of this run: cannot write" in said[0]
