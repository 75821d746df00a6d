"""`agggen srl check`, with a worker that needs no AllenNLP."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen_platform.cli.main import main
from tests.unit.srl.test_source import fake_environment


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGGGEN_SRL_ENV", str(tmp_path / "env"))
    return fake_environment(tmp_path / "env", monkeypatch)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["srl", *arguments])
    return int(ended.value.code or 0)


def archive(tmp_path: Path, content: str = "good") -> str:
    (tmp_path / "srl.tar.gz").write_text(content)
    return str(tmp_path / "srl.tar.gz")


def test_check_without_an_archive_looks_at_the_environment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == f"ok\tenvironment\t{folder}"
    assert out.splitlines()[1].startswith("ok\tworker\tpython 1.0, allennlp 1.0,")
    assert "without --archive no model" in err


def test_check_finds_frames_with_the_shipped_tagger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--archive", archive(tmp_path), "--sentence", "Ada wrote it .") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows] == ["environment", "worker", "archive", "model", "frame"]
    assert rows[-1] == ["ok", "frame", "[V: wrote]"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dir", "/absent"], "there is no environment for AllenNLP in /absent; make one"),
        (["--archive", "absent.tar.gz"], "there is no archive"),
    ],
)
def test_check_says_what_is_wrong(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", *options) == 2
    assert message in capsys.readouterr().err


def test_check_says_why_an_archive_cannot_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--archive", archive(tmp_path, "refuse")) == 2
    out, err = capsys.readouterr()
    assert "cannot load the archive: the archive is of cheese" in err
    assert "frame" not in out
