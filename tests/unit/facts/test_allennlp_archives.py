"""Archives: which are loaded on whose word, and downloads that are cut, changed, or not what they should be."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agggen.facts.allennlp.archives import Archive, Remote, get_archive, open_http, open_remote, shown
from agggen.facts.allennlp.errors import AllenNLPError

CONTENT = bytes(range(256)) * 20_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `content`; can cut connections, answer another range than was asked for, fail."""

    daemon_threads = True
    content, version, wrong_range, status = CONTENT, "v1", False, 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cuts: list[int] = []
        self.ranges: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/srl.tar.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if server.status != 200 or start >= len(server.content):
            self.send_error(server.status if server.status != 200 else 416)
            return
        self.send_response(206 if start else 200)
        if start:
            first = start + 1 if server.wrong_range else start
            self.send_header("Content-Range", f"bytes {first}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("Content-Length", str(len(server.content) - start))
        self.send_header("ETag", server.version)
        self.end_headers()
        self.wfile.write(server.content[start : start + server.cuts.pop(0) if server.cuts else None])

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "allennlp-archives"


def get(server: Server, sha256: str | None = SHA256, trust: bool = False) -> Archive:
    return get_archive(server.url, sha256, trust, pause=0)


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "srl.tar.gz"
    path.write_bytes(CONTENT)
    assert get_archive(path) == get_archive(str(path), SHA256) == Archive(path, SHA256)
    with pytest.raises(AllenNLPError, match=f"has the sha256 {SHA256}, not 00"):
        get_archive(path, "0" * 64)
    with pytest.raises(AllenNLPError, match=r"there is no archive .*absent"):
        get_archive(tmp_path / "absent")


@pytest.mark.parametrize("sha256", ["", "abc", "Z" * 64, SHA256.upper()])
def test_what_is_no_sha256_is_refused(tmp_path: Path, sha256: str) -> None:
    with pytest.raises(AllenNLPError, match="is no sha256"):
        get_archive(tmp_path, sha256)


def test_a_remote_archive_without_sha256_is_not_even_asked_for(server: Server) -> None:
    with pytest.raises(AllenNLPError, match="without a sha256; loading an archive runs code"):
        get(server, None)
    assert server.ranges == []


def test_a_pinned_archive_is_fetched_once(server: Server, cache: Path) -> None:
    steps: list[tuple[str, int, int | None]] = []
    found = get_archive(server.url, SHA256, progress=lambda *step: steps.append(step))
    assert found == get(server) == Archive(cache / f"{SHA256}.tar.gz", SHA256)
    assert found.path.read_bytes() == CONTENT
    assert server.ranges == [None]
    assert steps[-1][1:] == (len(CONTENT), len(CONTENT))


def test_a_trusted_archive_is_fetched_once(server: Server) -> None:
    found = get(server, None, trust=True)
    assert found == get(server, None, trust=True)
    assert found.sha256 == SHA256
    assert server.ranges == [None]


def test_another_file_than_the_pinned_one_is_deleted(server: Server, cache: Path) -> None:
    with pytest.raises(AllenNLPError, match=f"has the sha256 {SHA256}, not 11.*it was not loaded but deleted"):
        get(server, "1" * 64)
    assert [path.name for path in cache.iterdir() if path.suffix != ".lock"] == []


def test_a_file_in_the_cache_that_was_changed_is_refused(server: Server) -> None:
    get(server).path.write_bytes(b"changed")
    with pytest.raises(AllenNLPError, match="is another archive, or was changed"):
        get(server)


@pytest.mark.parametrize("pinned", [True, False])
def test_a_cut_download_is_continued(server: Server, pinned: bool) -> None:
    server.cuts = [1_000_000, 2_000_000]
    assert get(server, SHA256 if pinned else None, trust=not pinned).sha256 == SHA256
    assert server.ranges == [None, "bytes=1000000-", "bytes=3000000-"]


def test_what_an_earlier_run_left_is_continued(server: Server, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / f"{SHA256}.tar.gz.part").write_bytes(CONTENT[:1_000_000])
    assert get(server).sha256 == SHA256
    assert server.ranges == ["bytes=1000000-"]


def test_what_an_earlier_run_left_of_an_unpinned_one_is_not_trusted(server: Server, cache: Path) -> None:
    cache.mkdir(parents=True)
    name = f"unpinned-{hashlib.sha256(server.url.encode()).hexdigest()}.tar.gz.part"
    (cache / name).write_bytes(b"of another file")
    assert get(server, None, trust=True).sha256 == SHA256
    assert server.ranges == [None]


def test_a_file_that_changes_between_two_tries_is_read_anew(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.cuts = [1_000_000]
    new = CONTENT[::-1]

    def open_and_change(address: str, start: int) -> Remote:
        if start:
            server.content, server.version = new, "v2"
        return open_http(address, start)

    found = get_archive(server.url, None, trust=True, opener=open_and_change, pause=0)
    assert found.sha256 == hashlib.sha256(new).hexdigest()


def test_a_server_that_answers_another_range_is_not_believed(server: Server) -> None:
    server.cuts, server.wrong_range = [1_000_000], True
    assert get(server).sha256 == SHA256


def test_a_part_that_is_longer_than_the_file_is_dropped(server: Server, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / f"{SHA256}.tar.gz.part").write_bytes(CONTENT + b"more")
    assert get(server).sha256 == SHA256


def test_a_missing_file_is_not_asked_for_again(server: Server) -> None:
    server.status = 404
    with pytest.raises(AllenNLPError, match="answers 404"):
        get(server)
    assert len(server.ranges) == 1


def test_a_server_in_trouble_is_asked_again(server: Server) -> None:
    server.status = 503
    with pytest.raises(AllenNLPError, match=r"cannot fetch .* check the network"):
        get(server)
    assert len(server.ranges) == 4


def test_two_at_once_fetch_it_once(server: Server) -> None:
    found: list[Archive] = []
    threads = [threading.Thread(target=lambda: found.append(get(server))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(server.ranges) == 1


def test_secrets_of_an_address_are_not_shown() -> None:
    assert shown("https://ann:secret@example.org:8/a/b.tar.gz?key=secret#secret") == "https://example.org:8/a/b.tar.gz"


@pytest.mark.parametrize("address", ["ftp://example.org/a", "file:///a"])
def test_other_schemes_are_refused(address: str) -> None:
    with pytest.raises(AllenNLPError, match="an archive is a path, http://, https:// or s3://"):
        get_archive(address, SHA256)


# --- s3:// -------------------------------------------------------------------------------------------------------


def put(address: str, content: bytes = CONTENT) -> str:
    import boto3

    boto3.client("s3").upload_fileobj(io.BytesIO(content), address.removeprefix("s3://"), "models/srl.tar.gz")
    return f"{address}/models/srl.tar.gz"


def test_an_archive_is_fetched_from_s3(s3: str, cache: Path) -> None:
    found = get_archive(put(s3), SHA256)
    assert found == Archive(cache / f"{SHA256}.tar.gz", SHA256)


def test_a_download_from_s3_is_continued(s3: str, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / f"{SHA256}.tar.gz.part").write_bytes(CONTENT[:1_000_000])
    starts: list[int] = []

    def open_and_note(address: str, start: int) -> Remote:
        remote = open_remote(address, start)
        starts.append(remote.start)
        return remote

    assert get_archive(put(s3), SHA256, opener=open_and_note).sha256 == SHA256
    assert starts == [1_000_000]


def test_s3_needs_trust_too(s3: str) -> None:
    with pytest.raises(AllenNLPError, match="without a sha256"):
        get_archive(put(s3))


@pytest.mark.parametrize("name", ["absent.tar.gz", "models"])
def test_what_is_no_object_says_so(s3: str, name: str) -> None:
    put(s3)
    with pytest.raises(AllenNLPError, match=f"there is no object {s3}/{name}"):
        get_archive(f"{s3}/{name}", SHA256, pause=0)
