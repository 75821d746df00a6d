"""One job at a time on an output folder: a second job is refused while the first lives, and takes over after its death.

On this machine the kernel holds the claim (``flock``) and releases it with the process. In an object store or a
database the holder increments a counter in ``.claim`` every few seconds (a heartbeat); a claim whose counter stands
still is abandoned. No clocks are compared. A holder whose store does not answer keeps trying; it loses the claim only
to another holder. Where the store has conditional writes, taking over and heartbeats are such, so that of two at the
same moment one succeeds.

``.claim`` also names the holder's token, everywhere. A holder that slept while another took over, or a worker that
outlives its driver, finds another token there: who calls the `Claim` before a write does not write.
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
"""At writing a new claim. Each attempt first looks for another holder: a late write would end a newer job."""


class ClaimedError(AggGenError):
    """Another job works on this output folder."""

    exit_code = 6


@dataclass(frozen=True)
class Claim:
    """A claim that this process, or the driver of this worker, holds or held. Calling it checks; it can be pickled."""

    place: Folder
    token: str
    lost: list[ClaimedError] = field(default_factory=list)
    """Why it is lost, as soon as the heartbeat knows."""

    def __call__(self) -> None:
        """Passes if the claim is held, by a look at its place.

        Raises:
            ClaimedError: another job took it over.
            StorageError: the place did not answer; the claim may still be valid.
        """
        self.raise_if_lost()
        if not _is_of(self.place.read(_NAME), self.token):
            raise _refusal(self.place.address, "it took over from this one")

    def raise_if_lost(self) -> None:
        """Passes unless the heartbeat knows that the claim is lost; costs no request.

        Raises:
            ClaimedError: it is.
        """
        if self.lost:
            raise self.lost[0]


@contextmanager
def claim(folder: Folder, beat: float | None = None) -> Iterator[Claim]:
    """Claims the folder; yields what is to be called before a write that a second holder must not see.

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
        # A hanging request is given up long before four beats are over, and repeated at the next beat.
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
    """`claim` by heartbeat, for a place without file locks.

    Args:
        quick: the same place with short timeouts, for calls that must end within a beat or two.
    """
    quick = quick or folder
    held = Claim(folder, uuid.uuid4().hex)

    def write(count: int, seen: bytes | None = b"") -> str | None:
        """Writes if what is there is this holder's, or `seen` (b"" never is); else returns who the holder is."""

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
            except StorageError:  # repeated at the next beat; a check reports it to whoever needs to know now
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
        with suppress(StorageError):  # a claim that cannot be released counts as abandoned
            if _is_of(quick.read(_NAME), held.token):
                quick.delete(_NAME)


def _wait_until_given_up(folder: Folder, quick: Folder, beat: float, token: str) -> bytes | None:
    """Returns when no other job holds the claim: there is none, it has this `token`, or it was still for four beats.

    Returns:
        What is there then.

    Raises:
        ClaimedError: another job's heartbeat was seen.
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
