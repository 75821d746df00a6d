"""Kills and interrupts the driver of a sweep. In the end every trial is there once, as if nothing had happened."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
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
from agggen_platform.job_config import JobConfig
from agggen_platform.sweep.config import AshaConfig, SweepConfig
from agggen_platform.sweep.space import parse_space
from agggen_platform.sweep.study import JOURNAL, Epochs, Study, open_study
from agggen_platform.sweep.trials import TrialJob
from tests.chaos.report import Observed
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
    return [(t.number, t.state.name, t.params, t.value, t.intermediate_values) for t in study.trials()]


def undisturbed(config: JobConfig, folder: Path) -> Study:
    """The same sweep in one process, one trial after the other, without Ray."""
    space = parse_space(SETTINGS.space)
    study = Study(open_study(folder, "plain", {}), SETTINGS, space, EPOCHS)
    job = TrialJob(config, "plain", folder, Path.cwd())
    while suggestion := study.next():
        number = suggestion.number

        def evaluated(event: TrainingEvent, number: int = number) -> bool:
            return study.evaluated(number, event.stage, event.epoch, event.metrics[SETTINGS.measure])

        with suppress(StoppedError):
            study.complete(number, **job.run(number, suggestion.params, evaluated))
    return study


def reported(folder: Path) -> list[int]:
    """The number of each evaluation's trial, as the journal has them."""
    journal = folder / JOURNAL
    lines = journal.read_text().rpartition("\n")[0].splitlines() if journal.exists() else []
    return [event["trial_id"] for event in map(json.loads, lines) if "intermediate_value" in event]


def ended(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive, "it left processes behind"


@pytest.fixture
def leftovers() -> Iterator[list[psutil.Process]]:
    """Ray's agents outlive a killed driver by minutes; a test has no use for them."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.fault("sweep: the driver is killed", "sweep: SIGTERM", "sweep: two copies are started")
def test_a_driver_killed_and_interrupted_ends_with_the_sweep_that_nobody_disturbed(
    tmp_path: Path, leftovers: list[psutil.Process], observed: Observed
) -> None:
    config = config_of(write_corpus(tmp_path / "toy"), epochs=EPOCHS.joint)
    wanted = undisturbed(config, tmp_path / "plain")
    assert {state for _, state, *_ in outcome(wanted)} == {"COMPLETE", "PRUNED"}

    (tmp_path / "config.json").write_text(json.dumps(resolved(config)))
    (tmp_path / "space.json").write_text(json.dumps(resolved(SETTINGS)))
    sweep = ["-m", "agggen_platform.cli.main", "sweep", "config.json", "--space", "space.json", "--no-register"]
    command = [*sweep, "--name", "s"]
    runs = tmp_path / "runs" / "s"

    with Running(command, tmp_path) as first:
        first.wait_until((runs / JOURNAL).exists, "study")
        with Running(command, tmp_path) as second:
            first.wait_until(lambda: second.process.poll() is not None, "end of the second copy")
            assert second.finish() == 6
            assert re.search(rf"another job works on {runs} \(process {first.process.pid}", second.output())
        first.wait_until(lambda: reported(runs).count(1) >= 2, "evaluations of the second trial")
        trials = first.children("_run_trial")
        assert trials
        leftovers += first.children()
        first.signal(signal.SIGKILL)
        first.finish()
        ended(trials)

    before, begun = len(reported(runs)), time.monotonic()
    with Running(command, tmp_path) as third:
        third.wait_until(lambda: len(reported(runs)) > before, "another evaluation")
        observed("the same command went on with the trial that ran; same trials", time.monotonic() - begun)
        third_children = third.children()
        third.signal(signal.SIGTERM)
        assert third.finish() == 143
        assert "Interrupted; the same command goes on with the trials that are left" in third.output()
        assert "Traceback" not in third.output()
        ended(third_children)

    with Running(command, tmp_path) as last:
        assert last.finish() == 0, last.output()
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(runs / JOURNAL)))
    found = Study(optuna.load_study(study_name="s", storage=storage), SETTINGS, parse_space(SETTINGS.space), EPOCHS)
    assert outcome(found) == outcome(wanted)
    assert sorted(path.name for path in runs.parent.glob("s-t*")) == ["s-t000", "s-t001", "s-t002", "s-t003"]
    best, as_wanted = found.best(), wanted.best()
    assert best is not None
    assert as_wanted is not None
    assert fingerprint(Path(best.user_attrs["bundle"])) == fingerprint(Path(as_wanted.user_attrs["bundle"]))
    assert last.output().strip().endswith(best.user_attrs["bundle"])
