"""The run log with an MLflow server that is killed, suspended and restarted, and with killed runs; traces of requests.

No call of a run may block, and finally MLflow must have each point of each curve exactly once.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agggen_platform.tracking import Tracker
from agggen_platform.tracking.runs import find_runs
from tests.command import Run
from tests.processes import Running, free_ports, until
from tests.serve_app import RECORDS, serving

WRITER = """
import sys, time
from agggen_platform.tracking import Tracker
uri, runs, name, steps = sys.argv[1:]
with Tracker(uri or None, run_name=name, runs_dir=runs) as tracker:
    for step in range(int(steps)):
        tracker.log_metrics({"loss": 1 / (1 + step)}, step)
        time.sleep(0.01)
print(tracker.run_id)
"""


class Server:
    """An MLflow server that can be killed and restarted with the same data and port."""

    def __init__(self, folder: Path) -> None:
        self.folder, (self.port,) = folder, free_ports(1)
        self.uri = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        store = ["--backend-store-uri", f"sqlite:///{self.folder}/server.db"]
        artifacts = ["--artifacts-destination", str(self.folder / "artifacts")]
        listen = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        env = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        self.process = Running(["-m", "mlflow", "server", *store, *artifacts, *listen], self.folder, env)
        self.process.wait_until(self._answers, "answer of the MLflow server", pause=0.2)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.uri}/health", timeout=1).is_success
        except httpx.TransportError:
            return False

    def send_signal(self, number: signal.Signals) -> None:
        for child in self.process.children():
            os.kill(child.pid, number)
        self.process.signal(number)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    try:
        server.start()
        yield server
    finally:
        server.process.kill()


def curve(uri: str, run_id: str | None, metric: str = "loss") -> list[tuple[int, float]]:
    from mlflow import MlflowClient

    return sorted((point.step, point.value) for point in MlflowClient(uri).get_metric_history(str(run_id), metric))


def expected(steps: int) -> list[tuple[int, float]]:
    return [(step, 1 / (1 + step)) for step in range(steps)]


def log(tracker: Tracker, steps: range, pause: float = 0.01) -> float:
    """Logs a curve; returns the duration of the slowest call in seconds."""
    slowest = 0.0
    for step in steps:
        begin = time.monotonic()
        tracker.log_metrics({"loss": 1 / (1 + step)}, step)
        slowest = max(slowest, time.monotonic() - begin)
        time.sleep(pause)
    return slowest


def test_a_suspended_server_neither_blocks_calls_nor_loses_entries(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")  # timed-out calls are retried, so they arrive twice
    messages: list[str] = []
    uri = server.uri.replace("://", "://someone:hunter2@")
    with Tracker(uri, run_name="frozen", runs_dir=tmp_path, report=messages.append, system_seconds=0.5) as tracker:
        tracker.log_params({"tracking.uri": uri, "api_token": "hunter2", "seed": 1})
        tracker.set_tags({"from": uri})
        tracker.log_dataset("e2e", "train", "0f" * 32, uri)
        tracker.log_text("a text", "samples/1.txt")
        log(tracker, range(100))
        until(lambda: tracker.run_id, "run in MLflow")
        server.send_signal(signal.SIGSTOP)
        slowest = log(tracker, range(100, 200), pause=0.03)
        until(lambda: messages, "message about the server")
        server.send_signal(signal.SIGCONT)
        log(tracker, range(200, 300))
    assert slowest < 1.0
    assert curve(server.uri, tracker.run_id) == expected(300)
    assert curve(server.uri, tracker.run_id, "system/system_memory_usage_megabytes")[0][1] > 10
    assert "accepts no entries: Read timed out" in messages[0]
    assert "has all entries of run frozen again" in messages[-1]

    from mlflow import MlflowClient

    client = MlflowClient(server.uri)
    run = client.get_run(str(tracker.run_id))
    assert (run.info.status, run.data.params["seed"]) == ("FINISHED", "1")
    assert [file.path for file in client.list_artifacts(run.info.run_id, "samples")] == ["samples/1.txt"]
    log_files = "".join(path.read_text() for path in (tmp_path / "frozen").iterdir() if path.is_file())
    assert "hunter2" not in log_files + "".join(messages) + str(run.to_dictionary()) + tracker.ui_command()


def test_a_killed_and_resumed_run_is_complete_in_mlflow(server: Server, tmp_path: Path) -> None:
    log_file = tmp_path / "killed" / "tracking.jsonl"
    cursor = tmp_path / "killed" / "tracking.sent.json"
    with Running(["-c", WRITER, server.uri, str(tmp_path), "killed", "100000"], tmp_path) as writer:
        writer.wait_until(lambda: '"loss"' in log_file.read_text() if log_file.exists() else False, "a metric")
        writer.wait_until(lambda: cursor.exists() and json.loads(cursor.read_text()), "entry in MLflow")
        writer.wait_until(lambda: log_file.read_text().count("\n") > 200, "200 lines")
        writer.signal(signal.SIGKILL)
        writer.process.wait(30)
    with log_file.open("a") as log_stream:
        log_stream.write('{"event": "metrics", "step": 1000000, "val')  # an incomplete line, as of a killed writer
    (before,) = find_runs(tmp_path)
    assert (before.status, before.unsent > 0) == ("CUT OFF", True)
    reached = int(log_file.read_text().splitlines()[-2].partition('"step": ')[2].partition(",")[0])
    with Tracker(server.uri, run_name="killed", runs_dir=tmp_path) as tracker:
        log(tracker, range(reached - 50, reached + 50), pause=0)  # resumes from a checkpoint
    assert tracker.run_id == before.run_id or before.run_id is None
    assert curve(server.uri, tracker.run_id) == expected(reached + 50)
    (after,) = find_runs(tmp_path)
    assert (after.status, after.unsent) == ("FINISHED", 0)


def test_sync_sends_what_a_killed_server_missed(server: Server, tmp_path: Path, run: Run) -> None:
    messages: list[str] = []
    begin = time.monotonic()
    with Tracker(server.uri, run_name="outlived", report=messages.append, patience=1) as tracker:
        log(tracker, range(50))
        until(lambda: tracker.run_id, "run in MLflow")
        server.process.kill()
        slowest = log(tracker, range(50, 150))
        loop_end = time.monotonic()
    assert slowest < 1.0
    assert loop_end - begin < 60
    assert time.monotonic() - loop_end < 5
    assert "entries of run outlived are not in MLflow" in messages[-1]

    (outlived,) = find_runs(tmp_path / "runs")
    assert (outlived.status, outlived.unsent > 50) == ("FINISHED", True)
    code, _, err = run("runs", "sync", "outlived", "--patience", "1")
    assert (code, "outlived" in err) == (6, True)
    server.start()
    code, out, _ = run("runs", "sync")
    assert (code, out.splitlines()[1]) == (0, f"outlived\t{outlived.unsent}")
    assert curve(server.uri, tracker.run_id) == expected(150)
    code, _, err = run("runs", "sync")
    assert (code, "has all entries" in err) == (0, True)


def test_two_processes_create_one_sqlite_store(tmp_path: Path) -> None:
    ids = []
    writers = [Running(["-c", WRITER, "", str(tmp_path), name, "100"], tmp_path) for name in ("one", "two")]
    try:
        for writer in writers:
            assert writer.finish() == 0, writer.output()
            assert "warning" not in writer.output()
            ids.append(writer.output().split()[-1])
    finally:
        for writer in writers:
            writer.kill()
    store = f"sqlite:///{tmp_path}/mlflow.db"
    assert curve(store, ids[0]) == curve(store, ids[1]) == expected(100)


@pytest.mark.slow
def test_mlflow_finds_slow_unfulfilled_and_failed_requests(server: Server, bundle: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(server.uri)
    with serving(bundle, "tracing.experiment=requests", f"tracing.server={server.uri}") as endpoint:
        for name, records in (("strict", RECORDS), ("off", RECORDS), ("broken", [{"triples": []}])):
            verify = "strict" if name == "strict" else "off"
            request: dict[str, object] = {"records": records, "options": {"verify": verify}}
            httpx.post(f"{endpoint.url}/v1/generate", json=request, headers={"X-Request-Id": name}, timeout=120)
        until(lambda: client.get_experiment_by_name("requests"), "experiment in MLflow")
        experiment = client.get_experiment_by_name("requests").experiment_id

        def requests_where(condition: str) -> list[str]:
            traces = client.search_traces(locations=[experiment], filter_string=condition)
            return sorted(trace.info.tags["request"] for trace in traces)

        ended = "attributes.status != 'IN_PROGRESS'"
        until(lambda: requests_where(ended) == ["broken", "off", "strict"], "traces in MLflow")
        assert requests_where("attributes.status = 'ERROR'") == ["broken"]
        assert requests_where("tags.fulfilled = 'no'") == ["off"]  # random weights give faulty texts
        assert requests_where("tags.fallback = 'yes'") == ["strict"]
        assert requests_where("attributes.execution_time_ms > 0 AND tags.request = 'strict'") == ["strict"]
        assert requests_where("attributes.execution_time_ms > 600000") == []
        (trace,) = client.search_traces(locations=[experiment], filter_string="tags.request = 'off'")
        names = {"POST /v1/generate", "plan", "read", "verify", "write"}
        assert len(trace.data.spans) == 5 and {span.name for span in trace.data.spans} == names
