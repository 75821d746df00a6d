"""Folders: invalid names are refused, writes are atomic. Claims: retries, second holders, lost claims."""

import errno
import fcntl
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient

from agggen.errors import ConfigError
from agggen_platform.storage.claim import ClaimedError, claim, heartbeat
from agggen_platform.storage.errors import StorageError, as_storage_error
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy
from tests.pickling import pickle_copy
from tests.s3_faults import FaultyS3

WRONG_NAMES = ["", "/etc/passwd", "../x", "a/../../x", "a/..", "./a", "a//b", "a/", "a\\b", "..\\x", "a\0b"]


@pytest.mark.parametrize("address", ["folder", "s3://bucket/prefix"])  # no request is made
@pytest.mark.parametrize("name", WRONG_NAMES)
def test_names_that_lead_out_of_the_folder_are_refused_by_all_calls(name: str, address: str, tmp_path: Path) -> None:
    folder = Folder(address)
    calls = [
        folder.size,
        folder.open,
        folder.read,
        folder.sha256,
        folder.new,
        folder.delete,
        lambda name: folder.write(name, b""),
        lambda name: folder.upload(name, Path(__file__)),
        lambda name: folder.download(name, tmp_path / "target"),
    ]
    for call in [*calls, folder.names, folder.remove_partial_files] if name else calls:
        with pytest.raises(ConfigError, match="is not a valid file name"):
            call(name)


STORES = r"^'\w+://.*' is neither .* AWS_ENDPOINT_URL_S3=https://storage.googleapis"


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        (["gs://bucket/x", "az://c/x", "abfs://c/x", "http://host/x"], STORES),
        (["s3://", "s3:///x"], "names no bucket; write s3://bucket/prefix"),
        (["s3://b/a/../c"], "it contains '..'"),
        (["a\0b"], "it contains a NUL"),
    ],
)
def test_invalid_addresses_are_refused(addresses: list[str], message: str) -> None:
    for address in addresses:
        with pytest.raises(ConfigError, match=message):
            Folder(address)


