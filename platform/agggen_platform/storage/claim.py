"""One job at a time on one output folder: the second is refused while the first lives, and takes over when it died.

On this machine the kernel holds the claim (``flock``) and drops it with the process, however it ends. An object store
or a database has no such thing: there the holder counts up a number in ``.claim`` every few seconds, and a claim whose
number stands still belongs to the dead. No clocks are compared. A holder that gets no answer goes on counting; only
another's claim in its place ends it.
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
"""Seconds between two counts; a claim that stands still for four beats is given up for dead."""
_ATTEMPTS = 5
"""At a new claim. Each looks for another's first: a write that arrives late would end a job that began since."""


class Place(Protocol):
    """Where a count is kept: a `Folder`, or what can do as much. Its calls raise StorageError."""

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
    """Holds the folder; yields a check that raises when the claim was lost, to be called before anything is published.

    Args:
        beat: seconds between two counts, `BEAT` by default.

    Raises:
        ClaimedError: another job holds it (or took it over, from the check).
        StorageError: the folder refused, or did not answer; the check may be asked again, the claim may still stand.
    """
    if folder.local is not None:
        with _flock(folder.local):
            yield lambda: None
    else:
        beat = BEAT if beat is None else beat
        # A request that hangs is given up long before four beats are over; what failed is asked again at the next beat.
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
    """`claim` by counting, for a place that no kernel watches.

    Args:
        quick: the same place with less patience, for what must not take longer than a beat or two.
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
            except StorageError:  # it may be well at the next beat; who needs to know now asks by `check`
                continue

    def confirm(where: Place) -> None:
        if not _is_mine(where, token):
            raise _refusal(folder.address, "it took over from this one")

    def check() -> None:
        if lost:
            raise lost[0]
        confirm(folder)

    time.sleep(beat / 2)  # of two that started at once, the one that wrote last goes on
    check()
    thread = threading.Thread(target=beat_on, name="claim", daemon=True)
    thread.start()
    try:
        yield check
    finally:
        ended.set()
        thread.join(10 * beat)
        with suppress(StorageError):  # a claim that cannot be given back is given up for dead
            if _is_mine(quick, token):
                quick.delete(_NAME)


def _wait_until_given_up(folder: Place, quick: Place, beat: float, token: str) -> None:
    """Returns when nobody else counts: there is no claim, it is `mine`, or it stood still for four beats.

    Raises:
        ClaimedError: another job counted while this one looked.
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
