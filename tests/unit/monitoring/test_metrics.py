"""Metrics of jobs: values, lifetime, and isolation of jobs from Ray's errors."""

import logging
import math
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from agggen.training.events import TrainingEvent
from agggen_platform import metrics
from agggen_platform.bulk.rows import Counts
from agggen_platform.job_config import ClusterConfig
from agggen_platform.metrics import JobMetrics, Metric, ShardMetrics, TrainingMetrics
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import FinishedShard
from tests.processes import until
from tests.unit.training.toy import config_of

CONFIG = config_of(Path("nowhere"))


class FakeRay:
    """Fake of Ray's metrics: stores the values and checks labels as Ray does."""

    def __init__(self) -> None:
        self.connected = True
        self.values: dict[tuple[str, ...], float] = {}
        self.calls = 0

    def instrument(self, metric: Metric) -> Any:
        def record(value: float, tags: dict[str, str]) -> None:
            assert set(tags) == set(metric.labels), "Ray would refuse these labels"
            key = (metric.name.removeprefix("agggen_"), *(tags[label] for label in metric.labels))
            self.calls += 1
            self.values[key] = value + (self.values.get(key, 0.0) if metric.kind == "counter" else 0.0)

        return SimpleNamespace(set=record, inc=record)

    def __getitem__(self, key: tuple[str, ...]) -> float | None:
        return self.values.get(key)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    fake_ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: fake_ray.connected))
    monkeypatch.setattr(metrics, "_instrument", fake_ray.instrument)
    yield fake_ray


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "metrics"]


def test_without_a_connected_ray_nothing_is_recorded(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    ray.connected = False
    with JobMetrics(run="r") as job_metrics:
        job_metrics.set("tracking_unsent_bytes", 1)
        job_metrics.add("training_restarts", 1)
        assert (ray.calls, threads()) == (0, [])
        ray.connected = True
        job_metrics.set("tracking_unsent_bytes", 2)
        assert ray["tracking_unsent_bytes", "r"] == 2
        monkeypatch.delitem(sys.modules, "ray")
        job_metrics.set("tracking_unsent_bytes", 3)
        assert ray["tracking_unsent_bytes", "r"] == 2


def test_gauges_are_refreshed_until_the_end(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray drops a gauge that is not refreshed."""
    monkeypatch.setattr(metrics, "_REFRESH_SECONDS", 0.01)
    with JobMetrics(run="r") as job_metrics:
        job_metrics.set("tracking_unsent_bytes", 7)
        job_metrics.set("tracking_unsent_bytes", 7)
        until(lambda: ray.calls >= 5, "refreshed gauge", 60)
        (thread,) = threads()
        assert thread.daemon
    thread.join(60)
    assert not thread.is_alive()
    assert ray.values == {("tracking_unsent_bytes", "r"): 7}


def test_values_that_are_not_numbers_are_left_out(ray: FakeRay) -> None:
    with JobMetrics(run="r") as job_metrics:
        for value in (math.inf, math.nan):
            job_metrics.set("training_loss_nats", value, stage="joint", split="dev")
        for amount in (0, -1):
            job_metrics.add("training_restarts", amount)
    assert ray.values == {}


def test_a_failing_ray_is_reported_once(ray: FakeRay, caplog: pytest.LogCaptureFixture) -> None:
    metrics._warn_once.cache_clear()
    broken = patch.object(metrics, "_instrument", side_effect=RuntimeError("the agent is gone"))
    with caplog.at_level(logging.WARNING), broken, JobMetrics(run="r") as job_metrics:
        for value in range(3):
            job_metrics.set("tracking_unsent_bytes", value)
    (record,) = caplog.records
    assert record.getMessage() == "metrics of this job are not exported to Ray: RuntimeError: the agent is gone"


def event(kind: Any, step: int, stage: Any = "joint", **values: float) -> TrainingEvent:
    return TrainingEvent(kind, stage, step, 100, step // 50, math.inf, values)


def test_training_reports_its_progress(ray: FakeRay) -> None:
    with TrainingMetrics("r", CONFIG) as meter:
        meter.begin()
        assert 0 <= time.time() - (ray["training_checkpoint_timestamp_seconds", "r"] or 0) < 600
        assert ray["training_checkpoint_interval_seconds", "r"] == CONFIG.storage.checkpoint_seconds
        assert ray["training_workers_wanted", "r"] is None, "local training must not have metrics of workers"
        meter.event(event("log", 10, train_loss=3.5, gradient_norm=0.5, learning_rate=1e-3, texts_per_second=40.0))
        meter.event(event("log", 20, train_loss=3.0, gradient_norm=0.4, learning_rate=2e-3, texts_per_second=50.0))
        meter.event(event("evaluation", 25, dev_loss=2.5, dev_seconds=1.0))
        at = ("r", "joint")
        names = ("updates", "progress_ratio", "texts_per_second", "gradient_norm", "learning_rate")
        assert [ray[f"training_{name}", *at] for name in names] == [15, 0.25, 50, 0.4, 2e-3]
        assert [ray["training_loss_nats", *at, split] for split in ("train", "dev")] == [3, 2.5]


def test_repeated_updates_count_again_but_a_restart_does_not(ray: FakeRay) -> None:
    with TrainingMetrics("r", CONFIG) as meter:
        for step in (10, 20, 30, 20, 30, 40):  # the run resumed from the checkpoint of step 10
            meter.event(event("log", step, train_loss=1.0))
        meter.event(event("log", 10, stage="baseline", train_loss=1.0))
        meter.event(event("end", 40))
    assert ray["training_updates", "r", "joint"] == 40
    assert ray["training_updates", "r", "baseline"] is None
    assert ray["training_progress_ratio", "r", "joint"] == 1, "a stage may end early"
    with TrainingMetrics("r", replace(CONFIG, cluster=ClusterConfig(workers=3))) as meter:
        meter.begin()
    assert (ray["training_workers", "r"], ray["training_workers_wanted", "r"]) == (0, 3)


def test_a_job_counts_only_its_own_work(ray: FakeRay) -> None:
    shards = [
        Shard(n, "in", "a.parquet", f"{n}.parquet", (n,), 0, n * 8, 8, "in/a.parquet", ((n * 8, "in/a.parquet:1"),) * n)
        for n in range(3)
    ]
    with ShardMetrics("generate", "generate-1", shards, 0.01) as meter:
        meter.begin()
        at = ("generate", "generate-1")
        meter.add_shard(FinishedShard(0, Counts(records=8, texts=16), (), True, 5, 9.0), 2)
        assert ray["job_items", *at, "records"] is None, "shards that an earlier run finished must not count"
        meter.add_shard(FinishedShard(1, Counts(records=7, texts=14, rejects=1), (), False, 1, 2.0), 1)
        meter.add_shard(FinishedShard(2, Counts(records=8, texts=16), (), False, 0, 3.0), 0)
    assert (ray["job_shards", *at], ray["job_shards_left", *at]) == (3, 0)
    assert [ray["job_items", *at, item] for item in ("records", "texts", "rejects")] == [15, 30, 1]
    assert (ray["job_work_seconds", *at], ray["job_shard_retries", *at]) == (5, 1)
    assert (ray["job_duplicates", *at], ray["job_reject_limit_ratio", *at]) == (3, 0.01)
    assert time.time() - (ray["job_shard_timestamp_seconds", *at] or 0) < 600
