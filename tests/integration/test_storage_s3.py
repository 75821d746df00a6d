"""Folders and claims on an S3 store that is busy, failing, unreachable or refuses access."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.client import BaseClient

from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.errors import DamagedError, StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy
from tests.processes import free_ports, until
from tests.s3_faults import FaultyS3

QUICK = Policy(attempts=4, pause=0.01, connect_timeout=5, read_timeout=20, part=5 << 20)
IMPATIENT = Policy(attempts=2, pause=0.01)
LARGE = bytes(range(256)) * (44 << 10)  # 11 MiB: three parts


@pytest.fixture
def folder(s3: str, faulty_s3: FaultyS3) -> Folder:
    """A folder in an empty bucket, behind the fault-injecting proxy."""
    return Folder(f"{s3}/some/where", QUICK)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    return path


def test_parquet_is_read_by_ranges_despite_faults(folder: Folder, faulty_s3: FaultyS3) -> None:
    table = pa.table({"a": list(range(100_000)), "b": [str(number) * 9 for number in range(100_000)]})
    with folder.new("x.parquet") as path:
        pq.write_table(table, path, row_group_size=10_000)
    faulty_s3.heal()
    faulty_s3.inject("cut answer", method="GET")
    faulty_s3.inject("503", after=2, method="GET")
    with folder.open("x.parquet") as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
        assert parquet.read_row_group(7, columns=["a"]).column("a").to_pylist() == list(range(70_000, 80_000))
        assert parquet.read().equals(table)
    folder.write("no.parquet", b"not Parquet")
    with pytest.raises(pa.ArrowInvalid), folder.open("no.parquet") as file:
        pq.ParquetFile(file)
    faulty_s3.inject("403", -1, method="GET")
    with pytest.raises(StorageError, match="refuses these credentials"), folder.open("x.parquet") as file:
        pq.ParquetFile(file)


# --- temporary faults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["500", "503", "reset", "lost answer"])
def test_requests_are_retried_after_temporary_faults(kind: str, folder: Folder, faulty_s3: FaultyS3) -> None:
    folder.write("other", b"")  # so the store is known to be reachable
    calls = {
        "PUT": lambda: folder.write("x", b"123"),
        "GET": lambda: folder.read("x") == b"123",
        "HEAD": lambda: folder.size("x") == 3,
        "DELETE": lambda: folder.delete("x"),
    }
    for method, call in calls.items():
        faulty_s3.heal()
        faulty_s3.inject(kind, 3, method=method)
        assert call() in (True, None)
        assert faulty_s3.count(method) == 4
    faulty_s3.inject(kind, 3, path="list-type")
    assert folder.names() == ["other"]


def test_retries_end_when_the_time_is_up(s3: str, faulty_s3: FaultyS3) -> None:
    faulty_s3.inject("503", -1)
    begin = time.monotonic()
    with pytest.raises(StorageError, match="Service Unavailable"):  # a HEAD response has no error document
        Folder(s3, Policy(attempts=1000, seconds=0.5, pause=0.05, longest_pause=0.1)).size("x")
    assert 0.5 <= time.monotonic() - begin < 20  # a thousand attempts would take a minute


def test_an_interrupted_download_resumes_at_its_offset(
    folder: Folder, faulty_s3: FaultyS3, large: Path, tmp_path: Path
) -> None:
    folder.upload("x", large)
    faulty_s3.inject("cut answer", 6, method="GET")  # more cuts than attempts; progress resets their number
    folder.download("x", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == LARGE
    assert faulty_s3.count("GET") == 7


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(
    folder: Folder, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    folder.write("x", b"a" * 600_000)
    faulty_s3.inject("cut answer", method="GET")
    chunks = folder._store.chunks("x")
    assert set(next(chunks)) == {ord("a")}
    folder.write("x", b"b" * 600_000)
    with pytest.raises(DamagedError, match="replaced while it was read"):
        list(chunks)


# --- multipart uploads ----------------------------------------------------------------------------------------------


def test_a_large_file_is_sent_in_parts(folder: Folder, faulty_s3: FaultyS3, large: Path) -> None:
    for kind in ("503", "reset", "lost answer"):
        faulty_s3.inject(kind, method="PUT", path="partNumber=2")
    faulty_s3.inject("lost answer", method="POST", path="uploadId")  # the upload is complete, its response lost
    faulty_s3.inject("no upload", method="POST", path="uploadId")  # the store has forgotten the completed upload
    folder.upload("x", large)
    assert faulty_s3.count("PUT", "partNumber=1") == faulty_s3.count("PUT", "partNumber=3") == 1
    assert faulty_s3.count("PUT", "partNumber=2") == 4
    assert (folder.size("x"), folder.read("x")) == (len(LARGE), LARGE)


@pytest.mark.parametrize(("method", "path"), [("PUT", "partNumber=3"), ("POST", "uploadId")])
def test_a_failed_upload_is_aborted(
    method: str, path: str, folder: Folder, faulty_s3: FaultyS3, large: Path, s3: str
) -> None:
    folder.write("x", b"old")
    faulty_s3.inject("500", -1, method=method, path=path)
    with pytest.raises(StorageError, match="InternalError"):
        folder.upload("x", large)
    assert folder.read("x") == b"old"
    assert faulty_s3.count("DELETE", "uploadId") == 1
    assert "Uploads" not in boto3.client("s3").list_multipart_uploads(Bucket=s3.removeprefix("s3://"))


def test_sweep_treats_no_such_upload_as_no_uploads(folder: Folder, faulty_s3: FaultyS3) -> None:
    """As rclone responds for a bucket that never had a multipart upload."""
    faulty_s3.inject("no upload", method="GET", path="?uploads")
    folder.remove_partial_files("stage")
    assert faulty_s3.pending == 0
    faulty_s3.inject("403", method="GET", path="?uploads")
    with pytest.raises(StorageError, match="refuses these credentials"):
        folder.remove_partial_files("stage")


def test_sweep_aborts_the_uploads_of_all_pages(
    folder: Folder, s3: str, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 returns pages of 1,000 uploads; the test server returns one page, so it is patched to pages of one upload."""
    bucket, client, call = s3.removeprefix("s3://"), boto3.client("s3"), BaseClient._make_api_call
    for key in ("stage/a", "stage/b", "stage/c", "other"):
        client.create_multipart_upload(Bucket=bucket, Key=f"some/where/{key}")

    def paged_call(self: BaseClient, operation: str, params: dict[str, Any]) -> Any:
        answer = call(self, operation, params)
        if operation == "ListMultipartUploads":
            after = params.get("KeyMarker", ""), params.get("UploadIdMarker", "")
            uploads = sorted(answer["Uploads"], key=lambda upload: (upload["Key"], upload["UploadId"]))
            uploads = [upload for upload in uploads if upload["Key"].startswith(params["Prefix"])]
            remaining = [upload for upload in uploads if (upload["Key"], upload["UploadId"]) > after]
            answer |= {"Uploads": remaining[:1], "IsTruncated": len(remaining) > 1}
            answer |= {"NextKeyMarker": remaining[0]["Key"], "NextUploadIdMarker": remaining[0]["UploadId"]}
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", paged_call)
        folder.remove_partial_files("stage")
    remaining = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [upload["Key"] for upload in remaining] == ["some/where/other"]


