"""`agggen sweep` at its end: where the best bundle is registered, what is said about it, and what if it cannot be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agggen.config import load_config
from agggen_platform.job_config import JobConfig
from agggen_platform.registry import Registry, resolve
from agggen_platform.sweep.config import MEASURES, SPACES, SweepConfig
from agggen_platform.sweep.job import _identity
from agggen_platform.sweep.space import parse_space
from agggen_platform.sweep.study import Epochs, Study, open_study
from agggen_platform.training.job import train_job
from tests.command import Run, command
from tests.processes import free_ports
from tests.unit.registry.examples import empty_registry, save_model
from tests.unit.training.toy import config_of, write_corpus

SWEEP = ("sweep", "elements", "tracking.patience_seconds=5", "--name", "s", "--trials", "1", "--runs", "there")


@pytest.fixture
def run(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs the command where the only trial of a sweep in the folder `there` has ended already."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    settings = load_config(SweepConfig, "predicate-sizes", ["trials=1"], SPACES)
    identity = _identity(load_config(JobConfig, "elements"), settings)
    space = parse_space(settings.space)
    study = Study(open_study(tmp_path / "there" / "s", "s", identity), settings, space, Epochs(1, 1))
    study.next()
    study.evaluated(0, "joint", 1, 2.0)
    study.complete(0, str(save_model(tmp_path / "there" / "s-t000" / "bundle", 1)), "s-t000", 1.0)
    shutil.copy(empty_registry(tmp_path_factory.getbasetemp()), tmp_path / "there" / "mlflow.db")
    return command(capsys)


def test_the_note_names_a_registry_that_other_commands_would_not_read(run: Run, tmp_path: Path) -> None:
    uri, bundle = f"sqlite:///{tmp_path / 'there' / 'mlflow.db'}", tmp_path / "there" / "s-t000" / "bundle"
    code, out, err = run(*SWEEP)
    assert (code, out.splitlines()[-1]) == (0, str(bundle))
    said = f"see: agggen models show agggen/1 --registry {uri}"
    assert f"Trial 0 is registered as agggen/1, alias candidate; {said}" in err
    assert resolve("models:/agggen@candidate", uri=uri) == str(bundle)

    Registry(uri).set_alias("agggen", "candidate", Registry(uri).add_version("agggen", "elsewhere", {}).number)
    code, _, err = run(*SWEEP)
    assert code == 0
    assert f"Trial 0 is already agggen/1; {said}" in err
    assert Registry(uri).aliases("agggen") == {"candidate": "2"}


def test_a_store_may_be_the_folder_of_runs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    for url in ("there", tmp_path / "link"):
        code, _, err = run(*SWEEP, f"storage.url={url}")
        assert code == 0, err


def test_a_registry_that_refuses_costs_neither_the_table_nor_the_bundle(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "there" / "s-t000" / "bundle"
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", f"postgresql://ann:secret@127.0.0.1:{free_ports(1)[0]}/mlflow")
    code, out, err = run(*SWEEP)
    assert code == 8
    assert out.splitlines()[1].startswith("0\tfinished\t2")
    assert out.splitlines()[-1] == str(bundle)
    assert f"Trial 0 is not registered; later: agggen models register {bundle} --name agggen (with --to" in err
    assert "cannot be reached" in err
    assert "secret" not in err
    events = (tmp_path / "there" / "s" / "tracking.jsonl").read_text().splitlines()
    assert '"FINISHED"' in events[-1]


def test_training_reports_exactly_the_measures_of_a_sweep(tmp_path: Path) -> None:
    reported: list[tuple[str, ...]] = []
    train_job(
        config_of(write_corpus(tmp_path / "toy"), epochs=1),
        "one",
        runs_dir=tmp_path,
        on_evaluation=lambda event: reported.append(tuple(sorted(event.metrics))) is not None,
    )
    assert set(reported) == {MEASURES}
