"""Downloads of corpora: retries, verification, error messages."""

import hashlib
from pathlib import Path

import pytest

from agggen.corpora.catalogue import list_corpora
from agggen.corpora.fetch import FetchReport, RemoteFile, fetch, fetch_files, read_manifest
from agggen.errors import CorpusError
from tests.file_server import CONTENT, FileServer
from tests.processes import free_ports

HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Skips the pauses between requests and records their seconds."""
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def fetch_file(files: FileServer, folder: Path, path: str = "a.csv", sha256: str | None = HASH) -> FetchReport:
    return fetch_files([RemoteFile(path, len(CONTENT) if sha256 else None, sha256, files.url(path))], folder)


def test_valid_files_are_not_downloaded_again(files: FileServer, tmp_path: Path) -> None:
    assert fetch_file(files, tmp_path) == FetchReport(tmp_path, 1, 0)
    assert fetch_file(files, tmp_path) == FetchReport(tmp_path, 0, 1)
    assert files.requests == 1
    (tmp_path / "a.csv").write_bytes(CONTENT[:-1] + b"x")
    assert fetch_file(files, tmp_path).n_downloaded == 1
    assert (tmp_path / "a.csv").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    files.content = b"other"
    assert fetch_file(files, tmp_path, sha256=None).n_present == 1
    assert [fetch_file(files, tmp_path, "unverified", sha256=None).n_downloaded for _ in range(2)] == [1, 0]


def test_cut_connections_and_busy_servers_are_retried(files: FileServer, tmp_path: Path, delays: list[float]) -> None:
    files.cut_after, files.failures = [100_000], 2
    fetch_file(files, tmp_path)
    assert (files.requests, delays, (tmp_path / "a.csv").read_bytes()) == (4, [1, 2, 4], CONTENT)


def test_a_failed_download_states_the_reason_and_leaves_no_file(files: FileServer, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"cannot download absent from .*: the server responded 404 Not Found"):
        fetch_file(files, tmp_path, "absent")
    assert files.requests == 1
    files.cut_after = [100_000] * 4
    with pytest.raises(CorpusError, match=r"the connection ended after 100,000 bytes\. .* the folder AGGGEN_DATA_HOME"):
        fetch_file(files, tmp_path)
    files.failures = 4
    with pytest.raises(CorpusError, match="the server responded 503"):
        fetch_file(files, tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write .*file/a\.csv"):
        fetch_file(files, tmp_path / "file")


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"x" * 100_000, CONTENT[:1000]])
def test_a_file_with_the_wrong_hash_is_refused(files: FileServer, tmp_path: Path, content: bytes) -> None:
    files.content = content
    with pytest.raises(CorpusError, match=r"does not have the expected SHA-256 \(received .* bytes\)"):
        fetch_file(files, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_error_without_network_recommends_copying(tmp_path: Path) -> None:
    file = RemoteFile("a", 1, "0" * 64, f"http://127.0.0.1:{free_ports(1)[0]}/a")
    with pytest.raises(CorpusError, match=r"cannot download a from .*refused\. Without network, copy"):
        fetch_files([file], tmp_path)


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


def test_a_corpus_without_a_download_names_source_and_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path))
    with pytest.raises(CorpusError, match="cannot be downloaded, since its release states no licence") as error:
        fetch("webnlg-plans")
    assert f"to {tmp_path}/agggen_release/human_annotations/evaluation" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_the_pinned_hashes_are_those_of_the_real_corpora(data_home: Path) -> None:
    for corpus in list_corpora():
        for file in read_manifest(corpus.name):
            if file.sha256 is not None:
                path = data_home / str(corpus.folder) / file.path
                assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
                assert path.stat().st_size == file.bytes
