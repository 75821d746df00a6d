"""A training job in this process: its output, resumption, and errors."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from agggen.bundle import fingerprint, load_bundle
from agggen.datasets import fingerprint_of
from agggen.errors import BundleError, ConfigError, StoppedEarlyError, StoppedError
from agggen.training.events import TrainingEvent
from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.folder import Folder
from agggen_platform.training.job import TrainedRun, data_of, default_name, train_job
from tests.unit.training.toy import RECORDS


@pytest.fixture(scope="module")
def whole(config: JobConfig, tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    """An uninterrupted run."""
    return train_job(config, "whole", runs_dir=tmp_path_factory.mktemp("runs"))


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "tracking.jsonl").read_text().splitlines()]


# --- output ---


def test_a_job_writes_a_bundle_and_returns_its_address(whole: TrainedRun, config: JobConfig) -> None:
    assert whole.trained and whole.run_name == "whole"
    assert whole.path.parts[-2:] == ("whole", "bundle") and whole.address == str(whole.path)
    assert whole.ui_command == "agggen runs ui --uri nonsense://x"
    bundle = load_bundle(whole.path)
    assert bundle.sources[f"{config.corpus.name}/train"] == fingerprint_of(RECORDS[:8])
    assert bundle.config["model"]["width"] == 8
    assert "cluster" not in bundle.config, "a bundle must not depend on the cluster"
    assert bundle.metrics["joint.updates"] == 6


def test_the_run_log_is_complete(whole: TrainedRun, config: JobConfig) -> None:
    run, corpus = whole.path.parent, config.corpus.name
    log = events(run)
    params = next(event["values"] for event in log if event["event"] == "params")
    assert (params["model.width"], params["cluster.workers"]) == (8, 0)
    datasets = {event["split"]: event for event in log if event["event"] == "dataset"}
    assert datasets["dev"]["fingerprint"] == fingerprint_of(RECORDS[8:])
    assert datasets["train"]["name"] == corpus
    steps = [event["step"] for event in log if event["event"] == "metrics" and "baseline/train_loss" in event["values"]]
    assert steps == [1, 2, 3, 4, 5, 6]
    both = [(e["step"], *e["values"]) for e in log if e["event"] == "metrics" and "dev_loss" in e["values"]]
    assert both == [(3, "dev_loss"), (6, "dev_loss"), (9, "dev_loss"), (12, "dev_loss")], "not one curve"
    (model,) = [event for event in log if event["event"] == "model"]
    assert (model["dataset"], model["metrics"]) == (f"{corpus}/dev", whole.bundle.metrics)
    table = json.loads((run / "texts.json").read_text())
    assert [row[0] for row in table["data"]] == ["Cotto", "Strada"]
    logged = {name for event in log if event["event"] == "metrics" for name in event["values"]}
    assert {"baseline/dev_loss", "joint/train_loss", "joint/dev_loss", "train_seconds"} <= logged
    plain, planned = ((run / "samples" / f"{stage}-002.txt").read_text() for stage in ("baseline", "joint"))
    assert plain.startswith("Record Cotto\n") and planned.startswith("Record Cotto\n")
    assert (run / "transitions.csv").read_text().startswith("last,relation,next,probability\n,next fact,")
    assert "\n  [" in planned and "\n  [" not in plain, "only samples of the joint model have plans"


def test_a_run_that_was_changed_or_has_other_settings_or_data_is_refused(
    whole: TrainedRun, config: JobConfig, tmp_path: Path
) -> None:
    shutil.copytree(whole.path.parent, tmp_path / "r")
    changed = replace(config, model=replace(config.model, width=16), training=replace(config.training, seed=7))
    with pytest.raises(ConfigError, match=r"model\.width was 8 and is 16; training\.seed was 1 and is 7.*--fresh"):
        train_job(changed, "r", runs_dir=tmp_path)
    corpus = f"{config.corpus.name}/train"
    data = replace(data_of(config), fingerprints={corpus: "0"})
    with pytest.raises(ConfigError, match=rf"the run r was .*data {corpus} was '.*' and is '0'"):
        train_job(config, "r", runs_dir=tmp_path, data=data)
    (tmp_path / "r" / "bundle" / "predicates.json").write_text("[]")
    with pytest.raises(BundleError, match=r"predicates\.json"):
        train_job(config, "r", runs_dir=tmp_path)
    anew = train_job(config, "r", runs_dir=tmp_path, fresh=True)
    assert anew.trained and load_bundle(anew.path)


# --- resumption ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_a_checkpoint_and_the_same_call_resumes(
    whole: TrainedRun, config: JobConfig, tmp_path: Path, number: signal.Signals
) -> None:
    def interrupt(event: TrainingEvent) -> None:
        if (event.stage, event.kind, event.step) == ("joint", "log", 2):
            os.kill(os.getpid(), number)

    before = [signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(StoppedError, match="joint was stopped after update 2; the same command resumes it") as stopped:
        train_job(config, "r", runs_dir=tmp_path, show=interrupt)
    assert stopped.value.exit_code == 128 + number
    assert [signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)] == before
    shown: list[TrainingEvent] = []
    done = train_job(config, "r", runs_dir=tmp_path, show=shown.append)
    assert [event.step for event in shown if event.kind == "log"] == [3, 4, 5, 6], "an update was repeated"
    assert fingerprint(done.path) == fingerprint(whole.path)


def test_an_evaluation_callback_can_stop_the_job(config: JobConfig, tmp_path: Path) -> None:
    behind = Mock(side_effect=StoppedEarlyError("it fell behind"))
    with pytest.raises(StoppedEarlyError, match="it fell behind"):
        train_job(config, "r", runs_dir=tmp_path, on_evaluation=behind, tags={"mlflow.source.name": "agggen sweep x"})
    first, *_, last = events(tmp_path / "r")
    assert first["tags"]["mlflow.source.name"] == "agggen sweep x"
    assert (last["status"], last["ended"]) == ("FINISHED", "early stopping: it fell behind")
    enough = Mock(side_effect=[False, False, True])
    with pytest.raises(StoppedError, match="joint was stopped after update 3") as stopped:
        train_job(config, "r", runs_dir=tmp_path, on_evaluation=enough)
    assert stopped.value.exit_code == 4
    evaluations = [call.args[0] for call in enough.call_args_list]
    assert [(event.stage, event.step) for event in evaluations] == [("baseline", 3), ("baseline", 6), ("joint", 3)]
    assert train_job(config, "r", runs_dir=tmp_path).trained


@pytest.fixture
def bucket(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a folder in a store; the cache of bundles is empty."""
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    return f"{s3}/models"


