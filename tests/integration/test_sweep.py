"""Sweeps on a real Ray cluster: budget, run log, registry, failed trials, resumption."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState

from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.registry import resolve
from agggen_platform.storage.claim import ClaimedError
from agggen_platform.sweep.config import AshaConfig, SweepConfig, SweepError
from agggen_platform.sweep.job import Progress, SweepReport, sweep
from agggen_platform.sweep.study import Study
from tests.processes import until
from tests.unit.training.toy import config_of, write_corpus

pytestmark = pytest.mark.usefixtures("ray_cluster")

RATE = "training.joint.learning_rate"
SPACE: dict[str, dict[str, list[Any]]] = {
    "model.predicate_dim": {"choice": [2, 4]},
    RATE: {"log_uniform": [1e-4, 1e-2]},
}
SETTINGS = SweepConfig(space=SPACE, trials=3, concurrent=3, asha=None)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> JobConfig:
    return config_of(write_corpus(tmp_path_factory.mktemp("sweep") / "toy"))


def run(config: JobConfig, settings: SweepConfig, runs: Path, **overrides: Any) -> tuple[SweepReport, list[Progress]]:
    reports: list[Progress] = []
    options: dict[str, Any] = {"name": "s", "runs_dir": runs, "model": None, "show": reports.append} | overrides
    return sweep(config, settings, **options), reports


def test_a_sweep_is_logged_registered_and_extended(config: JobConfig, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    tracked = replace(config, tracking=replace(config.tracking, uri=None))
    report, reports = run(tracked, SETTINGS, tmp_path, model="toy")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert (report.trials_run, [progress.ended for progress in reports]) == (3, [1, 2, 3])
    best = min(reports, key=lambda progress: progress.trial.value or 0.0).trial
    assert (report.best.number, report.best.value) == (best.number, best.value)
    assert report.rows[0][:2] == [best.number, "finished"]
    assert Path(report.bundle) == tmp_path / f"s-t{best.number:03d}" / "bundle"
    assert resolve("models:/toy@candidate", uri=uri) == report.bundle

    client = MlflowClient(uri)
    (experiment,) = [candidate for candidate in client.search_experiments() if candidate.name == "agggen"]
    runs = {trial.info.run_name: trial for trial in client.search_runs([experiment.experiment_id])}
    assert sorted(runs) == ["s", "s-t000", "s-t001", "s-t002"]
    parent = runs.pop("s")
    assert {trial.data.tags["mlflow.parentRunId"] for trial in runs.values()} == {parent.info.run_id}
    assert {logged.info.status for logged in (parent, *runs.values())} == {"FINISHED"}
    rates = {f"s-t{progress.trial.number:03d}": str(progress.trial.params[RATE]) for progress in reports}
    assert {name: item.data.params[RATE] for name, item in runs.items()} == rates
    assert all(item.data.metrics["dev_loss"] for item in runs.values())
    commands = {item.data.tags["mlflow.source.name"] for item in (parent, *runs.values())}
    assert len(commands) == 1, "a trial has another command than the sweep"
    searched = [f"- `{RATE}={rates[name]}`" in item.data.tags["mlflow.note.content"] for name, item in runs.items()]
    assert all(searched)
    assert f"{best.number} | finished | " in parent.data.tags["mlflow.note.content"]
    assert parent.data.metrics["best"] == best.value
    logged = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert {"trials.csv", "best-overrides.txt"} <= logged
    with (tmp_path / "s" / "trials.csv").open() as file:
        table = list(csv.DictReader(file))
    assert sorted(row["trial"] for row in table) == ["0", "1", "2"]

    repeated, reports = run(tracked, SETTINGS, tmp_path, model="toy")
    assert (repeated.trials_run, reports, repeated.rows, repeated.version) == (0, [], report.rows, report.version)
    extended, reports = run(tracked, replace(SETTINGS, trials=4), tmp_path, model="toy")
    assert (extended.trials_run, [progress.trial.number for progress in reports]) == (1, [3])
    assert len(client.search_runs([experiment.experiment_id])) == 5


def test_a_failed_trial_is_recorded_and_the_sweep_continues(config: JobConfig, tmp_path: Path) -> None:
    settings = replace(SETTINGS, trials=2, space={RATE: {"choice": [1e-3, 1e30]}})
    report, reports = run(config, settings, tmp_path)
    states = {progress.trial.params[RATE]: progress.trial.state for progress in reports}
    assert states == {1e-3: TrialState.COMPLETE, 1e30: TrialState.FAIL}
    failed = [progress.trial for progress in reports if progress.trial.state == TrialState.FAIL]
    assert all("must be finite" in trial.user_attrs["reason"] for trial in failed)
    assert report.best.params == {RATE: 1e-3}
    assert [row[-1] for row in report.rows if row[1] == "failed"] == [t.user_attrs["reason"] for t in failed]


def test_a_sweep_whose_trials_all_failed_fails(config: JobConfig, tmp_path: Path) -> None:
    settings = replace(SETTINGS, trials=1, space={RATE: {"choice": [1e30, 1e31]}})
    for _ in range(2):  # the second run starts no trial
        with pytest.raises(SweepError, match=r"no trial finished, 1 of 1 failed; trial 0: .*must be finite") as refused:
            run(config, settings, tmp_path)
        assert refused.value.exit_code == 4


def test_trials_with_workers_stop_early_and_release_their_resources(config: JobConfig, tmp_path: Path) -> None:
    import ray

    # A worker takes all CPUs, so the trial itself must reserve none, and the next trial must wait for its end.
    on_ray = replace(config, cluster=ClusterConfig(workers=1, cpus_per_worker=8))
    # The second trial has the lower rate and falls behind after the first joint epoch.
    settings = replace(SETTINGS, seed=2, trials=2, concurrent=0, asha=AshaConfig(grace=3, factor=2))
    report, reports = run(on_ray, settings, tmp_path)
    assert [progress.trial.state for progress in reports] == [TrialState.COMPLETE, TrialState.PRUNED]
    assert [row[:2] for row in report.rows] == [[0, "finished"], [1, "stopped"]]
    until(lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"], "free CPUs")
    from ray.util import placement_group_table

    assert {group["state"] for group in placement_group_table().values()} <= {"REMOVED"}


def test_a_sweep_resumes_on_another_machine_after_an_error_of_the_driver(
    config: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, storage=replace(config.storage, url=str(tmp_path / "store")))

    def lose_study(*_: object) -> bool:
        raise StorageInternalError("no answer")

    def lose_claim(_: Progress) -> None:
        raise ClaimedError("another job works on it")

    settings = replace(SETTINGS, trials=2, concurrent=1)
    with monkeypatch.context() as patch:
        patch.setattr(Study, "report_evaluation", lose_study)
        with pytest.raises(SweepError, match=r"the study was lost .*no answer.*; the same command resumes"):
            run(config, settings, tmp_path / "a")
    with pytest.raises(ClaimedError, match="another job works on it"):
        run(config, settings, tmp_path / "b", show=lose_claim)
    report, reports = run(config, settings, tmp_path / "c")
    assert (report.trials_run, [progress.trial.number for progress in reports]) == (1, [1])
    assert {row[1] for row in report.rows} == {"finished"}
    assert not (tmp_path / "c" / "s" / "tune").exists()
    repeated, _ = run(config, settings, tmp_path / "d")
    assert (repeated.trials_run, repeated.rows) == (0, report.rows)
