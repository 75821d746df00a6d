"""An unavailable, unresponsive or failing MLflow or artifact store: a message, a bounded wait, no lost entry."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.journal import entries
from agggen_platform.tracking.runs import UnsentError, find_runs, sync
from agggen_platform.tracking.store import classify
from tests.file_server import http_server
from tests.processes import free_ports, until
from tests.unit.doctor.conftest import stub_server
from tests.unit.tracking.conftest import run_of


@contextmanager
def unresponsive_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections and never responds
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def run_against(
    uri: str | None, runs: Path, patience: float, warned: bool = True
) -> tuple[Tracker, list[str], float, float]:
    """A run of 100 metrics, its messages, and the seconds of its slowest call and of its end.

    If `warned`, it waits for a message before it ends.
    """
    messages: list[str] = []
    slowest = 0.0
    with Tracker(uri, run_name="toy", runs_dir=runs, report=messages.append, patience=patience) as tracker:
        for step in range(100):
            begin = time.monotonic()
            tracker.log_metrics({"loss": 1.0}, step)
            slowest = max(slowest, time.monotonic() - begin)
        until(lambda: messages or not warned, "message about MLflow")
        begin = time.monotonic()
    return tracker, messages, slowest, time.monotonic() - begin


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (lambda: nullcontext(f"http://127.0.0.1:{free_ports(1)[0]}"), "Connection refused"),
        (unresponsive_server, "did not answer within 0.5 s"),
        (lambda: stub_server({}, (500, "")), "500 error responses"),
        (lambda: stub_server({}, (503, "")), "503 error responses"),
    ],
    ids=["refusing", "silent", "500", "503"],
)
def test_an_unavailable_server_delays_no_call_and_is_reported(server: Any, reason: str, tmp_path: Path) -> None:
    with server() as address:
        uri = address.replace("://", "://someone:hunter2@")
        tracker, messages, slowest, end = run_against(uri, tmp_path, 0.5, warned=server is not unresponsive_server)
    assert slowest < 1.0
    assert 0.5 <= end < 3.0
    assert len(list(entries(tracker.path))) == 102
    for part in (reason, "102 entries of run toy", f"agggen runs sync toy --runs {tmp_path}"):
        assert part in messages[-1]
    assert "hunter2" not in "".join(messages) + tracker.ui_command() + tracker.path.read_text()
    (run,) = find_runs(tmp_path)
    assert (run.status, run.entries, run.unsent, run.uri) == ("FINISHED", 102, 102, address)


@pytest.mark.parametrize("server", [stub_server({}, (401, "")), nullcontext("nonsense://x")], ids=["401", "invalid"])
def test_permanent_errors_are_not_retried(server: Any, tmp_path: Path) -> None:
    with server as uri:
        _, messages, _, end = run_against(uri, tmp_path, 60)
    assert end < 10
    assert "102 entries of run toy are not in MLflow" in messages[-1]


def test_a_folder_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be", encoding="utf-8")
    _, messages, _, end = run_against(None, tmp_path / "runs", 60)
    assert end < 1
    assert len(messages) == 1
    assert "the run log is incomplete: cannot write" in messages[0]


class ArtifactStore:
    """An artifact store that accepts files by PUT, or responds with `status`."""

    status = 200
    requests = 0

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        status = self.status  # read before counting, since a test changes it after the request
        self.requests += 1
        if status == 200:
            self.files[request.path.rpartition("/")[2]] = body
        return status, b""


@pytest.fixture
def store(runs: Path, request: pytest.FixtureRequest) -> Iterator[ArtifactStore]:
    """The artifact store of the experiment that is named after the test."""
    store = ArtifactStore()
    with http_server(store.answer) as address:
        mlflow_client(f"sqlite:///{runs}/mlflow.db").create_experiment(request.node.name, address)
        yield store


@pytest.fixture
def tracker(runs: Path, messages: list[str], request: pytest.FixtureRequest) -> Tracker:
    name = request.node.name
    return Tracker(None, name, name, runs_dir=runs, report=messages.append, patience=5)


def test_refused_files_are_sent_later(store: ArtifactStore, tracker: Tracker, runs: Path, messages: list[str]) -> None:
    store.status = 503
    with tracker:
        tracker.log_text("first", "first.txt")
        tracker.log_text("second", "second.txt")
        tracker.log_metrics({"loss": 0.5}, 1)
        until(lambda: store.requests > 2, "three attempts")
    assert "accepts no files: too many 503 error responses" in messages[0]
    assert "2 entries of run" in messages[-1]
    run = run_of(tracker)
    assert (run.info.status, run.data.metrics) == ("FINISHED", {"loss": 0.5})
    (result,) = find_runs(runs, [tracker.run_name])
    assert (result.unsent, result.rejected) == (2, 0)
    with pytest.raises(UnsentError, match="2 entries: too many 503"):
        sync([result], messages.append, patience=1)
    store.status = 200
    assert sync([result], messages.append) == {tracker.run_name: 2}
    assert store.files == {"first.txt": b"first", "second.txt": b"second"}
    (result,) = find_runs(runs, [tracker.run_name])
    assert (result.unsent, result.rejected) == (0, 0)


def test_files_arrive_while_the_run_lasts(store: ArtifactStore, tracker: Tracker, messages: list[str]) -> None:
    store.status = 500
    with tracker:
        tracker.log_text("text", "late.txt")
        until(lambda: store.requests, "an attempt")
        store.status = 200
        until(lambda: store.files, "the file")
    assert store.files == {"late.txt": b"text"}
    assert "has all entries of run" in messages[-1]


def sql(kind: str) -> str:
    from sqlalchemy import exc

    return str(getattr(exc, kind)("INSERT", {}, Exception("the database said so")))


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("INVALID_PARAMETER_VALUE", None, "rejected"),
        ("BAD_REQUEST", None, "rejected"),
        ("BAD_REQUEST", "DataError", "rejected"),
        ("BAD_REQUEST", "InternalError", "transient"),  # a database that became read-only
        ("BAD_REQUEST", "InterfaceError", "transient"),
        ("INTERNAL_ERROR", None, "transient"),
        ("TEMPORARILY_UNAVAILABLE", "OperationalError", "transient"),
        ("PERMISSION_DENIED", None, "permanent"),
    ],
)
def test_errors_of_mlflow_are_classified(code: str, kind: str | None, expected: str) -> None:
    from mlflow.exceptions import RestException

    assert classify(RestException({"error_code": code, "message": sql(kind) if kind else "no"})) == expected
