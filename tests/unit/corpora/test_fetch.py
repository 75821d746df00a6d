"""Downloads against a small server on this machine: resumed, verified, and clear when they fail."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agggen.corpora.catalogue import get_corpus, list_corpora
from agggen.corpora.fetch import FetchReport, Progress, RemoteFile, fetch, fetch_files, read_manifest
from agggen.errors import CorpusError

CONTENT = bytes(range(256)) * 2000


class Files(ThreadingHTTPServer):
    """Serves CONTENT under any path but /absent; can cut connections, ignore ranges or answer 503."""

    daemon_threads = True
    content = CONTENT
    cut_after: list[int]
    failures = 0
    ranges = True
    requests: list[str | None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cut_after, self.requests = [], []

    def file(self, path: str = "a.csv", content: bytes = CONTENT) -> RemoteFile:
        url = f"http://127.0.0.1:{self.server_address[1]}/{path}"
        return RemoteFile(path, len(content), hashlib.sha256(content).hexdigest(), url)


class Handler(BaseHTTPRequestHandler):
    server: Files

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if server.failures:
            server.failures -= 1
            self.send_error(503)
            return
        if self.path == "/absent":
            self.send_error(404)
            return
        if start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        end = start + server.cut_after.pop(0) if server.cut_after else None
        self.wfile.write(server.content[start:end])

    def log_message(self, *_: object) -> None:
        """Silent: the tests' output is not a server's log."""


@pytest.fixture
def server() -> Iterator[Files]:
    files = Files()
    thread = threading.Thread(target=files.serve_forever, args=(0.01,))
    thread.start()
    yield files
    files.shutdown()
    thread.join()
    files.server_close()


def get(file: RemoteFile, folder: Path, attempts: int = 3, progress: Progress | None = None) -> FetchReport:
    return fetch_files([file], folder, progress, attempts=attempts, timeout=10, pause=0)


def test_a_file_is_downloaded_with_progress(server: Files, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    report = get(server.file("sub/a.csv"), tmp_path, progress=lambda *step: seen.append(step))
    assert (tmp_path / "sub/a.csv").read_bytes() == CONTENT
    assert (report.downloaded, report.present) == (1, 0)
    assert seen[-1] == ("sub/a.csv", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert list((tmp_path / "sub").iterdir()) == [tmp_path / "sub/a.csv"]


def test_what_is_there_and_right_is_left_alone(server: Files, tmp_path: Path) -> None:
    get(server.file(), tmp_path)
    assert (get(server.file(), tmp_path).present, len(server.requests)) == (1, 1)
    (tmp_path / "a.csv").write_bytes(CONTENT[:-1] + b"x")
    assert get(server.file(), tmp_path).downloaded == 1
    assert (tmp_path / "a.csv").read_bytes() == CONTENT


def test_a_cut_connection_is_continued_where_it_ended(server: Files, tmp_path: Path) -> None:
    server.cut_after = [100_000, 50_000]
    get(server.file(), tmp_path)
    assert (tmp_path / "a.csv").read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-", "bytes=150000-"]


def test_a_second_run_continues_the_first(server: Files, tmp_path: Path) -> None:
    server.cut_after = [100_000]
    with pytest.raises(CorpusError, match=r"cannot download a\.csv .*ended after 100,000 of 512,000 bytes.* is kept"):
        get(server.file(), tmp_path, attempts=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv.part"]
    get(server.file(), tmp_path, attempts=1)
    assert server.requests[-1] == "bytes=100000-"
    assert (tmp_path / "a.csv").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(server: Files, tmp_path: Path) -> None:
    server.cut_after, server.ranges = [100_000], False
    get(server.file(), tmp_path)
    assert (tmp_path / "a.csv").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"", b"wrong" * 1000, CONTENT, CONTENT + b"more"])
def test_whatever_an_earlier_run_left_the_result_is_right_or_refused(
    server: Files, tmp_path: Path, part: bytes
) -> None:
    (tmp_path / "a.csv.part").write_bytes(part)
    if part.startswith(b"wrong"):
        with pytest.raises(CorpusError, match="not the pinned file"):
            get(server.file(), tmp_path)
    get(server.file(), tmp_path)
    assert (tmp_path / "a.csv").read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"x", CONTENT[:1000], b"<html>"])
def test_another_file_is_deleted_and_refused(server: Files, tmp_path: Path, content: bytes) -> None:
    server.content = content
    with pytest.raises(CorpusError, match=r"a\.csv from http://127.* is not the pinned file .* it was deleted"):
        get(server.file(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_part_longer_than_the_servers_file_is_refused_not_retried_forever(server: Files, tmp_path: Path) -> None:
    server.content = CONTENT[:1000]
    (tmp_path / "a.csv.part").write_bytes(CONTENT[:2000])
    with pytest.raises(CorpusError, match="not the pinned file"):
        get(server.file(), tmp_path)


def test_a_missing_file_is_one_clear_message(server: Files, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="/absent answers 404 Not Found; absent was not fetched"):
        get(server.file("absent"), tmp_path)
    assert len(server.requests) == 1


def test_a_busy_server_is_asked_again(server: Files, tmp_path: Path) -> None:
    server.failures = 2
    get(server.file(), tmp_path)
    assert (tmp_path / "a.csv").read_bytes() == CONTENT
    server.failures = 3
    with pytest.raises(CorpusError, match="answers 503"):
        get(server.file("b.csv"), tmp_path)


def test_without_network_the_message_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a.csv"
        with pytest.raises(CorpusError, match="check the network and run again") as error:
            get(RemoteFile("a.csv", 1, "0" * 64, url), tmp_path)
    assert "AGGGEN_DATA_HOME" in str(error.value)


def test_a_folder_that_cannot_be_written_is_named(server: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write .*file/a\.csv\.part"):
        get(server.file(), tmp_path / "file")


def test_manifests_pin_every_file_by_commit_and_hash() -> None:
    for corpus in list_corpora():
        manifest = read_manifest(corpus.name)
        assert bool(manifest) == (corpus.folder is not None and not corpus.copied_from)
        assert len({file.path for file in manifest}) == len(manifest)
        for file in manifest:
            assert len(file.sha256) == 64
            assert file.url.startswith("https://")
            assert any(len(part) == 40 for part in file.url.split("/"))
        for path in corpus.files.values():
            assert not manifest or any(file.path == path or file.path.startswith(path + "/") for file in manifest)


def test_a_corpus_that_is_part_of_agggen_needs_no_download(tmp_path: Path) -> None:
    assert fetch("elements", tmp_path) == FetchReport(tmp_path, 0, 0)


def test_a_corpus_that_users_copy_themselves_says_from_where_and_to_where(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is not fetched, because its release states no licence") as error:
        fetch("webnlg-plans", tmp_path)
    assert f"to {tmp_path}/agggen_release/human_annotations/evaluation" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_the_pinned_hashes_are_those_of_the_real_corpora(data_home: Path) -> None:
    for corpus in list_corpora():
        for file in read_manifest(corpus.name):
            path = data_home / str(get_corpus(corpus.name).folder) / file.path
            assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
            assert path.stat().st_size == file.bytes
