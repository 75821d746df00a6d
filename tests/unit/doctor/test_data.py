"""Corpora of the data home, what a job reads beside them, and folders that agggen writes to."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agggen.corpora.fetch import RemoteFile
from agggen_platform.doctor import data
from agggen_platform.doctor.settings import Settings
from tests.unit.doctor.servers import only, said


def test_the_data_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(data.home()) == {"data home": "ok"}
    monkeypatch.setenv("AGGGEN_DATA_HOME", f"{home}/absent")
    (found,) = data.home()
    assert (found.level, found.remedy) == ("warning", f"mkdir -p {home}/absent")
    (home / "absent").mkdir()
    assert said(data.home()) == {"data home": "ok"}


@pytest.fixture
def webnlg(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus `webnlg` of two files, both there and right; their folder."""
    folder = home / "webnlg_2017"
    files = []
    for name in ("train/a.xml", "dev/b.xml"):
        content = f"<{name}>".encode()
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
        files.append(RemoteFile(name, len(content), hashlib.sha256(content).hexdigest(), ""))
    pinned = data.read_manifest
    monkeypatch.setattr(data, "read_manifest", lambda name: tuple(files) if name == "webnlg" else pinned(name))
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(home))
    return folder


def test_corpora_that_are_there_or_not(webnlg: Path) -> None:
    found = said(data.corpora(Settings()))
    absent = dict.fromkeys(("e2e", "e2e-cleaned", "webnlg-1.6", "webnlg-plans"), "note")
    assert found == {"elements": "ok", "webnlg": "ok", **absent}
    assert only(data.corpora(Settings()), "e2e").remedy == "agggen corpora fetch e2e"


@pytest.mark.parametrize(("job", "level"), [(Settings(), "warning"), (Settings(corpus="webnlg"), "error")])
def test_a_file_that_was_changed_and_one_that_is_missing(job: Settings, level: str, webnlg: Path) -> None:
    (webnlg / "dev/b.xml").write_bytes(b"<Dev/b.xml>")  # of the same size
    found = only(data.corpora(job), "webnlg")
    assert (found.level, "0 of 2 files are missing and 1 changed (dev/b.xml is changed)" in found.found) == (
        level,
        True,
    )
    (webnlg / "dev/b.xml").unlink()
    found = only(data.corpora(job), "webnlg")
    assert (found.level, "1 of 2 files are missing and 0 changed" in found.found) == (level, True)
    assert found.remedy == "agggen corpora fetch webnlg"


def test_a_corpus_that_users_copy_themselves(webnlg: Path) -> None:
    absent = only(data.corpora(Settings(corpus="webnlg-plans")), "webnlg-plans")
    folder = webnlg.parent / "agggen_release/human_annotations/evaluation"
    assert absent.level == "error"
    assert absent.remedy.startswith("copy the folder eva_webnlg/annotation_human of https://")
    assert absent.remedy.endswith(f" to {folder}")
    folder.mkdir(parents=True)
    assert only(data.corpora(Settings()), "webnlg-plans").level == "ok"


def test_the_corpus_of_a_job_that_is_not_there(home: Path) -> None:
    assert only(data.corpora(Settings(corpus="e2e")), "e2e").level == "error"
    found = only(data.job(Settings(corpus="webnlk", splits=("train",))), "corpus")
    assert (found.level, "did you mean webnlg?" in found.found) == ("error", True)


def test_splits(home: Path) -> None:
    prepared = home / "prepared"
    prepared.mkdir()
    (prepared / "train.parquet").touch()
    for corpus in ("elements", str(prepared)):
        assert said(data.job(Settings(corpus=corpus, splits=("train",)))) == {"splits": "ok"}
        found = only(data.job(Settings(corpus=corpus, splits=("train", "validation"))), "splits")
        assert (found.level, "has no split validation" in found.found) == ("error", True)
    assert list(data.job(Settings())) == []


def test_precomputed_frames(home: Path) -> None:
    job = Settings(frames="frames.txt")
    assert said(data.job(job)) == {"frames": "error"}
    (home / "frames.txt").touch()
    assert said(data.job(job)) == {}


def test_folders_that_can_be_written_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_CACHE", f"{home}/cache")
    assert said(data.folders(Settings())) == dict.fromkeys(("cache", "runs", "temporary files"), "ok")
    assert list(home.iterdir()) == []


def test_folders_that_cannot_be_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("AGGGEN_CACHE", f"{home}/file/cache")
    found = list(data.folders(Settings(runs=home / "file" / "runs")))
    assert said(found) == {"cache": "error", "runs": "error", "temporary files": "ok"}
    assert only(found, "cache").remedy == "export AGGGEN_CACHE=FOLDER"


def test_a_cache_that_others_may_write_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_CACHE", f"{home}/cache")
    (home / "cache").mkdir()
    (home / "cache").chmod(0o777)
    found = [one for one in data.folders(Settings()) if one.level == "warning"]
    assert [one.remedy for one in found] == [f"chmod go-w {home}/cache"]
