"""`agggen runs`: finished runs, killed runs, and runs whose entries MLflow lacks."""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import pytest

from agggen.errors import ConfigError
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.tracking import Tracker
from agggen_platform.tracking import runs as runs_module
from agggen_platform.tracking.journal import Cursor, Journal
from agggen_platform.tracking.runs import compare_address, find_runs, sync
from tests.command import Run, check_refused, command
from tests.processes import free_ports

Track = Callable[..., Tracker]


@pytest.fixture
def agggen(capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(command(capsys), "runs")


def table(out: str) -> dict[str, dict[str, str]]:
    columns, *rows = (line.split("\t") for line in out.splitlines())
    return {row[0]: dict(zip(columns, row, strict=True)) for row in rows}


def killed(tracker: Tracker, parent: Tracker | None = None) -> None:
    """Writes the log of a run that was killed before anything was sent to MLflow."""
    about = {"experiment": "toys", "run": tracker.run_name, "mlflow": tracker.uri, "tags": {}, "time": 5.0}
    log = Journal(tracker.path)
    log.append({"event": "start", **about} | ({"parent": parent.run_name} if parent else {}))
    log.append({"event": "metrics", "step": 7, "values": {"loss": 9.0, "dev_bleu": 41.5, "system/x": 1}, "time": 6.0})


def test_a_killed_run_is_listed_and_sent_with_its_parent(agggen: Run, track: Track, runs: Path) -> None:
    child, parent = track("-child"), track("-parent")
    killed(child, parent)
    killed(parent)
    with track("-alive") as alive:
        code, out, _ = agggen("list", "--runs", runs)
    assert table(out)[alive.run_name]["state"] == "RUNNING"
    row = table(out)[child.run_name]
    state = [row[column] for column in ("state", "sent", "unsent", "last metrics")]
    assert (code, state) == (0, ["CUT OFF", "0", "2", "dev_bleu=41.5 loss=9"])
    code, out, err = agggen("sync", child.run_name, parent.run_name, "--runs", runs)
    assert (code, err) == (0, "")
    assert set(table(out)) == {parent.run_name, child.run_name}
    client = mlflow_client(child.uri)
    experiment = client.get_experiment_by_name("toys").experiment_id
    result = {run.info.run_name: run for run in client.search_runs([experiment])}
    sent = result[child.run_name]
    assert (sent.info.status, sent.info.start_time, sent.info.end_time) == ("KILLED", 5000, 6000)
    assert sent.data.tags["mlflow.parentRunId"] == result[parent.run_name].info.run_id
    _, out, _ = agggen("list", "--runs", runs)
    assert table(out)[child.run_name]["unsent"] == "0" and table(out)[alive.run_name]["state"] == "FINISHED"
    code, _, err = agggen("sync", alive.run_name, "--runs", runs)
    assert (code, "MLflow has all entries" in err) == (0, True)


def test_compare_prints_the_address_of_trials(agggen: Run, track: Track, runs: Path) -> None:
    with track("-sweep") as parent, track("-t0", parent=parent.run_name) as t0, track("-t1", parent=t0.parent) as t1:
        t0.log_metrics({"dev_loss": 1.0})
        t1.log_metrics({"dev_loss": 2.0})
    code, out, err = agggen("compare", parent.run_name, "--runs", runs)
    curves = urlsplit(urlsplit(err.partition("Curves of dev_loss: ")[2].strip()).fragment)
    assert (curves.path, parse_qs(curves.query)["plot_metric_keys"]) == ("/metric", ['["dev_loss"]'])
    assert curves.query.startswith("runs=")
    address = urlsplit(urlsplit(out.strip()).fragment)
    query = {name: json.loads(parse_qs(address.query)[name][0]) for name in ("runs", "experiments")}
    known = {run.name: run for run in find_runs(runs)}
    assert (code, out.partition("#")[0], address.path) == (0, "http://127.0.0.1:5000/", "/compare-runs")
    assert address.query.startswith("runs="), "MLflow's page fails if this parameter is not the first"
    assert query["runs"] == [known[f"{parent.run_name[:-6]}{trial}"].run_id for trial in ("-t0", "-t1")]
    assert mlflow_client(parent.uri).get_experiment(query["experiments"][0]).name == "toys"


def test_runs_that_cannot_be_compared(track: Track, runs: Path) -> None:
    with track("-one") as one, track("-two") as two:
        pass
    first, second = find_runs(runs, (one.run_name, two.run_name))
    uri = f"http://127.0.0.1:{free_ports(1)[0]}"
    for compared, message in (
        ([first], "a comparison needs at least two runs, not 1"),
        ([first, replace(second, run_id=None)], f"MLflow does not have {two.run_name} yet"),
        ([first, replace(second, uri=uri)], "MLflow compares runs of one experiment"),
        ([replace(run, experiment="deleted") for run in (first, second)], "has no experiment 'deleted' any more"),
        ([replace(run, uri=uri) for run in (first, second)], f"MLflow \\({uri}\\) .*Connection refused"),
    ):
        with pytest.raises(ConfigError, match=message):
            compare_address(compared)


def test_sync_names_the_runs_that_cannot_be_sent(agggen: Run, track: Track, tmp_path: Path) -> None:
    tracker = track()
    killed(tracker)
    shutil.move(tracker.path.parent, tmp_path / tracker.run_name)
    arguments = ("sync", "--runs", tmp_path, "--uri", "nonsense://user:hunter2@x", "--patience", "5")
    code, _, err = agggen(*arguments)
    assert (code, "hunter2" in err) == (6, False)
    assert f"MLflow lacks entries of 1 of 1 runs: {tracker.run_name} (2 entries: " in err
    for name, advice in (("noone", "`agggen runs list` shows all"), (f"{tracker.run_name}s", "did you mean test_")):
        check_refused(agggen("sync", name, "--runs", tmp_path), 2, f"no run {name!r} in {tmp_path}; {advice}")


def test_ui_has_no_password_on_the_command_line(agggen: Run, tmp_path: Path) -> None:
    uri = "postgresql://u:hunter2@db/x"
    with patch.object(os, "execve") as execve:
        _, out, err = agggen("ui", "--uri", uri)
        agggen("ui", "--runs", tmp_path, "--port", 5050)
    (_, words, variables), (_, folder_words, folder_variables) = (call.args for call in execve.call_args_list)
    assert variables["MLFLOW_BACKEND_STORE_URI"] == uri
    assert "hunter2" not in " ".join(words) + out + err
    assert folder_variables["MLFLOW_BACKEND_STORE_URI"] == f"sqlite:///{tmp_path}/mlflow.db"
    assert "--host 127.0.0.1 --port 5050" in " ".join(folder_words)


def test_sync_waits_only_once_for_an_unreachable_server(agggen: Run, tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{free_ports(1)[0]}"
    for name in ("one", "two", "three"):
        tracker = Tracker(uri, "toys", name, runs_dir=tmp_path)
        killed(tracker)
        Cursor(f"{uri} toys", "known before").save(tracker.path.parent)
    begin = time.monotonic()
    code, _, err = agggen("sync", "--runs", tmp_path, "--patience", "4")
    assert time.monotonic() - begin < 8
    assert (code, "MLflow lacks entries of 3 of 3 runs" in err) == (6, True)


def test_sync_takes_a_password_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://u:hunter2@x/y")
    killed(Tracker("nonsense://x/y", "toys", "run", runs_dir=tmp_path))
    with patch.object(runs_module, "Sender", side_effect=ZeroDivisionError) as sender, pytest.raises(ZeroDivisionError):
        sync(find_runs(tmp_path), print)
    assert sender.call_args.args[1] == "nonsense://u:hunter2@x/y"
