"""The run log against a real SQLite MLflow, a dead server, a silent one, and a disk that cannot be written."""

from __future__ import annotations

import json
import math
import shlex
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agggen.errors import ConfigError
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.tracker import PARAM_CHARACTERS


def events(tracker: Tracker) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tracker.path.read_text(encoding="utf-8").splitlines()]


def one_of_everything(tracker: Tracker) -> None:
    tracker.log_params({f"model.p{number}": number for number in range(250)})
    tracker.log_params({"long": "x" * (PARAM_CHARACTERS + 10), "odd@key": True, "none": None})
    for step in range(3):
        tracker.log_metrics({"dev/bleu": 40.0 + step, "loss": math.nan if step == 1 else 1.0}, step)
    tracker.log_text("[name] a sample", "sample.txt")


EVERYTHING = ["start", "params", "params", "metrics", "metrics", "metrics", "artifact", "end"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("runs of a test")


@pytest.fixture(scope="module")
def finished(runs: Path) -> tuple[Tracker, list[str]]:
    """A run that logged one of everything to a fresh SQLite store."""
    reports: list[str] = []
    folder = runs / "elsewhere" / "bundle"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a.json").write_text("{}", encoding="utf-8")
    tracker = Tracker(experiment="toys", run_name="one", tags={"kind": "test"}, runs_dir=runs, report=reports.append)
    with tracker:
        one_of_everything(tracker)
        tracker.log_artifact(folder)
    return tracker, reports


def test_everything_arrives_in_mlflow(finished: tuple[Tracker, list[str]], tmp_path: Path) -> None:
    from mlflow import MlflowClient

    tracker, reports = finished
    assert reports == []
    client = MlflowClient(tracker.uri)
    assert tracker.run_id is not None
    run = client.get_run(tracker.run_id)
    assert client.get_experiment(run.info.experiment_id).name == "toys"
    assert (run.info.run_name, run.info.status, run.data.tags["kind"]) == ("one", "FINISHED", "test")
    params = run.data.params
    assert [params[f"model.p{number}"] for number in range(250)] == [str(number) for number in range(250)]
    assert (len(params["long"]), params["odd_key"], params["none"]) == (PARAM_CHARACTERS, "True", "None")
    history = client.get_metric_history(tracker.run_id, "dev/bleu")
    assert [(point.step, point.value) for point in history] == [(0, 40.0), (1, 41.0), (2, 42.0)]
    assert math.isnan(client.get_metric_history(tracker.run_id, "loss")[1].value)
    copied = Path(client.download_artifacts(tracker.run_id, "", str(tmp_path)))
    assert (copied / "sample.txt").read_text(encoding="utf-8") == "[name] a sample"
    assert (copied / "bundle" / "inner" / "a.json").read_text(encoding="utf-8") == "{}"


def test_the_local_file_holds_everything(finished: tuple[Tracker, list[str]]) -> None:
    lines = events(finished[0])
    assert [line["event"] for line in lines] == [*EVERYTHING[:-1], "artifact", "end"]
    assert lines[2]["values"]["long"] == "x" * (PARAM_CHARACTERS + 10)
    assert lines[4] == {
        "event": "metrics",
        "step": 1,
        "values": {"dev/bleu": 41.0, "loss": "nan"},
        "time": lines[4]["time"],
    }


def test_artifacts_stay_in_the_runs_folder(finished: tuple[Tracker, list[str]]) -> None:
    tracker, _ = finished
    assert (tracker.runs_dir / "artifacts" / "toys" / str(tracker.run_id) / "artifacts" / "sample.txt").is_file()


def test_the_ui_command_names_the_store_and_listens_on_loopback(finished: tuple[Tracker, list[str]]) -> None:
    tracker, _ = finished
    words = shlex.split(tracker.ui_command())
    assert words[words.index("--backend-store-uri") + 1] == f"sqlite:///{tracker.runs_dir}/mlflow.db"
    assert words[words.index("--host") + 1] == "127.0.0.1"


def test_a_failed_run_says_so_and_a_refused_artifact_does_not_stop_the_rest(
    runs: Path, finished: tuple[Tracker, list[str]]
) -> None:
    from mlflow import MlflowClient

    reports: list[str] = []
    tracker = Tracker(experiment="toys", run_name="two", runs_dir=runs, report=reports.append)
    with pytest.raises(ZeroDivisionError), tracker:
        tracker.log_artifact(runs / "missing.txt")
        tracker.log_params({"a": 1})
        tracker.log_params({"a": 2})  # MLflow refuses to change a parameter
        tracker.log_metrics({"m": 1.0})
        raise ZeroDivisionError
    assert events(tracker)[-1]["status"] == "FAILED"
    assert tracker.run_id is not None
    run = MlflowClient(tracker.uri).get_run(tracker.run_id)
    assert (run.info.status, run.data.params, run.data.metrics) == ("FAILED", {"a": "1"}, {"m": 1.0})
    assert len(reports) == 1
    assert "missing.txt" in reports[0]


def test_a_dead_server_costs_seconds_and_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: every connection is refused
        uri = f"http://someone:secret@127.0.0.1:{taken.getsockname()[1]}"
        reports: list[str] = []
        tracker = Tracker(uri, run_name="dead", runs_dir=tmp_path, report=reports.append)
        started = time.monotonic()
        with tracker:
            one_of_everything(tracker)
        assert time.monotonic() - started < 15
    assert [line["event"] for line in events(tracker)] == EVERYTHING
    assert len(reports) == 1
    assert "misses parts of this run" in reports[0]
    assert str(tracker.path) in reports[0]
    assert "secret" not in reports[0] + tracker.ui_command()


def test_a_server_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection and says nothing
        reports: list[str] = []
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        tracker = Tracker(uri, run_name="silent", runs_dir=tmp_path, report=reports.append, patience=1)
        started = time.monotonic()
        with tracker:
            one_of_everything(tracker)
        assert time.monotonic() - started < 5
    assert [line["event"] for line in events(tracker)] == EVERYTHING
    assert len(reports) == 1
    assert "did not answer within 1 s" in reports[0]


def test_a_folder_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be", encoding="utf-8")
    reports: list[str] = []
    uri = f"sqlite:///{tmp_path / 'runs' / 'x.db'}"
    with Tracker(uri, run_name="full", runs_dir=tmp_path / "runs", report=reports.append) as tracker:
        one_of_everything(tracker)
    assert len(reports) == 1
    assert "cannot write" in reports[0]


@pytest.mark.parametrize("name", ["", "../escape", "a/b", ".hidden", "a b"])
def test_a_run_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="run name"):
        Tracker(run_name=name)
