"""Kills and interrupts the driver of a sweep. The study must equal that of an uninterrupted sweep."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
from optuna.storages.journal import JournalFileBackend

from agggen.bundle import fingerprint
from agggen.config import resolved
from agggen.errors import StoppedError
from agggen.training.events import TrainingEvent
from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.sweep.config import AshaConfig, SweepConfig, parse_space
from agggen_platform.sweep.study import JOURNAL, Epochs, Study, open_study
from agggen_platform.sweep.trials import TrialJob
from agggen_platform.tracking.journal import entries
from tests.processes import Running
from tests.unit.training.toy import config_of, write_corpus

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

SETTINGS = SweepConfig(
    space={"model.predicate_dim": {"choice": [2, 4]}, "training.joint.learning_rate": {"log_uniform": [1e-4, 1e-2]}},
    trials=4,
    concurrent=1,
    asha=AshaConfig(grace=6, factor=2),
)
EPOCHS = Epochs(baseline=5, joint=5)


def outcome(study: Study) -> list[tuple[Any, ...]]:
    trials = study.trials()
    return [(trial.number, trial.state.name, trial.params, trial.value, trial.intermediate_values) for trial in trials]


def uninterrupted(config: JobConfig, folder: Path) -> Study:
    """The same sweep in this process, one trial after the other, without Ray."""
    space = parse_space(SETTINGS.space)
    study = Study(open_study(folder, "plain", {}), SETTINGS, space, EPOCHS)
    job = TrialJob(config, "plain", folder, Path.cwd())
    while suggestion := study.next():
        number = suggestion.number

        def evaluated(event: TrainingEvent, number: int = number) -> bool:
            return study.report_evaluation(number, event.stage, event.epoch, event.metrics[SETTINGS.measure])

        with suppress(StoppedError):
            study.complete(number, **job.run(number, suggestion.params, evaluated))
    return study


def trials_of_evaluations(folder: Path) -> list[int]:
    """The trial number of each evaluation in the journal."""
    journal = folder / JOURNAL
    lines = journal.read_text().rpartition("\n")[0].splitlines() if journal.exists() else []
    return [event["trial_id"] for event in map(json.loads, lines) if "intermediate_value" in event]


def trials_of(sweep: Running) -> list[psutil.Process]:
    """The sweep's trial processes; Ray Tune changes their title during a step."""
    return sweep.children("ray::_Trial", "ray::_Inner.train")


def command_of(config: JobConfig, settings: SweepConfig, folder: Path) -> list[str]:
    """Writes the settings of the sweep `s` into `folder`; returns its command."""
    (folder / "config.json").write_text(json.dumps(resolved(config)))
    (folder / "space.json").write_text(json.dumps(resolved(settings)))
    sweep = ["-m", "agggen_platform.cli.main", "sweep", "config.json", "--space", "space.json", "--no-register"]
    return [*sweep, "--name", "s"]


def assert_ended(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive, "processes outlived the sweep"


@pytest.fixture
def leftovers() -> Iterator[list[psutil.Process]]:
    """Processes to kill after the test: Ray's agents outlive a killed driver by minutes."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def test_a_driver_killed_and_interrupted_ends_with_the_uninterrupted_sweep(
    tmp_path: Path, leftovers: list[psutil.Process]
) -> None:
    config = config_of(write_corpus(tmp_path / "toy"), epochs=EPOCHS.joint)
    expected = uninterrupted(config, tmp_path / "plain")
    assert {state for _, state, *_ in outcome(expected)} == {"COMPLETE", "PRUNED"}

    command = command_of(config, SETTINGS, tmp_path)
    runs = tmp_path / "runs" / "s"

    with Running(command, tmp_path) as first:
        first.wait_until((runs / JOURNAL).exists, "study")
        with Running(command, tmp_path) as second:
            first.wait_until(lambda: second.process.poll() is not None, "end of the second copy")
            assert second.finish() == 6
            assert re.search(rf"another job works on {runs} \(process {first.process.pid}", second.output())
        first.wait_until(lambda: trials_of_evaluations(runs).count(1) >= 2, "evaluations of the second trial")
        trials = trials_of(first)
        assert trials
        leftovers += first.children()
        first.signal(signal.SIGKILL)
        first.finish()
        assert_ended(trials)

    before = len(trials_of_evaluations(runs))
    with Running(command, tmp_path) as third:
        third.wait_until(lambda: len(trials_of_evaluations(runs)) > before, "another evaluation")
        third_children = third.children()
        third.signal(signal.SIGTERM)
        assert third.finish() == 143
        assert "Interrupted; the same command resumes with the remaining trials" in third.output()
        assert "Traceback" not in third.output()
        assert_ended(third_children)

    with Running(command, tmp_path) as last:
        assert last.finish() == 0, last.output()
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(runs / JOURNAL)))
    study = Study(optuna.load_study(study_name="s", storage=storage), SETTINGS, parse_space(SETTINGS.space), EPOCHS)
    assert outcome(study) == outcome(expected)
    assert sorted(path.name for path in runs.parent.glob("s-t*")) == ["s-t000", "s-t001", "s-t002", "s-t003"]
    best, expected_best = study.best(), expected.best()
    assert best is not None and expected_best is not None
    assert fingerprint(Path(best.user_attrs["bundle"])) == fingerprint(Path(expected_best.user_attrs["bundle"]))
    assert last.output().strip().endswith(best.user_attrs["bundle"])


def test_a_trial_whose_process_ends_is_restarted(tmp_path: Path) -> None:
    config = config_of(write_corpus(tmp_path / "toy"), epochs=10**6, patience=10**6, max_records=1)
    config = replace(
        config, cluster=ClusterConfig(max_failures=1), storage=replace(config.storage, checkpoint_seconds=1e6)
    )
    command = command_of(config, replace(SETTINGS, trials=1, asha=None), tmp_path)
    runs = tmp_path / "runs"
    with Running(command, tmp_path) as sweep:
        sweep.wait_until(lambda: len(trials_of_evaluations(runs / "s")) >= 2, "evaluations")
        (trial,) = trials_of(sweep)
        before = len(trials_of_evaluations(runs / "s"))
        trial.terminate()
        assert_ended([trial])
        sweep.wait_until(lambda: len(trials_of_evaluations(runs / "s")) > before + 2, "more evaluations")
        events = [event for event, _ in entries(runs / "s-t000" / "tracking.jsonl") if event is not None]
        updates = [e["step"] for e in events if e["event"] == "metrics" and "baseline/gradient_norm" in e["values"]]
        assert updates == list(range(1, len(updates) + 1))
        (trial,) = trials_of(sweep)
        trial.kill()
        assert sweep.finish() == 4
        assert "trial 0: its process died repeatedly; was it out of memory? Ray says: " in sweep.output()
        assert "Traceback" not in sweep.output()
