"""Java: a script in its place that says what it is told."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from agggen_platform.doctor import java


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def fake(path: Path, script: str) -> None:
    (path / "java").write_text(f"#!/bin/sh\n{script}\n")
    (path / "java").chmod(0o755)


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.mark.parametrize(("version", "number"), [("17.0.15", "17"), ("1.8.0_402", "8"), ("21-ea", "21"), ("25", "25")])
def test_a_java_that_is_new_enough(version: str, number: str, path: Path) -> None:
    fake(path, says(version))
    (found,) = java.runtime()
    assert (found.level, found.found) == ("ok", f"Java {number} at {path / 'java'}, with 2 GB of memory")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (says("1.7.0_80"), "Java 7 at"),
        ("echo 'Error: Could not reserve enough space for 2097152KB object heap'; exit 1", "Could not reserve enough"),
        ("exit 3", "exit status 3"),
        ("echo hello", "says no version: 'hello'"),
        ("exec /bin/sleep 600", "does not answer within 0.3 s"),
    ],
)
def test_a_java_that_does_not_do(script: str, words: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_SECONDS", 0.3 if "sleep" in script else 60.0)
    fake(path, script)
    (found,) = java.runtime()
    assert (found.level, words in found.found, bool(found.remedy)) == ("warning", True, True)


def test_a_java_that_is_no_program(path: Path) -> None:
    (path / "java").write_bytes(b"\x7fELF but not really")
    (path / "java").chmod(0o755)
    (found,) = java.runtime()
    assert (found.level, "cannot be started" in found.found) == ("warning", True)


def test_no_java(path: Path) -> None:
    (found,) = java.runtime()
    assert (found.level, found.remedy) == ("note", "apt install default-jre-headless")


def test_it_is_asked_for_the_memory_that_meteor_takes(path: Path) -> None:
    fake(path, f'echo "$@" > {path}/asked; {says("17")}')
    list(java.runtime())
    assert (path / "asked").read_text() == "-Xmx2G -version\n"


def test_the_metrics_package(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap", reason="agggen[metrics] is not installed")
    (found,) = java.metrics()
    assert found.level == "ok"

    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    (found,) = java.metrics()
    assert (found.level, found.remedy) == ("note", "pip install 'agggen[metrics]'")
