"""Archives: which are loaded on whose word, and downloads that are cut, changed, or not what they should be."""

from __future__ import annotations

import hashlib
import io
import threading
from pathlib import Path

import pytest

from agggen_platform.srl.archives import Archive, get_archive
from agggen_platform.srl.errors import AllenNLPError
from tests.file_server import CONTENT, Files

SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "allennlp-archives"


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "srl.tar.gz"
    path.write_bytes(CONTENT)
    assert get_archive(path) == get_archive(str(path), SHA256) == Archive(path, SHA256)
    with pytest.raises(AllenNLPError, match=f"has the sha256 {SHA256}, not 00"):
        get_archive(path, "0" * 64)
    assert path.exists()


@pytest.mark.parametrize(
    ("location", "sha256", "message"),
    [
        ("absent.tar.gz", SHA256, r"there is no archive .*absent"),
        ("absent.tar.gz", "", "is no sha256"),
        ("absent.tar.gz", SHA256.upper(), "is no sha256"),
        ("ftp://example.org/a", SHA256, "an archive is a path, http://, https:// or s3://"),
        ("https://ann:secret@e.org/a?key=secret", None, "https://e.org/a is a remote archive without a sha256"),
        ("s3://bucket/srl.tar.gz", None, "without a sha256"),
    ],
)
def test_what_may_not_be_loaded_is_not_even_asked_for(location: str, sha256: str | None, message: str) -> None:
    with pytest.raises(AllenNLPError, match=message):
        get_archive(location, sha256)


def test_a_pinned_archive_is_fetched_once(files: Files, cache: Path) -> None:
    steps: list[tuple[str, int, int | None]] = []
    found = get_archive(files.url("srl.tar.gz"), SHA256, progress=lambda *step: steps.append(step))
    assert found == get_archive(files.url("srl.tar.gz"), SHA256) == Archive(cache / f"{SHA256}.tar.gz", SHA256)
    assert found.path.read_bytes() == CONTENT
    assert files.requests == [None]
    assert steps[-1][1:] == (len(CONTENT), len(CONTENT))


def test_a_trusted_archive_is_fetched_once(files: Files) -> None:
    found = get_archive(files.url("srl.tar.gz"), trust=True)
    assert found == get_archive(files.url("srl.tar.gz"), trust=True)
    assert (found.sha256, files.requests) == (SHA256, [None])


def test_another_file_than_the_pinned_one_is_deleted(files: Files, cache: Path) -> None:
    with pytest.raises(AllenNLPError, match=r"is not the expected file .*it was deleted"):
        get_archive(files.url("srl.tar.gz"), "1" * 64)
    assert [path.name for path in cache.iterdir() if path.suffix != ".lock"] == []


def test_a_file_in_the_cache_that_was_changed_is_refused_and_fetched_again(files: Files) -> None:
    get_archive(files.url("srl.tar.gz"), SHA256).path.write_bytes(b"changed")
    with pytest.raises(AllenNLPError, match="it was not loaded"):
        get_archive(files.url("srl.tar.gz"), SHA256)
    assert get_archive(files.url("srl.tar.gz"), SHA256).path.read_bytes() == CONTENT


def test_two_at_once_fetch_it_once(files: Files) -> None:
    found: list[Archive] = []
    threads = [
        threading.Thread(target=lambda: found.append(get_archive(files.url("srl.tar.gz"), SHA256))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(files.requests) == 1


def test_an_archive_is_fetched_from_s3(s3: str, cache: Path) -> None:
    import boto3

    client, bucket = boto3.client("s3"), s3.removeprefix("s3://")
    client.upload_fileobj(io.BytesIO(CONTENT), bucket, "models/srl.tar.gz")
    assert get_archive(f"{s3}/models/srl.tar.gz", SHA256) == Archive(cache / f"{SHA256}.tar.gz", SHA256)
    for name in ("absent.tar.gz", "models"):
        with pytest.raises(AllenNLPError, match=f"there is no object {s3}/{name}"):
            get_archive(f"{s3}/{name}", "0" * 64)
    with pytest.raises(AllenNLPError, match="it was not loaded"):
        get_archive(f"{s3}/models/srl.tar.gz", "1" * 64)
