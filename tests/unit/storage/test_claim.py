"""Claims on folders and stores: retries, second holders, lost claims."""

import errno
import fcntl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.storage.claim import ClaimedError, claim, heartbeat
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from tests.pickling import pickle_copy
from tests.unit.storage.test_folder import files_of_at_most

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