def test_a_store_gets_all_files_and_a_killed_upload_is_repeated(
    whole: TrainedRun, config: JobConfig, tmp_path: Path, bucket: str
) -> None:
    remote = replace(config, storage=replace(config.storage, url=bucket))
    unplugged = patch("agggen_platform.training.job.put_bundle", side_effect=OSError("unplugged"))
    with unplugged, pytest.raises(OSError, match="unplugged"):
        train_job(remote, "r", runs_dir=tmp_path / "runs")
    shown: list[TrainingEvent] = []
    done = train_job(remote, "r", runs_dir=tmp_path / "runs", show=shown.append)
    assert {event.kind for event in shown} <= {"end"}, "training must be complete already"
    assert done.address == f"{bucket}/r/bundle"
    repeated = train_job(remote, "r", runs_dir=tmp_path / "other-machine")
    assert (repeated.trained, repeated.address) == (False, done.address)
    assert fingerprint(repeated.path) == fingerprint(whole.path)


def test_a_job_with_another_store_keeps_the_bundle_in_the_folder_of_runs(
    whole: TrainedRun, config: JobConfig, tmp_path: Path, bucket: str
) -> None:
    """Both stores' runs have the same name."""
    shutil.copytree(whole.path.parent, tmp_path / "runs" / "whole")
    bundle = tmp_path / "runs" / "whole" / "bundle"
    inode = bundle.stat().st_ino
    for url in (bucket, str(tmp_path / "store")):
        remote = replace(config, storage=replace(config.storage, url=url))
        for fresh in (False, True):
            done = train_job(remote, "whole", runs_dir=tmp_path / "runs", fresh=fresh)
            assert done.trained and done.address == f"{url}/whole/bundle"
            assert fingerprint(done.path) == fingerprint(bundle)
            assert bundle.stat().st_ino == inode, "the local bundle was removed"
    assert not train_job(config, "whole", runs_dir=tmp_path / "runs").trained