@pytest.mark.parametrize("store", ["local", "s3"])
def test_files_are_written_listed_read_and_deleted(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    top = f"file://{tmp_path}" if store == "local" else request.getfixturevalue("s3")
    folder = Folder(f"{top}/a/b")
    assert folder.local == (tmp_path / "a" / "b" if store == "local" else None)
    assert (folder.names(), folder.size("x"), folder.read("x")) == ([], None, None)
    folder.delete("x")
    for call in (folder.open, folder.sha256, lambda name: folder.download(name, tmp_path / "y")):
        with pytest.raises(FileNotFoundError, match="a/b/x"):
            call("x")
    folder.write("x", b"1234")
    folder.write("x y/ü+%.z", b"")
    Folder(f"{top}/a/b-other").write("x", b"")  # a sibling whose address has the folder's as prefix
    assert folder.names() == ["x", "x y/ü+%.z"]
    assert folder.names("x y") == ["x y/ü+%.z"]
    assert folder.names("x y/ü") == []
    assert (folder.size("x"), folder.size("x y"), folder.read("x")) == (4, None, b"1234")
    assert folder.sha256("x y/ü+%.z") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    with folder.open("x") as file:
        file.seek(2)
        assert file.read() == b"34"
    folder.download("x", tmp_path / "copy")
    folder.upload("new", tmp_path / "copy")
    assert pickle_copy(folder).read("new") == b"1234"
    with pytest.raises(ZeroDivisionError), folder.new("new") as path:
        path.write_bytes(b"half")
        raise ZeroDivisionError
    assert folder.read("new") == b"1234"
    with folder.new("new") as path:
        path.write_bytes(b"56")
    assert folder.read("new") == b"56"
    folder.delete("new")
    assert Folder(f"{top}/a").names() == ["b-other/x", "b/x", "b/x y/ü+%.z"]


def test_sweep_removes_temporary_files_of_killed_writers(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    for name in ("a/.x.0badcafe.tmp", "a/.x.0badcafe.tmp.42.tmp", "a/x", "a/my.tmp", "b/.x.0badcafe.tmp"):
        folder.write(name, b"")
    folder.remove_partial_files("a")
    assert folder.names() == ["a/my.tmp", "a/x", "b/.x.0badcafe.tmp"]


def test_sweep_succeeds_if_the_answer_to_an_abort_is_lost(s3: str, faulty_s3: FaultyS3) -> None:
    folder, bucket = Folder(f"{s3}/some", Policy(pause=0.01)), s3.removeprefix("s3://")
    folder.write("x", b"")  # so the store is known to be reachable
    client = boto3.client("s3")
    client.create_multipart_upload(Bucket=bucket, Key="some/y")
    faulty_s3.inject("lost answer", method="DELETE", path="uploadId")
    folder.remove_partial_files()
    assert faulty_s3.count("DELETE", "uploadId") == 2
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def test_each_page_of_a_listing_is_retried(s3: str, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the listing began anew after each fault, long ones would exceed the attempts."""
    call = BaseClient._make_api_call

    def one_key_per_page(self: BaseClient, operation: str, params: dict[str, Any]) -> Any:
        return call(self, operation, params | ({"MaxKeys": 1} if operation == "ListObjectsV2" else {}))

    monkeypatch.setattr(BaseClient, "_make_api_call", one_key_per_page)
    folder = Folder(f"{s3}/some", Policy(attempts=2, pause=0.01))
    for page, name in enumerate("abcd"):
        folder.write(name, b"")
        faulty_s3.inject("503", after=page, method="GET", path="list-type")
    assert folder.names() == ["a", "b", "c", "d"]
    assert faulty_s3.count("GET", "list-type") == 8


def test_deleting_a_missing_object_succeeds_on_stores_that_answer_404(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google Cloud Storage responds with 404, also to retries."""
    call = BaseClient._make_api_call

    def strict(self: BaseClient, operation: str, params: dict[str, Any]) -> Any:
        if operation == "DeleteObject":
            call(self, "GetObject", dict(params))  # raises NoSuchKey
        return call(self, operation, params)

    monkeypatch.setattr(BaseClient, "_make_api_call", strict)
    folder = Folder(s3)
    folder.write("x", b"")
    for _ in range(2):
        folder.delete("x")
    assert folder.names() == []


def test_a_write_through_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"mine")
    folder = Folder(str(tmp_path / "folder"))
    folder.write("inside/x", b"")
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "folder" / "fine").symlink_to(tmp_path / "folder" / "inside")
    folder.write("fine/y", b"1")
    assert folder.read("inside/y") == b"1"
    assert folder.read("link/x") == b"mine"  # reading may follow links: corpora are often linked
    for call in (lambda: folder.write("link/x", b"theirs"), lambda: folder.delete("link/x")):
        with pytest.raises(StorageError, match="outside"):
            call()
    assert (tmp_path / "outside" / "x").read_bytes() == b"mine"
    (tmp_path / "folder" / "link").unlink()
    linked = Folder(str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").symlink_to(tmp_path / "outside")  # the folder may be a link
    linked.write("z", b"")
    assert linked.names() == ["x", "z"]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """During the block, files cannot grow beyond `size` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("operation", ["write", "upload", "download", "new"])
def test_the_error_for_a_full_disk_says_how_much_is_needed_and_free(operation: str, tmp_path: Path) -> None:
    folder, source = Folder(str(tmp_path / "folder")), tmp_path / "source"
    source.write_bytes(bytes(100_000))
    folder.upload("source", source)

    def in_block() -> None:
        with folder.new("big") as path:
            path.write_bytes(bytes(100_000))

    calls = {
        "write": lambda: folder.write("big", bytes(100_000)),
        "upload": lambda: folder.upload("big", source),
        "download": lambda: folder.download("source", tmp_path / "folder" / "copy"),
        "new": in_block,
    }
    needed = "" if operation == "new" else "100,000 bytes needed, "
    message = rf"cannot write {tmp_path}/folder/\w+: .* \({needed}[\d,]+ free\)"
    with files_of_at_most(50_000), pytest.raises(StorageError, match=message) as error:
        calls[operation]()
    assert error.value.exit_code == 5
    assert set(folder.names()) <= {"copy", "source"}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, r"the disk is full \(7 bytes needed, [\d,]+ free\)"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_errors_of_the_system_are_explained(code: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "not" / "there"
    with pytest.raises(StorageError, match=f"cannot write {path}: .*{message}"), as_storage_error("write", path, 7):
        raise OSError(code, os.strerror(code))
    path.parent.write_bytes(b"")  # a file in place of a folder
    with pytest.raises(StorageError, match=f"cannot write {path}"):
        Folder(str(path.parent)).write(path.name, b"")


HEARTBEAT_SECONDS = 0.05


class FailingFolder(Folder):
    """A folder whose next `refused` writes fail; the next `unanswered` ones are stored, then fail."""

    refused = unanswered = 0

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        if self.refused:
            self.refused -= 1
            raise StorageError("refused")
        content = super().update(name, change)
        if self.unanswered:
            self.unanswered -= 1
            raise StorageError("no answer")
        return content


@pytest.fixture
def folder(tmp_path: Path) -> FailingFolder:
    return FailingFolder(str(tmp_path))


@pytest.mark.parametrize(("refused", "unanswered"), [(2, 0), (0, 2), (1, 1)])
def test_a_failed_first_write_is_retried(refused: int, unanswered: int, folder: FailingFolder) -> None:
    folder.refused, folder.unanswered = refused, unanswered
    with heartbeat(folder, HEARTBEAT_SECONDS) as check:
        check()
        assert folder.names() == [".claim"]
    assert not folder.names()


def test_a_store_that_never_answers_is_an_error(folder: FailingFolder) -> None:
    folder.refused = 1000
    with pytest.raises(StorageError, match="refused"), heartbeat(folder, HEARTBEAT_SECONDS):
        pass


def test_a_second_holder_is_refused_independently_of_the_clock(
    folder: FailingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    refused = pytest.raises(ClaimedError, match=f"another job works on {folder}")
    with heartbeat(folder, HEARTBEAT_SECONDS), refused, heartbeat(folder, HEARTBEAT_SECONDS):
        pass


def test_a_worker_is_refused_after_another_driver_took_over_the_claim(tmp_path: Path) -> None:
    with claim(Folder(str(tmp_path))) as held:
        check_in_worker = pickle_copy(held)
        check_in_worker()
    check_in_worker()  # this job still has the claim
    refused = pytest.raises(ClaimedError, match="it took over the claim of this job")
    with claim(Folder(str(tmp_path))) as other:
        other()
        with refused:
            check_in_worker()


def test_a_disk_without_locks_is_not_reported_as_another_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StorageError, match=r"cannot claim .*: No locks available"), claim(Folder(str(tmp_path))):
        pass


def test_a_claim_on_a_full_disk_is_a_storage_error(tmp_path: Path) -> None:
    """Regression: closing the file raised OSError instead."""
    (tmp_path / ".claim").touch()
    refused = pytest.raises(StorageError, match=r"cannot claim .*largest file size")
    with files_of_at_most(0), refused, claim(Folder(str(tmp_path))):
        pass
