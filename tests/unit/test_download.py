"""Downloads against a small server on this machine: resumed, verified, and clear when they fail."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import pytest

from agggen.download import DownloadError, download, without_secrets
from tests.file_server import CONTENT, Files

SHA256 = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)


def get(url: str, target: Path, sha256: str | None = SHA256, size: int | None = SIZE, attempts: int = 3) -> None:
    download(url, target, sha256, size=size, attempts=attempts, timeout=10, pause=0)
    assert target.read_bytes() == CONTENT


def test_a_file_is_downloaded_with_progress(files: Files, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int | None]] = []
    download(files.url("a"), tmp_path / "sub" / "a", SHA256, progress=lambda *step: steps.append(step))
    assert steps[-1] == ("a", SIZE, SIZE)
    assert [done for _, done, _ in steps] == sorted({done for _, done, _ in steps})
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["a"]


@pytest.mark.parametrize("size", [SIZE, None])
def test_a_cut_connection_is_continued_where_it_ended(files: Files, tmp_path: Path, size: int | None) -> None:
    files.cut_after = [100_000, 50_000]
    get(files.url("a"), tmp_path / "a", size=size)
    assert files.requests == [None, "bytes=100000-", "bytes=150000-"]


def test_a_second_run_continues_the_first(files: Files, tmp_path: Path) -> None:
    files.cut_after = [100_000]
    with pytest.raises(DownloadError, match=r"cannot download a .*ended after 100,000 of 512,000 bytes.* is kept"):
        get(files.url("a"), tmp_path / "a", attempts=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.part"]
    get(files.url("a"), tmp_path / "a", attempts=1)
    assert files.requests[-1] == "bytes=100000-"


def test_of_a_file_that_is_not_pinned_every_attempt_starts_anew(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(b"of another file")
    files.cut_after = [100_000]
    get(files.url("a"), tmp_path / "a", None, None)
    assert files.requests == [None, None]


@pytest.mark.parametrize("broken", [{"ranges": False}, {"shift": 1}])
def test_a_server_that_answers_no_range_or_another_one_starts_over(
    files: Files, tmp_path: Path, broken: dict[str, int]
) -> None:
    files.cut_after = [100_000]
    vars(files).update(broken)
    get(files.url("a"), tmp_path / "a")


@pytest.mark.parametrize("size", [SIZE, None])
@pytest.mark.parametrize("part", [b"", b"wrong" * 1000, CONTENT, CONTENT + b"more"])
def test_whatever_an_earlier_run_left_the_result_is_right_or_refused(
    files: Files, tmp_path: Path, part: bytes, size: int | None
) -> None:
    (tmp_path / "a.part").write_bytes(part)
    if part.startswith(b"wrong"):
        with pytest.raises(DownloadError, match="not the expected file"):
            get(files.url("a"), tmp_path / "a", size=size)
    get(files.url("a"), tmp_path / "a", size=size)


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"x", CONTENT[:1000], b"<html>"])
def test_another_file_is_deleted_and_refused(files: Files, tmp_path: Path, content: bytes) -> None:
    files.content = content
    with pytest.raises(DownloadError, match=r"a from http://127.* is not the expected file .* it was deleted"):
        get(files.url("a"), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_part_longer_than_the_servers_file_is_refused_not_retried_forever(files: Files, tmp_path: Path) -> None:
    files.content = CONTENT[:1000]
    (tmp_path / "a.part").write_bytes(CONTENT[:2000])
    with pytest.raises(DownloadError, match="not the expected file"):
        get(files.url("a"), tmp_path / "a")


def test_a_missing_file_is_not_asked_for_again(files: Files, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="/absent responded 404 Not Found; a was not downloaded"):
        get(files.url("absent?key=secret"), tmp_path / "a")
    assert len(files.requests) == 1


def test_a_busy_server_is_asked_again(files: Files, tmp_path: Path) -> None:
    files.failures = 2
    get(files.url("a"), tmp_path / "a")
    files.failures = 3
    with pytest.raises(DownloadError, match="responded 503"):
        get(files.url("b"), tmp_path / "b")


def test_without_network_the_message_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a"
        with pytest.raises(DownloadError, match=r"check the network and run again.*\. Copy it"):
            download(url, tmp_path / "a", advice="Copy it", attempts=2, pause=0)


def test_secrets_of_an_address_are_not_shown() -> None:
    address = "https://ann:secret@example.org:8/a/b.tar.gz?key=secret#secret"
    assert without_secrets(address) == "https://example.org:8/a/b.tar.gz"
