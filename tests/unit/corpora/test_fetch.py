"""Corpora from their pinned addresses: what is right is left alone, what fails says what to do."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agggen.corpora.catalogue import get_corpus, list_corpora
from agggen.corpora.fetch import FetchReport, RemoteFile, fetch, fetch_files, read_manifest
from agggen.errors import CorpusError
from tests.file_server import CONTENT, Files


def get(files: Files, folder: Path, path: str = "a.csv") -> FetchReport:
    file = RemoteFile(path, len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), files.url(path))
    return fetch_files([file], folder, attempts=2, timeout=10, pause=0)


def test_what_is_there_and_right_is_left_alone(files: Files, tmp_path: Path) -> None:
    assert get(files, tmp_path) == FetchReport(tmp_path, 1, 0)
    assert get(files, tmp_path) == FetchReport(tmp_path, 0, 1)
    assert len(files.requests) == 1
    (tmp_path / "a.csv").write_bytes(CONTENT[:-1] + b"x")
    assert get(files, tmp_path).downloaded == 1
    assert (tmp_path / "a.csv").read_bytes() == CONTENT


def test_what_cannot_be_fetched_says_why(files: Files, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="/absent responded 404 Not Found; absent was not downloaded"):
        get(files, tmp_path, "absent")
    files.cut_after = [100_000, 100_000]
    with pytest.raises(CorpusError, match=r"cannot download a\.csv .* the folder AGGGEN_DATA_HOME"):
        get(files, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write .*file/a\.csv"):
        get(files, tmp_path / "file")


def test_manifests_pin_every_file_by_commit_and_hash() -> None:
    for corpus in list_corpora():
        manifest = read_manifest(corpus.name)
        assert bool(manifest) == (corpus.folder is not None and not corpus.copied_from)
        assert len({file.path for file in manifest}) == len(manifest)
        assert [file.path.split("/")[0] for file in manifest if file.sha256 is None] in ([], ["test"])
        for file in manifest:
            assert file.sha256 is None or len(file.sha256) == 64
            assert file.url.startswith("https://")
            assert any(len(part) == 40 for part in file.url.split("/"))
        for path in corpus.files.values():
            assert not manifest or any(file.path == path or file.path.startswith(path + "/") for file in manifest)


def test_a_file_without_a_known_hash_is_fetched_once_and_not_verified(files: Files, tmp_path: Path) -> None:
    file = RemoteFile("a.csv", None, None, files.url("a.csv"))
    reports = [fetch_files([file], tmp_path, pause=0) for _ in range(2)]
    assert reports == [FetchReport(tmp_path, 1, 0), FetchReport(tmp_path, 0, 1)]
    assert (tmp_path / "a.csv").read_bytes() == CONTENT


def test_a_corpus_that_is_part_of_agggen_needs_no_download(tmp_path: Path) -> None:
    assert fetch("elements", tmp_path) == FetchReport(tmp_path, 0, 0)


def test_a_corpus_that_users_copy_themselves_says_from_where_and_to_where(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="cannot be downloaded, since its release states no licence") as error:
        fetch("webnlg-plans", tmp_path)
    assert f"to {tmp_path}/agggen_release/human_annotations/evaluation" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_the_pinned_hashes_are_those_of_the_real_corpora(data_home: Path) -> None:
    for corpus in list_corpora():
        for file in read_manifest(corpus.name):
            path = data_home / str(get_corpus(corpus.name).folder) / file.path
            if file.sha256 is None:  # not known, nor kept here
                continue
            assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
            assert path.stat().st_size == file.bytes
