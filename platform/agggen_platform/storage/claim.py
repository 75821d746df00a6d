"""A claim is a lease on an output folder. At most one job holds it; if that job dies, another job may take it over.

In a local folder the claim is a file lock (``flock``), which the kernel releases when the process ends. In an object
store the holder increments a counter in ``.claim`` every few seconds (a heartbeat); if the counter stops, the lease has
expired. Clocks of different machines are never compared. A holder that cannot reach the store retries, and loses the
claim only if another job takes it over. Claims and heartbeats are conditional writes if the store supports them, so
only one of two concurrent writes succeeds.

``.claim`` also contains a fencing token, which changes when another job takes over. Calling the `Claim` before a write
compares the token, so a process that was suspended, or a worker that outlives its driver, gets an error.
"""

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from agggen.errors import AggGenError
from agggen_platform.storage.errors import StorageError, as_storage_error
from agggen_platform.storage.folder import Folder

_CLAIM_FILE = ".claim"
HEARTBEAT_SECONDS = 3.0  # seconds between two heartbeats; a lease expires after four intervals without a heartbeat
_ATTEMPTS = 5  # maximum attempts to write a new claim; each first checks that no other job holds it
_TAKEN_OVER = "it took over the claim of this job"


class ClaimedError(AggGenError):
    """Another job works on this output folder."""

    exit_code = 6


@dataclass(frozen=True)
class Claim:
    """The claim of this process or, in a worker, of its driver. Can be pickled."""

    folder: Folder
    token: str
    lost: list[ClaimedError] = field(default_factory=list)
    """Empty; or one error, after a heartbeat found another job's token."""

    def __call__(self) -> None:
        """Raises ClaimedError if another job took the claim over; after a StorageError it may still be held."""
        self.raise_if_lost()
        if not _has_token(self.folder.read(_CLAIM_FILE), self.token):
            raise _claimed_error(self.folder, _TAKEN_OVER)

    def raise_if_lost(self) -> None:
        """Raises ClaimedError if a heartbeat found that the claim is lost; makes no request."""
        if self.lost:
            raise self.lost[0]


def claim(folder: Folder, interval: float | None = None) -> AbstractContextManager[Claim]:
    """Claims the folder for the block. Call the yielded `Claim` before each write that requires the claim.

    `interval`: seconds between two heartbeats; None: `HEARTBEAT_SECONDS`. Raises ClaimedError if another job holds it.
    """
    if folder.local is not None:
        return _flock(folder)
    interval = interval or HEARTBEAT_SECONDS
    # These timeouts end a hanging request long before the lease expires; the next heartbeat retries it.
    policy = replace(folder.policy, seconds=interval / 2, longest_pause=interval / 4)
    policy = replace(policy, connect_timeout=interval, read_timeout=interval)
    return heartbeat(folder, interval, Folder(folder.address, policy))


@contextmanager
def _flock(folder: Folder) -> Iterator[Claim]:
    """`claim` of a local folder."""
    path, new_claim = Path(folder.address), Claim(folder, uuid.uuid4().hex)
    with as_storage_error("claim", path):
        path.mkdir(parents=True, exist_ok=True)
        # The file is never deleted: otherwise another process could lock a new file of the same name.
        claim_file = (path / _CLAIM_FILE).open("a+b", buffering=0)
    with claim_file as file:
        with as_storage_error("claim", path):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise _claimed_error(folder, _holder(file.read())) from error
            file.truncate(0)
            file.write(_content(new_claim.token))
        yield new_claim


@contextmanager
def heartbeat(folder: Folder, interval: float, fast_folder: Folder | None = None) -> Iterator[Claim]:
    """`claim` with heartbeats; `fast_folder`: the same folder, with timeouts of about two intervals."""
    fast_folder = fast_folder or folder
    token = uuid.uuid4().hex
    new_claim = Claim(folder, token)

    def write(count: int, expected: bytes | None = b"") -> str | None:
        """Writes ``.claim`` and returns None if its content is `expected` or has our token; else returns the holder."""

        def change(current: bytes | None) -> bytes | None:
            return _content(token, count) if current == expected or _has_token(current, token) else None

        current = fast_folder.update(_CLAIM_FILE, change)
        return None if _has_token(current, token) else _holder(current)

    for attempt in range(_ATTEMPTS):
        expected = _wait_until_abandoned(folder, fast_folder, interval, token)
        try:
            if (holder := write(0, expected)) is not None:
                raise _claimed_error(folder, holder)
            break
        except StorageError:
            if attempt == _ATTEMPTS - 1:
                raise

    stopped = threading.Event()

    def send_heartbeats() -> None:
        count = 0
        while not stopped.wait(interval):
            count += 1
            try:
                holder = write(count)
            except StorageError:  # the next heartbeat retries; a caller of the `Claim` gets the error itself
                continue
            if holder is not None:
                new_claim.lost.append(_claimed_error(folder, _TAKEN_OVER))
                return

    time.sleep(interval / 2)  # without conditional writes, the last of two concurrent writers holds the claim
    new_claim()
    thread = threading.Thread(target=send_heartbeats, name="claim", daemon=True)
    thread.start()
    try:
        yield new_claim
    finally:
        stopped.set()
        thread.join(10 * interval)
        with suppress(StorageError):  # a claim that cannot be deleted expires
            if _has_token(fast_folder.read(_CLAIM_FILE), token):
                fast_folder.delete(_CLAIM_FILE)


def _wait_until_abandoned(folder: Folder, fast_folder: Folder, interval: float, token: str) -> bytes | None:
    """Waits until no other job holds the claim; returns the content of ``.claim``, or None if it does not exist.

    No other job holds it if ``.claim`` does not exist, has this `token`, or has not changed for four intervals.
    Raises ClaimedError if another job's heartbeat changed ``.claim``.
    """
    previous = folder.read(_CLAIM_FILE)
    deadline = time.monotonic() + 4 * interval
    while previous is not None and not _has_token(previous, token) and time.monotonic() < deadline:
        time.sleep(interval / 2)
        current = fast_folder.read(_CLAIM_FILE)
        if current not in (None, previous):
            raise _claimed_error(folder, _holder(current))
        previous = current
    return previous


def _content(token: str, count: int = 0) -> bytes:
    """The content of ``.claim`` after `count` heartbeats."""
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    return json.dumps({"id": token, "who": holder, "count": count}).encode()


def _has_token(content: bytes | None, token: str) -> bool:
    return bool(content) and json.loads(content or b"")["id"] == token


def _holder(content: bytes | None) -> str:
    """A description of the process that wrote ``.claim``; "" if it is missing or empty."""
    return json.loads(content)["who"] if content else ""


def _claimed_error(folder: Folder, holder: str) -> ClaimedError:
    return ClaimedError(
        f"another job works on {folder} ({holder or 'just started'}); wait until it ends, or choose another folder"
    )
