"""Carries a run log to MLflow, on a thread: in order, each line once, for as long as the run lasts.

MLflow that is down, slow, silent or full of errors is tried again, ever more slowly; the run never waits for it. Files
that only the artifact store does not take are set aside and tried again, so that nothing waits behind them. What is not
sent when the run ends stays for the next run of the same name, or for `agggen runs sync`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from agggen_platform.metrics import UNSENT, Board
from agggen_platform.tracking import cursor as cursors
from agggen_platform.tracking import journal
from agggen_platform.tracking.cursor import Cursor
from agggen_platform.tracking.journal import Entry, Event, numbers
from agggen_platform.tracking.origin import masked, without_credentials
from agggen_platform.tracking.store import METRICS_A_BATCH, GoneError, Store, reason, verdict

_PASSWORD = re.compile(r"://[^/@:]*:(.+)@")
_PAUSE = 1.0  # seconds between two looks at the run log: MLflow's work slows the run's own threads, so it gets batches
_LONGEST_PAUSE = 30.0  # between two attempts


class Sender:
    """Sends the run log of one run to one MLflow."""

    def __init__(
        self,
        folder: Path,
        uri: str,
        experiment: str,
        parent: str | None,
        say: Callable[[str], None],
        *,
        finish: int | None = None,
    ) -> None:
        """`folder` of the run in the folder of runs. `parent`: the name of a run beside it. `say` tells the user.

        `finish`: bytes of a log that nobody wrote any more and that says no end: the run was killed, and MLflow is to
        know, unless the log grows meanwhile.
        """
        self.folder, self.parent = folder, parent
        self._uri, self._experiment, self._say_to, self._finish = uri, experiment, say, finish
        self._to = cursors.destination(without_credentials(uri), experiment)
        self.cursor = cursors.load(folder, self._to) or Cursor()
        self.trouble = ""
        """Why nothing is sent at the moment; empty when all is well."""
        self.answered = False
        """Whether MLflow answered and has the run."""
        self.busy = False
        """Whether another process sends this run log."""
        self._store: Store | None = None
        self._failures = 0
        self._late_failures, self._late_from = 0, 0.0  # tries of late files in a row, and the time of the next
        self._points = _Points()
        self._closing, self._given_up = threading.Event(), threading.Event()
        self._board = Board(run=folder.name)
        self._looked_for_parent = -_LONGEST_PAUSE
        self._thread = threading.Thread(target=self._run, name="mlflow", daemon=True)

    @property
    def path(self) -> Path:
        return self.folder / journal.NAME

    def start(self) -> None:
        self._thread.start()

    def close(self, patience: float) -> int:
        """Waits at most `patience` seconds until all is sent; returns how many entries are not."""
        self._closing.set()
        self._thread.join(patience)
        self._given_up.set()
        self._board.close()
        return self.unsent()

    def unsent(self) -> int:
        """Entries of the run log that MLflow has not taken."""
        behind = sum(1 for _ in journal.entries(self.path, self.cursor.sent))
        return behind + len(self.cursor.late) + bool(self._parent_missing())

    # --- in the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with self._turn() as mine:
                if mine:
                    self._carry()
        except Exception as error:  # whatever happens to the folder of runs, the run goes on
            self._in_trouble(error)

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Waits while another process sends this run log: it sends our lines too, and may do so to the end."""
        while True:
            with cursors.locked(cursors.lock_of(self.folder), wait=False) as got:
                self.cursor = cursors.load(self.folder, self._to) or Cursor()
                self.busy = not got
                if got or self._given_up.is_set() or (self._closing.is_set() and not self.unsent()):
                    yield got
                    return
            self._given_up.wait(_PAUSE / 2)

    def _carry(self) -> None:
        while not self._given_up.is_set():
            closing = self._closing.is_set()  # looked at first, so that what was logged before the end is read after
            pause = _PAUSE
            try:
                self._send_new()
            except Exception as error:  # MLflow may raise anything
                self._failures += 1
                self._in_trouble(error)
                if getattr(error, "error_code", None) == "RESOURCE_DOES_NOT_EXIST":
                    self._store = None  # the server came back with another database
                if isinstance(error, GoneError):
                    self._closing.wait()  # holds the run log until then, for it is still being written
                if isinstance(error, GoneError) or (closing and verdict(error) != "again"):
                    return
                pause = _pause_after(self._failures)
            else:
                self._failures = 0
                if not self.cursor.late:
                    self._all_well()
                if closing and not self.cursor.late and not self._parent_may_come():
                    return
            with suppress(OSError):
                self._board.set(UNSENT, max(0, self.path.stat().st_size - self.cursor.sent))
            if closing:
                time.sleep(min(pause, 0.5))
            else:
                self._closing.wait(pause)

    def _send_new(self) -> None:
        """Sends what there is; raises what MLflow raises, with the cursor after the last entry that it took."""
        if self._store is None:
            self._store = self._opened()
            self.answered = True
        self._send_queue(self._store)
        self._set_parent(self._store)
        if self._points.open and self._finish == self.path.stat().st_size:
            self._store.send({"event": "end", "status": "KILLED", "time": self._points.last}, self._say)
            self._points.open = False
        if self._closing.is_set() or time.monotonic() >= self._late_from:
            self._send_late(self._store)

    def _send_queue(self, store: Store) -> None:
        while not self._given_up.is_set() and (batch := self._batch()):
            self._take(store, batch)

    def _send_late(self, store: Store) -> None:
        """Tries the files that were set aside, each once; raises what was raised for one of them."""
        failed: list[Exception] = []
        for start in list(self.cursor.late):
            if self._given_up.is_set():
                break
            try:
                for entry in islice(journal.entries(self.path, start), 1):
                    if entry.event is not None:
                        store.send(entry.event, self._say)
            except Exception as error:
                store.check()
                failed.append(error)
            else:
                self.cursor.late.remove(start)
                self._save()
            self._send_queue(store)  # waits for one file at most
        self._late_failures = self._late_failures + 1 if failed else 0
        self._late_from = time.monotonic() + _pause_after(self._late_failures)
        if failed:
            worst = min(failed, key=lambda error: verdict(error) != "again")  # one that passes is waited for
            self._in_trouble(worst, "no files")
            raise worst

    def _batch(self) -> list[Entry]:
        """The next entries to send in one go: metrics, or one entry of another kind."""
        batch: list[Entry] = []
        room = max(1, METRICS_A_BATCH >> self._failures)  # a slow server may have the time for fewer
        for entry in journal.entries(self.path, self.cursor.sent):
            is_metrics = entry.event is not None and entry.event["event"] == "metrics"
            if batch and not is_metrics:
                break
            batch.append(entry)
            room -= len(entry.event["values"]) if is_metrics and entry.event else room
            if room <= 0:
                break
        return batch

    def _take(self, store: Store, batch: list[Entry]) -> None:
        """Sends a batch and moves the cursor."""
        events = [entry.event for entry in batch if entry.event is not None]
        if events and events[0]["event"] == "metrics":
            store.metrics([self._points.fresh(event) for event in events])
        elif events:
            try:
                store.send(self._points.counted(events[0]), self._say)
            except Exception as error:
                if events[0]["event"] != "artifact":
                    raise
                store.check()  # it is only the artifact store
                self.cursor.late.append(self.cursor.sent)
                self._in_trouble(error, "no files")
        for event in events:
            self._points.passed(event)
        self._failures = 0
        self.cursor.sent = batch[-1].end
        self._save()

    def _opened(self) -> Store:
        """The run in MLflow, continued or made."""
        store = Store(self._uri, self._experiment, self.folder.parent, self._refused)
        first = next((entry.event for entry in journal.entries(self.path) if entry.event is not None), None)
        if first is None:
            raise FileNotFoundError(f"there is no run log at {self.path}")
        key = sha256(repr(sorted(first.items())).encode()).hexdigest()[:32]
        if self.cursor.sent > self.path.stat().st_size:  # somebody removed the log and a run began another
            self.cursor = Cursor()
        known = self.cursor.run_id
        run_id, gone = store.open(known, key, self.folder.name, first)
        if gone:
            self._say(f"MLflow ({self._to}) has no run {known} any more: the whole run log goes to a new run")
        if run_id != known:
            if known is None and (others := cursors.destinations(self.folder)):
                self._say(f"run {self.folder.name} went to {others[-1]} before: {self._to} gets the whole run log")
            self.cursor = Cursor(run_id)
            self._save()
        self._points = _Points()
        for event, end in journal.entries(self.path):
            if end > self.cursor.sent:
                break
            if event is not None:
                self._points.passed(event)
        return store

    def _set_parent(self, store: Store) -> None:
        if self.parent is None or self.cursor.parented:
            return
        beside = self.folder.parent / self.parent
        found = cursors.load(beside, self._to)
        run_id = found.run_id if found else None
        if run_id is None and not beside.exists() and time.monotonic() - self._looked_for_parent >= _LONGEST_PAUSE:
            self._looked_for_parent = time.monotonic()
            run_id = store.find(self.parent)  # its folder is on another machine
        if run_id is not None:
            store.set_parent(run_id)
            self.cursor.parented = True
            self._save()

    def _parent_missing(self) -> bool:
        return self.parent is not None and not self.cursor.parented

    def _parent_may_come(self) -> bool:
        """Whether MLflow does not know the parent yet but may soon."""
        return self._parent_missing() and (self.folder.parent / str(self.parent)).exists()

    def _save(self) -> None:
        cursors.save(self.folder, self._to, self.cursor)

    # --- what is said --------------------------------------------------------------------------------------------

    def _say(self, message: str) -> None:
        if not self._given_up.is_set():  # the run has ended, and said what is unsent
            self._say_to(self._told(message))

    def _told(self, text: str) -> str:
        """`text` without credentials, the address's own password in whatever form MLflow prints it."""
        if password := _PASSWORD.search(self._uri):
            for form in (password.group(1), unquote(password.group(1))):
                text = text.replace(form, "***")
        return masked(text)

    def _refused(self, what: str) -> None:
        self.cursor.refused += 1
        if self.cursor.refused <= 5:
            more = "; further ones are only counted" if self.cursor.refused == 5 else ""
            self._say(f"warning: MLflow refuses {what.rstrip('.')}; the rest is sent, and {self.path} has it{more}")

    def _in_trouble(self, error: Exception, what: str = "nothing") -> None:
        if not self.trouble:
            self._say(
                f"warning: MLflow ({without_credentials(self._uri)}) takes {what}: {reason(error)}. The run goes on; "
                f"{self.path} has all of it, and MLflow gets it when it can"
            )
        self.trouble = self._told(reason(error))

    def _all_well(self) -> None:
        if self.trouble:
            self._say(f"MLflow ({without_credentials(self._uri)}) has all of run {self.folder.name} again")
        self.trouble = ""


