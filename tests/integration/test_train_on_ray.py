"""Training on workers of a Ray cluster: the same model and run log as locally; early errors."""

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import fingerprint
from agggen.errors import AggGenError, ConfigError, CorpusError, StoppedError, TrainingError
from agggen.run import Prepared
from agggen.training.events import TrainingEvent
from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.ray_cluster import ClusterError
from agggen_platform.storage.folder import Folder
from agggen_platform.training.job import train_job
from agggen_platform.training.prepared import load_or_prepare
from tests.processes import until
from tests.unit.training.toy import config_of, write_corpus

pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> JobConfig:
    return config_of(write_corpus(tmp_path_factory.mktemp("ray") / "toy"))


def on(config: JobConfig, workers: int, **settings: Any) -> JobConfig:
    return replace(config, cluster=ClusterConfig(workers=workers, **settings))


def steps(events: list[TrainingEvent], stage: str) -> list[int]:
    return [event.step for event in events if (event.stage, event.kind) == (stage, "log")]


def test_one_worker_trains_the_same_model_as_a_local_run(config: JobConfig, tmp_path: Path) -> None:
    events: list[TrainingEvent] = []
    local = train_job(config, "here", runs_dir=tmp_path, show=events.append)
    remote_events: list[TrainingEvent] = []
    messages: list[str] = []
    remote = train_job(on(config, 1), "there", runs_dir=tmp_path, show=remote_events.append, report=messages.append)
    assert messages[-1] == "1 of 1 workers train"
    assert fingerprint(remote.path) == fingerprint(local.path)
    assert [(event.stage, event.kind, event.step, event.samples) for event in remote_events] == [
        (event.stage, event.kind, event.step, event.samples) for event in events
    ]
    log = [json.loads(line) for line in (tmp_path / "there" / "tracking.jsonl").read_text().splitlines()]
    logged = {name for entry in log if entry["event"] == "metrics" for name in entry["values"]}
    assert {"baseline/train_loss", "joint/dev_loss", "train_seconds"} <= logged
    assert (tmp_path / "there" / "samples" / "joint-002.txt").read_text() == events[-2].samples
    repeated = train_job(on(config, 1), "there", runs_dir=tmp_path, show=lambda _: pytest.fail("it trains"))
    assert not repeated.trained


def test_two_workers_stop_at_ctrl_c_and_any_number_resumes(config: JobConfig, tmp_path: Path) -> None:
    """Without dropout, so that two workers compute the same as one, up to rounding."""
    config = replace(config, model=replace(config.model, dropout=0.0, predicate_dropout=0.0))
    stages = {name: replace(getattr(config.training, name), epochs=60, patience=60) for name in ("baseline", "joint")}
    config = replace(config, training=replace(config.training, **stages))
    fault_free = train_job(config, "whole", runs_dir=tmp_path)

    first: list[TrainingEvent] = []

    def interrupt(event: TrainingEvent) -> None:
        first.append(event)
        if (event.stage, event.kind, event.step) == ("baseline", "log", 20):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(StoppedError, match=r"was stopped after update .*; the same command resumes it") as stopped:
        train_job(on(config, 2), "cut", runs_dir=tmp_path, show=interrupt)
    assert stopped.value.exit_code == 130
    assert not (tmp_path / "cut" / "bundle").exists()
    second: list[TrainingEvent] = []
    trained = train_job(config, "cut", runs_dir=tmp_path, show=second.append)
    for stage in ("baseline", "joint"):
        assert steps(first, stage) + steps(second, stage) == list(range(1, 181)), "missing or repeated"
    for name, value in fault_free.bundle.metrics.items():
        assert trained.bundle.metrics[name] == pytest.approx(value, rel=1e-3), name


