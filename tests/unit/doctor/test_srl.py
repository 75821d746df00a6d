"""AllenNLP's environment, with a worker that needs no AllenNLP."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen.facts.allennlp.environment import STAMP
from agggen_platform.doctor import srl
from agggen_platform.doctor.settings import Settings
from tests.unit.doctor.servers import only, said
from tests.unit.facts.test_allennlp_source import fake_environment


@pytest.fixture
def environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGGGEN_SRL_ENV", str(home / "env"))
    return fake_environment(home / "env", monkeypatch)


def test_an_environment_that_works(environment: Path) -> None:
    found = only(srl.environment(Settings()), "environment")
    assert (found.level, "allennlp 1.0" in found.found) == ("ok", True)


@pytest.mark.parametrize(("job", "level"), [(Settings(), "note"), (Settings(archive="srl.tar.gz"), "error")])
def test_no_environment(job: Settings, level: str, home: Path) -> None:
    found = only(srl.environment(job), "environment")
    assert (found.level, str(found.remedy).startswith("agggen srl setup")) == (level, True)


@pytest.mark.parametrize("needed", [False, True])
def test_an_environment_that_is_half_made(needed: bool, environment: Path, home: Path) -> None:
    (environment / STAMP).write_text('{"complete": false}')
    (home / "srl.tar.gz").touch()
    found = list(srl.environment(Settings(archive="srl.tar.gz" if needed else None)))
    assert said(found) == {"environment": "error" if needed else "warning"}
    assert found[0].remedy == f"agggen srl setup --dir {environment}"


def test_a_worker_that_does_not_start(environment: Path) -> None:
    python = environment / "bin" / "python"
    python.unlink()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    assert only(srl.environment(Settings()), "environment").level == "warning"


def test_the_archive_of_the_job(environment: Path, home: Path) -> None:
    assert said(srl.environment(Settings(archive="srl.tar.gz"))) == {"environment": "ok", "archive": "error"}
    (home / "srl.tar.gz").touch()
    for archive in ("srl.tar.gz", "https://example.org/srl.tar.gz"):
        assert said(srl.environment(Settings(archive=archive))) == {"environment": "ok"}
