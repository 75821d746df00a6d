"""Claims on folders of a failing S3 store."""

import time

import pytest

from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy
from tests.processes import until
from tests.s3_faults import FaultyS3


def test_a_claim_outlasts_an_outage_of_any_length(s3: str, faulty_s3: FaultyS3) -> None:
    folder = Folder(f"{s3}/run", Policy(attempts=2, pause=0.01))
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
    folder = Folder(f"{s3}/run", Policy(attempts=2, pause=0.01))
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
