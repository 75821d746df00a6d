"""Two drivers of one study that lies in a database: they share no folder that the kernel could watch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from agggen.config import load_config
from agggen_platform.job_config import JobConfig
from agggen_platform.storage.claim import ClaimedError, heartbeat
from agggen_platform.sweep import job, trials
from agggen_platform.sweep.config import SPACES, SweepConfig
from agggen_platform.sweep.study import Study, StudyClaim, open_study
from tests.command import command
from tests.unit.training.toy import config_of, write_corpus


def test_a_study_that_another_machine_works_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    settings = load_config(SweepConfig, "predicate-sizes", (), SPACES)
    identity = job._identity(load_config(JobConfig, "elements"), settings)
    with heartbeat(StudyClaim(open_study(tmp_path / "elsewhere", "s", identity, url)), 0.1):
        code, _, err = command(capsys)("sweep", "elements", "--name", "s", "--database", url)
    assert code == 6
    assert "another job works on the study s in its database (process " in err


def test_who_lost_the_claim_ends_with_the_next_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def one_trial(study: Study, work: trials.TrialJob, told: Callable[[int], None]) -> None:
        study.next()
        study.fail(0, "it had to")
        told(0)
        ended.append(study.left)
        StudyClaim(study.optuna).write(".claim", b'{"id": "another", "who": "it", "count": 1}')
        told(0)

    monkeypatch.setattr(job, "connected", lambda *_, **__: nullcontext())
    monkeypatch.setattr(trials, "run_trials", one_trial)
    settings = load_config(SweepConfig, "rates", ["trials=2"], SPACES)
    config, url = config_of(write_corpus(tmp_path / "toy")), f"sqlite:///{tmp_path / 'study.db'}"
    with pytest.raises(ClaimedError):
        job.sweep(config, settings, "s", runs_dir=tmp_path / "runs", database=url, model=None)
    assert ended == [1]