def test_a_run_resumed_on_another_machine_continues_its_log_and_its_run_in_mlflow(
    whole: TrainedRun, config: JobConfig, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracking = replace(config.tracking, uri=uri)
    remote = replace(config, storage=replace(config.storage, url=str(tmp_path / "store")), tracking=tracking)

    with pytest.raises(StoppedError):
        train_job(
            remote, "r", runs_dir=tmp_path / "a", on_evaluation=Mock(side_effect=StoppedError("the node is lost"))
        )
    shutil.rmtree(tmp_path / "a")
    done = train_job(remote, "r", runs_dir=tmp_path / "b")
    assert fingerprint(done.path) == fingerprint(whole.path)
    log = events(tmp_path / "b" / "r")
    assert [event["event"] for event in log].count("start") == 2
    assert events(tmp_path / "store" / "r") == log, "the log must include the end"
    samples = sorted(path.name for path in (tmp_path / "store" / "r" / "samples").iterdir())
    assert samples == [f"{stage}-00{epoch}.txt" for stage in ("baseline", "joint") for epoch in (1, 2)]
    client = MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("agggen").experiment_id])
    assert (run.info.status, run.data.tags["continued"]) == ("FINISHED", "1")
    assert len(client.list_artifacts(run.info.run_id, "samples")) == 4
    shutil.rmtree(tmp_path / "b")
    assert not train_job(remote, "r", runs_dir=tmp_path / "c").trained
    assert events(tmp_path / "c" / "r") == log


def test_a_job_whose_claim_was_taken_over_writes_nothing_more(config: JobConfig, tmp_path: Path, bucket: str) -> None:
    import boto3

    remote = replace(config, storage=replace(config.storage, url=bucket, checkpoint_seconds=3600.0))  # one per epoch
    run = Folder(f"{bucket}/r")
    client, (name, _, prefix) = boto3.client("s3"), run.address.removeprefix("s3://").partition("/")
    before: list[dict[str, int]] = []

    def taken_over(event: TrainingEvent) -> None:
        if not before:
            run.write(".claim", b'{"id": "another", "who": "it", "count": 1}')
            client.create_multipart_upload(Bucket=name, Key=f"{prefix}/checkpoints/baseline/theirs")
            before.append(run.sizes())

    with pytest.raises(ClaimedError, match="another job works on"):
        train_job(remote, "r", runs_dir=tmp_path / "runs", show=taken_over)
    assert [run.sizes()] == before
    assert len(client.list_multipart_uploads(Bucket=name)["Uploads"]) == 1


def test_a_job_killed_after_its_bundle_was_written_completes_its_log_when_repeated(
    whole: TrainedRun, config: JobConfig, tmp_path: Path
) -> None:
    shutil.copytree(whole.path.parent, tmp_path / "whole")
    log = tmp_path / "whole" / "tracking.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    last = next(number for number, line in enumerate(lines) if "train_seconds" in line)
    log.write_text("".join(lines[: last + 1]))
    assert not train_job(config, "whole", runs_dir=tmp_path).trained
    log = events(tmp_path / "whole")
    assert any(e["event"] == "artifact" and e["path"] == str(tmp_path / "whole" / "bundle") for e in log)
    bundles = [e["values"]["bundle"] for e in log if "bundle" in e.get("values", {})]
    assert bundles == [str(tmp_path / "whole" / "bundle")]
    assert (log[-1]["event"], log[-1]["status"]) == ("end", "FINISHED")
    assert sum(e["event"] == "end" for e in log) == 1
    train_job(config, "whole", runs_dir=tmp_path)
    assert events(tmp_path / "whole") == log, "the end was logged twice"


# --- names ---


def test_the_default_name_depends_on_exactly_what_affects_the_result(config: JobConfig) -> None:
    data = data_of(config)
    name = default_name("presets/toy.yaml", config, data)
    assert name.startswith("toy-") and len(name) == len("toy-") + 12
    cluster = ClusterConfig(workers=1, gpus_per_worker=0.5)
    elsewhere = replace(config, cluster=cluster, storage=replace(config.storage, keep=9))
    assert default_name("toy", elsewhere, data) == name
    other_seed = replace(config, training=replace(config.training, seed=9))
    changed = replace(data, fingerprints=dict.fromkeys(data.fingerprints, "0"))
    assert len({name, default_name("toy", other_seed, data), default_name("toy", config, changed)}) == 3


def test_a_second_concurrent_job_of_the_same_name_is_refused(config: JobConfig, tmp_path: Path) -> None:
    with claim(Folder(str(tmp_path / "r"))), pytest.raises(ClaimedError, match="another job works on"):
        train_job(config, "r", runs_dir=tmp_path)
