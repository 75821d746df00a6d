"""Checks of packages, torch and GPUs, corpora and disks of this machine."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from agggen.corpora.fetch import read_manifest
from agggen_platform.doctor.machine import accelerator, data, disk, packages
from agggen_platform.doctor.settings import Settings
from tests.unit.doctor.helpers import finding_about, levels

HERE = Settings()


def distribution(folder: Path, name: str, version: str, *requires: str) -> None:
    """Writes the metadata of an installed package, as `importlib.metadata` reads it."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    info.joinpath("METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires)]))


@pytest.mark.parametrize(
    ("requirement", "version", "problem"),
    [
        ("torch>=2.10", "2.10.0+cpu", None),
        ("torch>=2.10", "2.9.1", "agggen needs torch>=2.10, but 2.9.1 is installed"),
        ("absent-package>=1", None, "agggen needs absent-package>=1, but it is not installed"),
        ("ray[data]>=2.55 ; extra == 'cluster'", "2.53.0", "agggen needs ray>=2.55, but 2.53.0 is installed"),
        ("absent-package>=1 ; extra == 'cluster'", None, None),
    ],
)
def test_installed_packages_must_be_in_the_declared_ranges(
    requirement: str, version: str | None, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path, "agggen", "0.1.0", requirement)
    if version is not None:
        distribution(tmp_path, requirement.partition(">")[0].partition("[")[0], version)
    monkeypatch.syspath_prepend(str(tmp_path))
    finding = finding_about(packages(HERE), "packages")
    assert finding.level == ("ok" if problem is None else "error")
    assert problem is None or (finding.message, str(finding.remedy)[:13]) == (problem, "pip install '")


@pytest.mark.parametrize(
    ("settings", "driver", "level"),
    [
        (HERE, False, "note"),
        (HERE, True, "warning"),
        (Settings(device="cuda"), False, "error"),
        (Settings(workers=2, gpus_per_worker=1), False, "error"),
        (Settings(workers=2, gpus_per_worker=1, address="head:6379"), False, "note"),
    ],
)
def test_torch_without_gpu(settings: Settings, driver: bool, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/nvidia-smi" if driver else None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert levels(accelerator(settings))["GPU"] == level


def test_corpora_that_are_missing_incomplete_and_complete(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(home))
    findings = list(data(HERE))
    assert {levels(findings)[name] for name in ("e2e", "webnlg", "webnlg-plans")} == {"note"}
    assert finding_about(findings, "e2e").remedy == "agggen corpora fetch e2e"
    assert levels(data(Settings(corpus="e2e")))["e2e"] == "error"
    files = read_manifest("e2e")
    for file in files:
        path = home / "e2e" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.truncate(file.bytes)
    assert levels(data(Settings(corpus="e2e")))["e2e"] == "ok"
    with (home / "e2e" / files[0].path).open("ab") as stream:
        stream.write(b"x")
    finding = finding_about(data(HERE), "e2e")
    assert (finding.level, f"the first is {files[0].path}" in finding.message) == ("warning", True)
    assert levels(data(Settings(corpus="webnlk")))["corpus"] == "error"
    (home / "films").mkdir()
    for existing in ("films", "my/{train,dev}.jsonl", "s3://corpora/films"):
        assert "corpus" not in levels(data(Settings(corpus=existing)))


@pytest.mark.parametrize(
    ("free", "runs", "ray"),
    [(900 << 30, "ok", "ok"), (40 << 30, "ok", "error"), (4 << 30, "warning", "error"), (100 << 20, "error", "error")],
)
def test_findings_about_disk_space(free: int, runs: str, ray: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")(1000 << 30, (1000 << 30) - free, free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    result = levels(disk(HERE))
    assert (result["runs"], result["ray"]) == (runs, ray)


def test_a_folder_that_cannot_be_created(home: Path) -> None:
    (home / "file").write_text("")
    assert levels(disk(Settings(runs="file/runs")))["runs"] == "error"
    assert levels(disk(Settings(runs="new/runs")))["runs"] != "error"
    assert [path.name for path in home.iterdir()] == ["file"]
