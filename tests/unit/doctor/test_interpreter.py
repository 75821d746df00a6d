"""Python: environment, what hides `platform`, what is installed."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from agggen_platform.doctor import interpreter, versions
from agggen_platform.doctor.settings import Settings
from tests.unit.doctor.servers import distribution, only, said


def test_this_python_is_well() -> None:
    assert said(interpreter.version()) == {"version": "ok"}
    assert said(interpreter.shadow()) == {"platform": "ok"}
    assert list(interpreter.configuration(Settings())) == []


@pytest.mark.parametrize(
    ("prefix", "variable", "level", "words"),
    [
        ("/somewhere/.venv", None, "ok", "a virtual environment, /somewhere/.venv"),
        (None, "CONDA_PREFIX", "ok", "a conda environment"),
        (None, "KUBERNETES_SERVICE_HOST", "ok", "of a container"),
        (None, None, "note", "the system's Python"),
    ],
)
def test_environments(
    prefix: str | None, variable: str | None, level: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(interpreter, "_CONTAINER", tmp_path / "absent")
    for name in ("CONDA_PREFIX", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "/opt/conda")
    monkeypatch.setattr(sys, "prefix", prefix or sys.base_prefix)
    (found,) = interpreter.environment()
    assert (found.level, words in found.found) == (level, True)


@pytest.mark.parametrize("name", ["platform.py", "platform/__init__.py"])
def test_what_hides_the_module_platform_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = interpreter.shadow()
    assert found.level == "error"
    hiding = (tmp_path / name).resolve()
    assert found.remedy == f"mv {hiding} {hiding}.away"


def test_a_folder_platform_without_init_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is how this repository is laid out."""
    (tmp_path / "platform").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert said(interpreter.shadow()) == {"platform": "ok"}


def test_packages_that_are_missing_or_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy>=1", "rich>=9999", "absent-package>=2", "torch>=9999", 'also-absent; extra == "dev"']
    monkeypatch.syspath_prepend(str(distribution(tmp_path, "agggen", "9.9", *wanted)))
    found = list(interpreter.packages())
    assert [one.level for one in found] == ["error", "error"]  # torch has an area of its own
    assert found[0].remedy == "pip install 'rich>=9999'"
    assert found[1].found == "absent-package>=2 is needed, and absent-package is not installed"


def test_packages_that_are_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(distribution(tmp_path, "agggen", "9.9", "numpy>=1", "rich")))
    assert only(interpreter.packages(), "packages").found == "agggen 9.9, and 2 packages in versions that it takes"


def test_a_configuration_that_torch_keeps_from_being_read() -> None:
    (found,) = interpreter.configuration(Settings(unread="OSError: libcudart.so.12: cannot open"))
    assert (found.level, found.remedy) == ("error", "agggen doctor --only torch")


@pytest.mark.parametrize("floor", [versions.TORCH, versions.RAY, versions.MLFLOW], ids=lambda floor: floor.package)
def test_floors_are_those_of_the_package(floor: versions.Floor) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["cluster"]]
    wanted = {one.name: one for one in map(Requirement, lines)}[floor.package]
    told = Requirement(floor.requirement)
    assert (told.specifier, told.extras) == (wanted.specifier, wanted.extras)
    assert f">={floor.oldest}" in str(wanted.specifier)


@pytest.mark.parametrize(("found", "level"), [("2.9.1", "error"), ("2.10.0+cu128", "ok"), ("3.0.0rc1", "ok")])
def test_versions_against_a_floor(found: str, level: str) -> None:
    judged = versions.judged(found, versions.TORCH)
    assert judged.level == level
    assert level == "ok" or ("CVE-2026-24747" in judged.found and judged.remedy == "pip install 'torch>=2.10'")