# --- permanent errors -----------------------------------------------------------------------------------------------


def calls_of(folder: Folder, source: Path) -> list[Callable[[], object]]:
    return [
        lambda: folder.write("x", b""),
        lambda: folder.upload("x", source),
        lambda: folder.read("x"),
        lambda: folder.names(),
        lambda: folder.size("x"),
        lambda: folder.open("x"),
        lambda: folder.download("x", source.with_name("copy")),
    ]


def test_refused_credentials_are_not_retried(folder: Folder, faulty_s3: FaultyS3, large: Path) -> None:
    faulty_s3.inject("403", -1)
    for count, call in enumerate(calls_of(folder, large), 1):
        with pytest.raises(StorageError, match=r"refuses these credentials .*AWS_ACCESS_KEY_ID") as caught:
            call()
        assert caught.value.exit_code == 5
        assert faulty_s3.count() == count


def test_a_missing_bucket_is_not_a_missing_object(s3: str, faulty_s3: FaultyS3, large: Path) -> None:
    folder = Folder("s3://no-such-bucket-here/x", QUICK)
    for call in calls_of(folder, large):
        faulty_s3.heal()
        with pytest.raises(StorageError, match="no bucket 'no-such-bucket-here' at http"):
            call()
        assert faulty_s3.count() <= 2  # a second request distinguishes bucket and object


