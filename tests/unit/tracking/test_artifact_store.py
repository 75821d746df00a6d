"""An artifact store that fails while MLflow itself is well: its files wait, nothing else does, and none is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.tracking import Tracker
from agggen_platform.tracking.runs import UnsentError, find_runs, sync
from agggen_platform.tracking.store import verdict


class ArtifactStore(ThreadingHTTPServer):
    """Takes files by PUT, or answers with `status`."""

    status = 200

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked = 0
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: ArtifactStore

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.status  # once: a test may change it as soon as it sees that something was asked
        self.server.asked += 1
        if status == 200:
            self.server.files[self.path.rsplit("/", 1)[-1]] = body
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def store(runs: Path, request: pytest.FixtureRequest) -> Iterator[ArtifactStore]:
    """The artifact store of the experiment that is named after the test."""
    from mlflow import MlflowClient

    with ArtifactStore() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        MlflowClient(f"sqlite:///{runs}/mlflow.db").create_experiment(request.node.name, address)
        yield server
        server.shutdown()


@pytest.fixture
def tracker(runs: Path, said: list[str], request: pytest.FixtureRequest) -> Tracker:
    name = request.node.name
    return Tracker(None, name, name, runs_dir=runs, report=said.append, patience=5)  # old tries were over after three


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_files_wait_for_their_store_and_nothing_waits_for_them(
    store: ArtifactStore, tracker: Tracker, runs: Path, said: list[str], run_of: Callable[[Tracker], Any]
) -> None:
    store.status = 503
    with tracker:
        tracker.log_text("first", "first.txt")
        tracker.log_text("second", "second.txt")
        tracker.log_metrics({"loss": 0.5}, 1)
        until(lambda: store.asked > 2)
    assert "takes no files: too many 503 error responses" in said[0]
    assert "2 entries of run" in said[-1]
    run = run_of(tracker)
    assert (run.info.status, run.data.metrics) == ("FINISHED", {"loss": 0.5})
    (result,) = find_runs(runs, [tracker.run_name])
    assert (result.unsent, result.rejected) == (2, 0)
    with pytest.raises(UnsentError, match="2 entries: too many 503"):
        sync([result], said.append, patience=1)
    store.status = 200
    assert sync([result], said.append) == {tracker.run_name: 2}
    assert store.files == {"first.txt": b"first", "second.txt": b"second"}
    (result,) = find_runs(runs, [tracker.run_name])
    assert (result.unsent, result.rejected) == (0, 0)


def test_files_arrive_while_the_run_lasts(store: ArtifactStore, tracker: Tracker, said: list[str]) -> None:
    store.status = 500
    with tracker:
        tracker.log_text("text", "late.txt")
        until(lambda: store.asked)
        store.status = 200
        until(lambda: store.files)
    assert store.files == {"late.txt": b"text"}
    assert "has all of run" in said[-1]


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
def test_what_mlflow_says(code: str, kind: str | None, expected: str) -> None:
    from mlflow.exceptions import RestException

    assert verdict(RestException({"error_code": code, "message": sql(kind) if kind else "no"})) == expected
