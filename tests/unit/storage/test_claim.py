"""A claim on a folder or store: retries, a second holder, and a lost claim."""

import errno
import fcntl
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.storage.claim import ClaimedError, claim, heartbeat
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from tests.sent import sent

BEAT = 0.05


@dataclass
class MemoryFolder:
    """A folder in memory. The next `refused` writes fail; the next `unanswered` ones are stored, then fail."""

    address: str = "memory"
    content: dict[str, bytes] = field(default_factory=dict)
    refused: int = 0
    unanswered: int = 0

    def read(self, name: str) -> bytes | None:
        return self.content.get(name)

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        if self.refused:
            self.refused -= 1
            raise StorageError("refused")
        if (new := change(self.read(name))) is not None:
            self.content[name] = new
        if self.unanswered:
            self.unanswered -= 1
            raise StorageError("no answer")
        return self.read(name)

    def delete(self, name: str) -> None:
        self.content.pop(name, None)


@pytest.mark.parametrize(
    "folder", [MemoryFolder(refused=2), MemoryFolder(unanswered=2), MemoryFolder(refused=1, unanswered=1)]
)
def test_a_failed_first_write_is_retried(folder: MemoryFolder) -> None:
    with heartbeat(folder, BEAT) as check:
        check()
        assert folder.content
    assert not folder.content


def test_a_store_that_never_answers_is_an_error() -> None:
    with pytest.raises(StorageError), heartbeat(MemoryFolder(refused=1000), BEAT):
        pass


@pytest.mark.parametrize("clock", [time.time, lambda: 0.0])
def test_a_second_holder_is_refused_independently_of_the_clock(
    clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", clock)
    folder = MemoryFolder()
    refused = pytest.raises(ClaimedError, match="another job works on memory")
    with heartbeat(folder, BEAT), refused, heartbeat(folder, BEAT):
        pass


def test_a_worker_is_refused_once_another_driver_took_over_from_its_own(tmp_path: Path) -> None:
    with claim(Folder(str(tmp_path))) as held:
        check_in_worker = sent(held)
        check_in_worker()
    check_in_worker()  # no other job took over
    refused = pytest.raises(ClaimedError, match="it took over from this one")
    with claim(Folder(str(tmp_path))) as other:
        other()
        with refused:
            check_in_worker()


def test_the_refusal_names_the_holder_of_the_claim(tmp_path: Path) -> None:
    refused = pytest.raises(ClaimedError, match=r"another job works on .* \(process \d+ on ")
    with claim(Folder(str(tmp_path))), refused, claim(Folder(str(tmp_path))):
        pass


def test_a_disk_without_locks_is_not_reported_as_another_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StorageError, match=r"cannot claim .*: No locks available"), claim(Folder(str(tmp_path))):
        pass


def test_a_claim_on_a_full_disk_is_a_storage_error(tmp_path: Path) -> None:
    """Closing the file used to raise the system's own error in its place."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    (tmp_path / ".claim").touch()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # no file may have a single byte
    try:
        with pytest.raises(StorageError, match=r"cannot claim .*largest file size"), claim(Folder(str(tmp_path))):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
