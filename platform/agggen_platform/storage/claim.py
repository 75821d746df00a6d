"""One job at a time on an output folder: a second job is refused while the first lives, and takes over after its death.

On this machine the kernel holds the claim (``flock``) and releases it with the process. In an object store or a
database the holder increments a counter in ``.claim`` every few seconds (a heartbeat); a claim whose counter stands
still is abandoned. No clocks are compared. A holder whose store does not answer keeps trying; it loses the claim only
to another holder.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from agggen.errors import AggGenError
from agggen_platform.storage.errors import StorageError, explained
from agggen_platform.storage.folder import Folder

_NAME = ".claim"
BEAT = 3.0
"""Seconds between two heartbeats; a claim without one for four times as long is abandoned."""
_ATTEMPTS = 5
"""At writing a new claim. Each attempt first looks for another holder: a late write would end a newer job."""


class Place(Protocol):
    """Where a claim is kept: a `Folder`, or something with these methods. They raise StorageError."""

    @property
    def address(self) -> str: ...

    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, content: bytes) -> None: ...

    def delete(self, name: str) -> None: ...


class ClaimedError(AggGenError):
    """Another job works on this output folder."""

    exit_code = 6


@contextmanager
def claim(folder: Folder, beat: float | None = None) -> Iterator[Callable[[], None]]:
    """Claims the folder; yields a check that raises if the claim was lost, to be called before anything is published.

    Args:
        beat: seconds between two heartbeats, `BEAT` by default.

    Raises:
        ClaimedError: another job holds the claim (or, from the check, took it over).
        StorageError: the folder refused or did not answer; the check may be repeated, the claim may still be valid.
    """
    if folder.local is not None:
        with _flock(folder.local):
            yield lambda: None
    else:
        beat = BEAT if beat is None else beat
        # A hanging request is given up long before four beats are over, and repeated at the next beat.
        quick = replace(
            folder.policy, seconds=beat / 2, longest_pause=beat / 4, connect_timeout=beat, read_timeout=beat
        )
        with heartbeat(folder, beat, Folder(folder.address, quick)) as check:
            yield check


@contextmanager
def _flock(path: Path) -> Iterator[None]:
    import fcntl

    with explained("claim", path):
        path.mkdir(parents=True, exist_ok=True)
        claimed = (path / _NAME).open("a+")  # never removed: a second holder would lock another inode
    with claimed as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise _refusal(str(path), file.read()) from error
        file.truncate(0)
        file.write(_who())
        file.flush()
        yield


@contextmanager
def heartbeat(folder: Place, beat: float = BEAT, quick: Place | None = None) -> Iterator[Callable[[], None]]:
    """`claim` by heartbeat, for a place without file locks.

    Args:
        quick: the same place with short timeouts, for calls that must end within a beat or two.
    """
    quick = quick or folder
    token = uuid.uuid4().hex
    for attempt in range(_ATTEMPTS):
        _wait_until_given_up(folder, quick, beat, token)
        try:
            quick.write(_NAME, json.dumps({"id": token, "who": _who(), "count": 0}).encode())
            break
        except StorageError:
            if attempt == _ATTEMPTS - 1:
                raise

    lost: list[ClaimedError] = []
    ended = threading.Event()

    def beat_on() -> None:
        count = 0
        while not ended.wait(beat):
            try:
                confirm(quick)
                count += 1
                quick.write(_NAME, json.dumps({"id": token, "who": _who(), "count": count}).encode())
            except ClaimedError as error:
                lost.append(error)
                return
            except StorageError:  # repeated at the next beat; `check` reports it to whoever needs to know now
                continue

    def confirm(where: Place) -> None:
        if not _is_mine(where, token):
            raise _refusal(folder.address, "it took over from this one")

    def check() -> None:
        if lost:
            raise lost[0]
        confirm(folder)

    time.sleep(beat / 2)  # of two that started at once, the later writer holds the claim
    check()
    thread = threading.Thread(target=beat_on, name="claim", daemon=True)
    thread.start()
    try:
        yield check
    finally:
        ended.set()
        thread.join(10 * beat)
        with suppress(StorageError):  # a claim that cannot be released counts as abandoned
            if _is_mine(quick, token):
                quick.delete(_NAME)


def _wait_until_given_up(folder: Place, quick: Place, beat: float, token: str) -> None:
    """Returns when no other job holds the claim: there is none, it has this `token`, or it was still for four beats.

    Raises:
        ClaimedError: another job's heartbeat was seen.
        StorageError: the folder did not answer.
    """
    before = folder.read(_NAME)
    deadline = time.monotonic() + 4 * beat
    while before is not None and json.loads(before)["id"] != token and time.monotonic() < deadline:
        time.sleep(beat / 2)
        now = quick.read(_NAME)
        if now not in (None, before):
            assert now is not None
            raise _refusal(folder.address, json.loads(now)["who"])
        before = now


def _is_mine(folder: Place, token: str) -> bool:
    content = folder.read(_NAME)
    return content is not None and json.loads(content)["id"] == token


def _who() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _refusal(where: str, holder: str) -> ClaimedError:
    return ClaimedError(
        f"another job works on {where} ({holder or 'just started'}); wait for it, or choose another folder"
    )