def test_ctrl_c_ends_a_job_that_waits_for_workers(config: JobConfig, tmp_path: Path) -> None:
    import ray

    @ray.remote(num_cpus=8)
    class Busy:
        def works(self) -> bool:
            return True

    busy = Busy.remote()
    assert ray.get(busy.works.remote())
    ended: list[float] = []

    def interrupt() -> None:
        while not any(group["state"] == "PENDING" for group in ray.util.placement_group_table().values()):
            time.sleep(0.1)
        time.sleep(1)
        ended.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(StoppedError, match=r"^training was stopped while no workers ran; the same command") as stop:
            train_job(on(config, 1), "r", runs_dir=tmp_path)
        assert time.monotonic() - ended[0] < 20
        states = {group["state"] for group in ray.util.placement_group_table().values()}
        assert states == {"REMOVED"}, "the pending placement group would later reserve CPUs and never release them"
    finally:
        ray.kill(busy)
    assert stop.value.exit_code == 130


def test_workers_end_with_a_job_that_fails(config: JobConfig, tmp_path: Path) -> None:
    import ray

    stage = replace(config.training.baseline, epochs=10_000, patience=10_000)
    long_training = replace(config, training=replace(config.training, baseline=stage))

    def fail(event: TrainingEvent) -> None:
        raise RuntimeError("no room for the log")

    with pytest.raises(RuntimeError, match="no room"):
        train_job(on(long_training, 1), "r", runs_dir=tmp_path, show=fail)
    until(lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"], "free CPUs", 120)


def test_an_error_that_no_restart_fixes_ends_the_job_at_once(config: JobConfig, tmp_path: Path) -> None:
    diverging_stage = replace(config.training.baseline, learning_rate=1e30)
    diverging = replace(config, training=replace(config.training, baseline=diverging_stage))
    with pytest.raises(TrainingError, match=r"must be finite.*smaller learning_rate"):
        train_job(on(diverging, 1, max_failures=-1), "wild", runs_dir=tmp_path)


def test_restarts_without_progress_end_a_job_without_a_restart_limit(
    config: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def prepare_without_data(folder: Folder, *arguments: Any) -> tuple[Prepared, str]:
        prepared, path = load_or_prepare(folder, *arguments)
        folder.delete(f"{path}/train.parquet")
        return prepared, path

    monkeypatch.setattr("agggen_platform.training.job.load_or_prepare", prepare_without_data)
    monkeypatch.setattr("agggen_platform.training.on_ray._MAX_RESTARTS_WITHOUT_PROGRESS", 1)
    message = r"restarted 1 times in a row without a newer checkpoint; the last reason: worker 0: .*train\.parquet"
    with pytest.raises(TrainingError, match=message):
        train_job(on(config, 1, max_failures=-1), "r", runs_dir=tmp_path)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda c: on(c, 1, gpus_per_worker=1), ClusterError, r"1 workers of 1 CPU and 1 GPU .* 8 CPUs and 0 GPUs"),
        (lambda c: on(c, 9), ClusterError, r"9 workers of 1 CPU each do not fit: .* enough for 8"),
        (lambda c: on(c, 20, min_workers=9), ClusterError, r"9 workers of 1 CPU"),
        (lambda c: on(c, 3, cpus_per_worker=3), ClusterError, r"3 workers of 3 CPU each .* enough for 2.*autoscaling"),
        (
            lambda c: replace(on(c, 1), training=replace(c.training, device="cuda")),
            ConfigError,
            "training.device=cuda needs cluster.gpus_per_worker",
        ),
        (lambda c: replace(on(c, 1), corpus=replace(c.corpus, name="nowhere")), CorpusError, "nowhere"),
    ],
)
def test_an_impossible_configuration_is_refused_before_anything_is_prepared(
    config: JobConfig, tmp_path: Path, change: Any, kind: type[AggGenError], message: str
) -> None:
    begin = time.monotonic()
    with pytest.raises(kind, match=message):
        train_job(change(config), "r", runs_dir=tmp_path)
    assert time.monotonic() - begin < 20
    assert not (tmp_path / "r" / "prepared").exists()
