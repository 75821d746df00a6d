"""One job at a time on an output folder: a second job is refused while the first lives, and takes over after its death.

In a local folder the claim is a file lock (``flock``), which the kernel releases with the process. In an object store
or a database the holder increments a counter in ``.claim`` every few seconds (a heartbeat); a claim whose counter does
not change is abandoned. No clocks are compared. A holder whose store does not answer keeps trying; it loses the claim
only to another holder. If the store has conditional writes, claims and heartbeats use them, so that of two
simultaneous writes one succeeds.

``.claim`` also contains a token of its holder (fencing). A holder that was suspended while another took over, or a
worker that outlives its driver, finds another token: calling the `Claim` before a write raises an error.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from agggen.errors import AggGenError
from agggen_platform.storage.errors import StorageError, explained
from agggen_platform.storage.folder import Folder

_NAME = ".claim"
BEAT = 3.0
"""Seconds between two heartbeats; a claim without one for four times as long is abandoned."""
_ATTEMPTS = 5
"""To write a new claim. Each attempt first checks for another holder: a late write would end a newer job."""


class ClaimedError(AggGenError):
    """Another job works on this output folder."""

    exit_code = 6


@dataclass(frozen=True)
class Claim:
    """The claim of this process, or of the driver of this worker. Calling it checks it; it can be pickled."""

    place: Folder
    token: str
    lost: list[ClaimedError] = field(default_factory=list)
    """Its error, once the heartbeat finds it lost."""

    def __call__(self) -> None:
        """Reads ``.claim``; returns if the claim is still held.

        Raises:
            ClaimedError: another job took it over.
            StorageError: the store did not answer; the claim may still be held.
        """
        self.raise_if_lost()
        if not _is_of(self.place.read(_NAME), self.token):
            raise _refusal(self.place.address, "it took over from this one")

    def raise_if_lost(self) -> None:
        """Returns unless the heartbeat has found the claim lost; makes no request.

        Raises:
            ClaimedError: it is.
        """
        if self.lost:
            raise self.lost[0]


@contextmanager
def claim(folder: Folder, beat: float | None = None) -> Iterator[Claim]:
    """Claims the folder; yields the claim, to be checked before each write that two holders must not both make.

    Args:
        beat: seconds between two heartbeats, `BEAT` by default.

    Raises:
        ClaimedError: another job holds the claim.
        StorageError: the folder refused or did not answer.
    """
    if folder.local is not None:
        token = uuid.uuid4().hex
        with _flock(folder.local, token):
            yield Claim(folder, token)
    else:
        beat = BEAT if beat is None else beat
        # A hanging request ends long before four beats are over, and is repeated at the next beat.
        quick = replace(
            folder.policy, seconds=beat / 2, longest_pause=beat / 4, connect_timeout=beat, read_timeout=beat
        )
        with heartbeat(folder, beat, Folder(folder.address, quick)) as held:
            yield held


@contextmanager
def _flock(path: Path, token: str) -> Iterator[None]:
    import fcntl

    with explained("claim", path):
        path.mkdir(parents=True, exist_ok=True)
        claimed = (path / _NAME).open("a+")  # never removed: a second holder would lock another inode
    with claimed as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise _refusal(str(path), _holder(file.read().encode())) from error
        with explained("claim", path):
            file.truncate(0)
            file.write(_content(token).decode())
            file.flush()
        yield


@contextmanager
def heartbeat(folder: Folder, beat: float = BEAT, quick: Folder | None = None) -> Iterator[Claim]:
    """`claim` by heartbeat, for stores without file locks.

    Args:
        quick: the same folder with short timeouts, for requests that must end within a beat or two.
    """
    quick = quick or folder
    held = Claim(folder, uuid.uuid4().hex)

    def write(count: int, seen: bytes | None = b"") -> str | None:
        """Writes if the content is this holder's or `seen` (by default never); else returns the other holder."""

        def change(now: bytes | None) -> bytes | None:
            return _content(held.token, count) if now == seen or _is_of(now, held.token) else None

        now = quick.update(_NAME, change)
        return None if _is_of(now, held.token) else _holder(now)

    for attempt in range(_ATTEMPTS):
        seen = _wait_until_given_up(folder, quick, beat, held.token)
        try:
            if (holder := write(0, seen)) is not None:
                raise _refusal(folder.address, holder)
            break
        except StorageError:
            if attempt == _ATTEMPTS - 1:
                raise

    ended = threading.Event()

    def beat_on() -> None:
        count = 0
        while not ended.wait(beat):
            count += 1
            try:
                holder = write(count)
            except StorageError:  # repeated at the next beat; a caller's check would raise it
                continue
            if holder is not None:
                held.lost.append(_refusal(folder.address, "it took over from this one"))
                return

    time.sleep(beat / 2)  # of two that started at once, the later writer holds the claim
    held()
    thread = threading.Thread(target=beat_on, name="claim", daemon=True)
    thread.start()
    try:
        yield held
    finally:
        ended.set()
        thread.join(10 * beat)
        with suppress(StorageError):  # a claim that cannot be released becomes abandoned
            if _is_of(quick.read(_NAME), held.token):
                quick.delete(_NAME)


def _wait_until_given_up(folder: Folder, quick: Folder, beat: float, token: str) -> bytes | None:
    """Returns once no other job holds the claim: it is absent, has this `token`, or did not change for four beats.

    Returns:
        The content of ``.claim`` then.

    Raises:
        ClaimedError: another job's counter changed.
        StorageError: the folder did not answer.
    """
    before = folder.read(_NAME)
    deadline = time.monotonic() + 4 * beat
    while before is not None and not _is_of(before, token) and time.monotonic() < deadline:
        time.sleep(beat / 2)
        now = quick.read(_NAME)
        if now not in (None, before):
            raise _refusal(folder.address, _holder(now))
        before = now
    return before


def _content(token: str, count: int = 0) -> bytes:
    who = f"process {os.getpid()} on {socket.gethostname()}"
    return json.dumps({"id": token, "who": who, "count": count}).encode()


def _is_of(content: bytes | None, token: str) -> bool:
    return bool(content) and json.loads(content or b"")["id"] == token


def _holder(content: bytes | None) -> str:
    return json.loads(content)["who"] if content else ""


def _refusal(where: str, holder: str) -> ClaimedError:
    return ClaimedError(
        f"another job works on {where} ({holder or 'just started'}); wait for it, or choose another folder"
    )
