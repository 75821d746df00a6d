"""An empty SQLite registry for each test, copied from one, since creating the schema takes seconds."""

import shutil
from pathlib import Path

import pytest

from agggen_platform.registry import record, register
from tests.unit.registry.examples import empty_registry, save_model, write_report


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return empty_registry(tmp_path_factory.getbasetemp())


@pytest.fixture
def store(empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty registry at the default address ``runs/mlflow.db`` of the working folder."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    shutil.copy(empty_store, tmp_path / "runs" / "mlflow.db")
    return tmp_path / "runs" / "mlflow.db"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Bundles of three runs; tests must not change them."""
    root = tmp_path_factory.mktemp("trained")
    return [save_model(root / f"toy-{seed}" / "bundle", seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="session")
def _registered(
    trained: list[Path], empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Path]]:
    root = tmp_path_factory.mktemp("registered")
    shutil.copy(empty_store, root / "mlflow.db")
    places = [root / f"run-{number}" / "bundle" for number in range(len(trained))]
    for number, (place, bundle) in enumerate(zip(places, trained, strict=True)):
        shutil.copytree(bundle, place)
        report = write_report(root / f"report-{number}", place, 50.0 + number)
        uri = f"sqlite:///{root / 'mlflow.db'}"
        record(str(register(str(place), uri=uri)), report, uri=uri)
    return root / "mlflow.db", places


@pytest.fixture
def three(store: Path, trained: list[Path], _registered: tuple[Path, list[Path]]) -> list[Path]:
    """The bundles of versions 1 to 3 of `agggen`, evaluated with rising BLEU; a test may damage them."""
    registered, places = _registered
    shutil.copy(registered, store)
    for place, bundle in zip(places, trained, strict=True):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(bundle, place)
    return places