def test_missing_credentials_are_named(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(StorageError, match=r"no credentials .* set AWS_ACCESS_KEY_ID"):
        Folder(s3).read("x")


def test_an_unreachable_store_is_named(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://127.0.0.1:{free_ports(1)[0]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)  # takes precedence over AWS_ENDPOINT_URL
    begin = time.monotonic()
    with pytest.raises(StorageError, match=f"nothing answers at {endpoint} .*AWS_ENDPOINT_URL"):
        Folder(s3).read("x")
    assert time.monotonic() - begin < 10


def test_a_store_that_stops_sending_times_out(s3: str, faulty_s3: FaultyS3) -> None:
    folder = Folder(s3, Policy(attempts=2, pause=0.01, read_timeout=0.3))
    faulty_s3.bytes_per_second = 100_000.0  # 0.65 s between two pieces
    with pytest.raises(StorageError, match=r"failed 2 times .* Read timed? ?out|ReadTimeout"):
        folder.write("y", bytes(200_000))


# --- claims ---------------------------------------------------------------------------------------------------------


def test_a_claim_outlasts_an_outage_of_any_length(s3: str, faulty_s3: FaultyS3) -> None:
    folder = Folder(f"{s3}/run", IMPATIENT)
    with claim(folder, interval=0.5) as check:
        for method in ("PUT", ""):  # first only heartbeats (PUT) fail, then all requests
            faulty_s3.heal()
            faulty_s3.inject("503", -1, method=method)
            until(lambda: faulty_s3.count() >= 10, "ten requests")
            if not method:
                with pytest.raises(StorageError, match="failed 2 times"):
                    check()
            faulty_s3.heal()
            check()
            until(lambda: faulty_s3.count("PUT") >= 2, "two heartbeats")
        with pytest.raises(ClaimedError, match="another job works on"), claim(folder, interval=0.5):
            pass
        faulty_s3.inject("503", -1)  # failing to release the claim is no error
    faulty_s3.heal()
    with claim(folder, interval=0.5) as check:
        check()
    assert folder.names() == []


def test_a_claim_that_another_job_took_in_an_outage_is_lost(s3: str, faulty_s3: FaultyS3) -> None:
    folder = Folder(f"{s3}/run", IMPATIENT)
    with claim(folder, interval=0.5) as check:
        faulty_s3.heal()
        faulty_s3.inject("503", -1, method="GET")
        until(lambda: faulty_s3.count("GET") >= 6, "six reads")
        folder.write(".claim", b'{"id": "other", "who": "someone", "count": 0}')
        faulty_s3.heal()
        until(lambda: faulty_s3.count("GET") >= 1, "a read")
        with pytest.raises(ClaimedError, match="took over"):
            check()
    assert folder.names() == [".claim"]


def test_a_request_that_hangs_does_not_stop_the_heartbeat(s3: str, faulty_s3: FaultyS3) -> None:
    with claim(Folder(f"{s3}/run"), interval=0.5):
        requests = faulty_s3.count("GET")
        faulty_s3.bytes_per_second = 3  # reading the claim takes half a minute
        until(lambda: faulty_s3.count("GET") > requests, "another read")
        time.sleep(0.1)  # the response is in transfer
        faulty_s3.heal()
        until(lambda: faulty_s3.count("PUT") > 0, "a heartbeat")


@pytest.mark.parametrize("first", [b"1", None])
def test_an_update_never_overwrites_a_write_since_the_read(s3: str, first: bytes | None) -> None:
    """A holder that is suspended during an update must not overwrite the claim of the next holder."""
    folder, contents_read = Folder(f"{s3}/run"), list[bytes | None]()
    if first:
        folder.write("x", first)

    def change(content: bytes | None) -> bytes | None:
        contents_read.append(content)
        if len(contents_read) == 1:
            folder.write("x", b"2")
        return None if content == b"2" else b"mine"

    assert folder.update("x", change) == b"2"
    assert (contents_read, folder.read("x")) == ([first, b"2"], b"2")