def _pause_after(failures: int) -> float:
    """Seconds until the next try after so many failures in a row."""
    return min(_LONGEST_PAUSE, 0.5 * 2 ** min(failures, 10))


class _Points:
    """The metrics of a run log as it is sent: what a continued run logs a second time is no second point.

    A run that continues from its last checkpoint logs the steps since then again. Such a step stays as it was first
    sent; a number without a step (step 0) is sent again where it has changed.
    """

    def __init__(self) -> None:
        self.starts = 0
        self.last = 0.0  # time of the last event
        self.open = False  # whether the run began and did not end
        self._earlier: dict[str, dict[int, float]] = {}  # before the last start
        self._current: dict[str, dict[int, float]] = {}

    def fresh(self, event: Event) -> Event:
        """A ``metrics`` event without the points that an earlier part of the run has."""
        step = event["step"]

        def is_new(name: str, value: float) -> bool:
            before = self._earlier.get(name, {}).get(step)
            return before is None or (step == 0 and before != value)

        return event | {"values": {name: value for name, value in numbers(event).items() if is_new(name, value)}}

    def counted(self, event: Event) -> Event:
        """A ``start`` event with a tag that says which part of the run it begins; others as they are."""
        if event["event"] != "start" or not self.starts:
            return event
        return event | {"tags": event["tags"] | {"continued": str(self.starts)}}

    def passed(self, event: Event) -> None:
        """The event was sent."""
        self.last = event["time"]
        match event["event"]:
            case "start":
                self.starts, self.open = self.starts + 1, True
                for name, steps in self._current.items():
                    self._earlier.setdefault(name, {}).update(steps)
                self._current = {}
            case "metrics":
                for name, value in numbers(event).items():
                    self._current.setdefault(name, {})[event["step"]] = value
            case "end":
                self.open = False
