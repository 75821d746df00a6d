"""Runs in log files, also of killed writers, and in a SQLite MLflow; a value that MLflow rejects affects no other."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agggen.errors import ConfigError, StoppedEarlyError, StoppedError
from agggen.records import Plan, Record
from agggen_platform.mlflow_client import KEY_CHARACTERS, mlflow_client
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.journal import Entry, Journal, entries, metric_values
from agggen_platform.tracking.store import PARAM_CHARACTERS
from agggen_platform.tracking.transitions import transitions_table
from tests.unit.cli_write.examples import parsed
from tests.unit.tracking.conftest import curve, run_of

Track = Callable[..., Tracker]


@pytest.fixture(scope="module")
def finished(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tracker, list[str]]:
    """A run that logged an entry of each kind, and its messages."""
    messages: list[str] = []
    folder = tmp_path_factory.mktemp("model") / "bundle"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a.json").write_text("{}", encoding="utf-8")
    tracker = Tracker(experiment="toys", run_name="all", tags={"mine": "yes"}, runs_dir=runs, report=messages.append)
    odd = {"odd@key": True, "none": None, "nul": "a\0b", "/data/e2e/train": "f"}
    with tracker:
        tracker.log_params({f"model.p{number}": number for number in range(250)})
        tracker.log_params({"long": "x" * (PARAM_CHARACTERS + 10)} | odd)
        for step in range(3):
            tracker.log_metrics({"dev/bleu": 40.0 + step, "loss": math.nan if step == 1 else 1.0}, step)
        tracker.set_tags({"kind": "test"})
        tracker.log_dataset("e2e", "train", "0123456789abcdef" * 4, "s3://user:secret@bucket/e2e")
        tracker.log_text("[name] a sample", "samples/1.txt")
        tracker.log_model("base", "f1" * 32, {"width": 64}, {"bleu": 40.0}, "e2e/dev", "0f" * 32)
        tracker.log_artifact(folder)
    return tracker, messages


def test_all_entries_arrive_in_mlflow(finished: tuple[Tracker, list[str]]) -> None:
    tracker, messages = finished
    assert messages == []
    run = run_of(tracker)
    assert (run.info.run_name, run.info.status) == ("all", "FINISHED")
    assert (run.data.tags["kind"], run.data.tags["mine"]) == ("test", "yes")
    params = run.data.params
    assert [params[f"model.p{number}"] for number in range(250)] == [str(number) for number in range(250)]
    assert (len(params["long"]), params["odd_key"], params["none"]) == (PARAM_CHARACTERS, "True", "None")
    assert (params["data/e2e/train"], params["nul"]) == ("f", "a\ufffdb")
    assert curve(tracker, "dev/bleu") == [(0, 40.0), (1, 41.0), (2, 42.0)]
    assert math.isnan(curve(tracker, "loss")[1][1])
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("e2e", ("0123456789abcdef" * 4)[:36])
    assert json.loads(dataset.dataset.profile) == {"split": "train", "fingerprint": "0123456789abcdef" * 4}
    assert dataset.tags[0].value == "train"
    assert "secret" not in str(dataset.dataset.source)
    assert {"host", "python", "version.torch", "mlflow.user", "mlflow.source.name"} <= set(run.data.tags)
    if (Path(__file__).parents[3] / ".git").exists():
        assert len(run.data.tags["mlflow.source.git.commit"]) == 40
        assert run.data.tags["git.dirty"] in ("true", "false")


def test_metrics_on_several_datasets_belong_to_one_model(finished: tuple[Tracker, list[str]], track: Track) -> None:
    with track() as evaluation:
        evaluation.log_model("another name", "f1" * 32, {}, {"bleu": 39.0}, "e2e/test", "0f" * 32)
        evaluation.log_model("s3://models/webnlg-3.0", "f2" * 32, {}, {"bleu": 38.0}, "e2e/test", "0f" * 32)
    client = mlflow_client(evaluation.uri)
    experiment = client.get_experiment_by_name("toys").experiment_id
    model, oddly_named = (
        client.search_logged_models([experiment], f"tags.fingerprint = '{fingerprint * 32}'")[0]
        for fingerprint in ("f1", "f2")
    )
    assert (model.name, model.params, model.status) == ("base", {"width": "64"}, "READY")
    assert model.source_run_id == finished[0].run_id
    assert {(metric.dataset_name, metric.key, metric.value) for metric in model.metrics} == {
        ("e2e/dev", "bleu", 40.0),
        ("e2e/test", "bleu", 39.0),
    }
    assert oddly_named.name == "s3---models-webnlg-3-0", "MLflow forbids / : and . in model names"


def test_texts_are_logged_as_a_table_for_mlflows_comparison_page(track: Track) -> None:
    triples = [["Mill", "food", "Thai"], ["Mill", "area", "city"]]
    record = Record.of({"id": "r1", "triples": triples, "references": ["Mill serves Thai food."]})
    with track() as tracker:
        tracker.log_texts([(record, Plan((("food",),)), "The Mill is Thai.")])
    (shown,) = json.loads(run_of(tracker).data.tags["mlflow.loggedArtifacts"])
    assert shown == {"path": "texts.json", "type": "table"}
    stored = tracker.runs_dir / "artifacts" / "toys" / str(tracker.run_id) / "artifacts" / "texts.json"
    table = json.loads(stored.read_text(encoding="utf-8"))
    (row,) = table["data"]
    assert table["columns"][:2] == ["id", "text"], "MLflow groups by the first column and compares the second"
    assert dict(zip(table["columns"], row, strict=True)) == {
        "id": "r1",
        "triples": "Mill | food | Thai\nMill | area | city",
        "plan": "[food]",
        "text": "The Mill is Thai.",
        "reference": "Mill serves Thai food.",
    }


def test_the_log_file_has_all_entries(finished: tuple[Tracker, list[str]]) -> None:
    lines = parsed(finished[0].path.read_text(encoding="utf-8"))
    kinds = ["start", *["params"] * 2, *["metrics"] * 3, "tags", "dataset", "artifact", "model", "artifact", "end"]
    assert [line["event"] for line in lines] == kinds
    assert lines[2]["values"]["long"] == "x" * (PARAM_CHARACTERS + 10)
    values = {"dev/bleu": 41.0, "loss": "nan"}
    assert lines[4] == {"event": "metrics", "step": 1, "values": values, "time": lines[4]["time"]}


def test_ui_command_opens_the_runs_and_shows_no_password(finished: tuple[Tracker, list[str]], tmp_path: Path) -> None:
    tracker, _ = finished
    assert tracker.ui_command() == f"agggen runs ui --runs '{tracker.runs_dir}'"
    assert Tracker("http://me:hunter2@mlflow:5000", runs_dir=tmp_path).ui_command() == "http://mlflow:5000"
    database = Tracker("postgresql://me:hunter2@db/mlflow", runs_dir=tmp_path)
    assert database.ui_command() == "agggen runs ui --uri postgresql://db/mlflow"


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (lambda tracker: tracker.log_artifact(tracker.runs_dir / "missing.txt"), "missing.txt"),
        (lambda tracker: tracker.log_metrics({"none": None}), "the metric none is not a number"),
        (lambda tracker: tracker.log_metrics({"large": 10**400}), "the metric large is not a number"),
        (lambda tracker: tracker.log_text("x", "tracking.jsonl/text.txt"), "tracking.jsonl/text.txt: File exists"),
        (lambda tracker: tracker.log_text("\ud800", "x.txt"), "x.txt: 'utf-8' codec can't encode"),
    ],
    ids=["artifact", "metric", "large metric", "file", "text"],
)
def test_an_invalid_value_affects_no_other(log: Any, message: str, track: Track, messages: list[str]) -> None:
    with track(f"-{len(message)}") as tracker:
        log(tracker)
        tracker.log_metrics({"fine": 1.0})
    run = run_of(tracker)
    assert (run.info.status, run.data.metrics) == ("FINISHED", {"fine": 1.0})
    assert len(messages) == 1 and message in messages[0]


def test_a_parameter_keeps_its_first_value_and_the_user_is_told(track: Track, messages: list[str]) -> None:
    long = ["k" * 300 + "1", "k" * 300 + "2"]
    with track() as tracker:
        tracker.log_params({"a": 1, "b": 1, long[0]: "one", long[1]: "two"})
    with track() as tracker:
        tracker.log_params({"a": 2, "b": 1, "c": 3})
    params = run_of(tracker).data.params
    assert {name: params[name] for name in "ab"} == {"a": "1", "b": "1"}
    cut = {name: value for name, value in params.items() if name.startswith("k")}
    assert sorted(cut.values()) == ["one", "two"]
    assert {len(name) for name in cut} == {KEY_CHARACTERS}
    assert (params["c"], len(params)) == ("3", 5)
    (message,) = messages
    assert "new values of parameters, since it keeps the first: a;" in message


def test_the_same_name_continues_the_same_run(track: Track, messages: list[str]) -> None:
    ids = set()
    for part, steps in enumerate((range(0, 6), range(4, 10))):  # resumes from the checkpoint of step 4
        with track() as tracker:
            tracker.log_metrics({"seconds": float(part)})
            for step in steps:
                tracker.log_metrics({"loss": 1 / (1 + step), "speed": 100.0 + part}, step)
        ids.add(tracker.run_id)
    assert len(ids) == 1
    assert curve(tracker, "loss") == [(step, 1 / (1 + step)) for step in range(10)]
    assert curve(tracker, "speed") == [(step, 100.0 + (step > 5)) for step in range(10)]
    assert run_of(tracker).data.metrics["seconds"] == 1.0  # the last value of a metric without steps
    assert (run_of(tracker).info.status, run_of(tracker).data.tags["continued"]) == ("FINISHED", "1")
    assert messages == []


def test_two_concurrent_copies_of_a_run_are_sent_by_one_of_them(track: Track, messages: list[str]) -> None:
    """A job is retried while its first copy still runs; both append to the same file."""
    first, second = track(), track()
    with first:
        first.log_metrics({"first": 1.0}, 1)
        with second:
            second.log_metrics({"second": 2.0}, 2)
        first.log_metrics({"first": 3.0}, 3)
    assert first.run_id == second.run_id
    assert (curve(first, "first"), curve(first, "second")) == ([(1, 1.0), (3, 3.0)], [(2, 2.0)])
    assert messages == []


BOTH = [(1, 0.5), (2, 0.25)]


@pytest.mark.parametrize(
    ("lose", "same", "points", "message"),
    [
        (lambda tracker: (tracker.path.parent / "tracking.sent.json").write_text("{broken"), True, BOTH, ""),
        (lambda tracker: tracker.path.unlink(), False, BOTH[1:], ""),
        (lambda tracker: mlflow_client(tracker.uri).delete_run(tracker.run_id), False, BOTH, "no run {} any more"),
    ],
    ids=["cursor", "log", "run"],
)
def test_a_run_whose_cursor_log_or_mlflow_run_was_lost(
    track: Track, messages: list[str], lose: Any, same: bool, points: list[Any], message: str
) -> None:
    with track(f"-{same}-{len(points)}") as before:
        before.log_metrics({"loss": 0.5}, 1)
        before.set_tags({"long": "x" * 2000})
    lose(before)
    with track(f"-{same}-{len(points)}") as tracker:
        tracker.log_metrics({"loss": 0.25}, 2)
    assert (tracker.run_id == before.run_id, curve(tracker, "loss")) == (same, points)
    assert len(messages) == bool(message) and message.format(before.run_id) in "".join(messages)


def test_another_experiment_gets_the_complete_run_log(track: Track, messages: list[str]) -> None:
    with track() as before:
        before.log_metrics({"loss": 0.5}, 1)
    with Tracker(None, "others", before.run_name, runs_dir=before.runs_dir, report=messages.append) as tracker:
        tracker.log_metrics({"loss": 0.25}, 2)
    assert tracker.run_id != before.run_id
    assert (curve(before, "loss"), curve(tracker, "loss")) == (BOTH[:1], BOTH)
    assert messages == []
    with track() as repeated:
        pass
    assert (repeated.run_id, curve(repeated, "loss")) == (before.run_id, BOTH)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ZeroDivisionError("no data"), "FAILED", "ZeroDivisionError: no data"),
        (KeyboardInterrupt(), "KILLED", "stopped: KeyboardInterrupt"),
        (StoppedError("after update 2"), "KILLED", "stopped: after update 2"),
        (StoppedEarlyError("it fell behind"), "FINISHED", "early stopping: it fell behind"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_status_and_reason_of_the_end_of_a_run(track: Track, error: BaseException, status: str, reason: str) -> None:
    with pytest.raises(type(error)), track(f"-{type(error).__name__}") as tracker:
        raise error
    run = run_of(tracker)
    assert parsed(tracker.path.read_text())[-1]["status"] == run.info.status == status
    assert run.data.tags["ended"] == reason
    with track(f"-{type(error).__name__}") as tracker:
        pass
    assert (run_of(tracker).info.status, run_of(tracker).data.tags["ended"]) == ("FINISHED", "finished")


def test_a_child_run_is_sent_after_its_parent(track: Track, messages: list[str]) -> None:
    child = track("-child", parent="test_a_child_run_is_sent_after_its_parent-parent")
    with track("-parent") as parent, child:
        child.log_metrics({"loss": 1.0})
    assert run_of(child).data.tags["mlflow.parentRunId"] == parent.run_id
    assert messages == []
    with track("-orphan", parent="nobody") as orphan:  # no wait, since the parent does not exist
        pass
    assert "mlflow.parentRunId" not in run_of(orphan).data.tags
    assert "1 entries of run" in messages[0]


@pytest.mark.parametrize("name", ["", "../escape", "a/b", ".hidden", "a b"])
def test_a_run_name_that_is_not_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="run name"):
        Tracker(run_name=name)


# --- the file of the run log ------------------------------------------------------------------------------------------


def metrics_event(step: int, **values: float) -> dict[str, object]:
    return {"event": "metrics", "step": step, "values": values, "time": 1.5}


def test_entries_are_read_from_any_line_on(tmp_path: Path) -> None:
    path = tmp_path / "run" / "log.jsonl"
    log = Journal(path)
    values = {"nan": math.nan, "inf": math.inf, "low": -math.inf, "é": 0.1}
    log.append(metrics_event(0, **values))
    log.append(metrics_event(1, loss=2.0))
    log.close()
    log.append(metrics_event(2, loss=3.0))  # a second writer
    first, second, third = entries(path)
    assert first.event is not None
    assert str(metric_values(first.event)) == str(values)
    assert list(entries(path, first.end)) == [second, third]
    assert third.end == path.stat().st_size
    for line in path.read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=lambda constant: 1 / 0)  # standard JSON, without NaN


def test_an_incomplete_line_of_a_killed_writer_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    Journal(path).append(metrics_event(0, loss=1.0))
    with path.open("a") as torn:
        torn.write('{"event": "metrics", "st')
    assert [entry.event is None for entry in entries(path)] == [False]  # its writer may still be active
    Journal(path).append(metrics_event(1, loss=2.0))
    assert [entry.event and entry.event["step"] for entry in entries(path)] == [0, None, 1]


def test_lines_that_are_not_events_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    strange = ["[1]", "{}", '{"event": "metrics", "time": 1}', '{"event": "future", "time": 1}', "\x00", ""]
    path.write_text("".join(line + "\n" for line in strange))
    assert [entry.event for entry in entries(path)] == [None] * len(strange)
    assert list(entries(tmp_path / "missing.jsonl")) == list[Entry]()


# --- transitions -----------------------------------------------------------------------------------------------------

ORDER = ("name", "eatType", "food", "priceRange", "customerRating")


def bundle_of(names: tuple[str, ...]) -> Any:
    """A bundle whose most probable order of predicates is `names`; its predicate table is sorted."""
    size = len(names) + 1
    states = torch.eye(size)  # row r: the predicate of rank r
    table = sorted(names)
    ranks = [names.index(name) for name in table]
    after = torch.stack([torch.zeros(size), *(states[rank + 1] for rank in ranks), states[0]])
    before = torch.stack([torch.zeros(size), *(states[rank] for rank in ranks)])
    parameters = SimpleNamespace(a_out=4.0 * after, b_out=before, a_in=after, b_in=before)
    encoder = SimpleNamespace(predicates=["unknown", *table])
    return SimpleNamespace(model=SimpleNamespace(transitions=parameters), encoder=encoder)


def test_the_most_probable_next_predicates_come_first() -> None:
    rows = list(csv.DictReader(transitions_table(bundle_of(ORDER)).splitlines()))
    assert {row["relation"] for row in rows} == {"next fact", "same fact"}
    for relation in ("next fact", "same fact"):
        by_last: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            if row["relation"] == relation:
                by_last.setdefault(row["last"], []).append(row)
        assert list(by_last) == ["", *sorted(ORDER)]
        for last, following in by_last.items():
            assert abs(sum(float(row["probability"]) for row in following) - 1) < 1e-3
            assert last not in [row["next"] for row in following]
        assert [by_last[last][0]["next"] for last in ("", *ORDER[:-1])] == list(ORDER)


def test_each_predicate_has_at_most_five_rows() -> None:
    assert len(transitions_table(bundle_of(tuple(f"p{n}" for n in range(70)))).splitlines()) == 1 + 2 * 71 * 5
    assert len(transitions_table(bundle_of(("only",))).splitlines()) == 1 + 2 * 2
