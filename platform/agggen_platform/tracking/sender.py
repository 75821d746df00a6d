"""Sends a run log to MLflow on a background thread: in order, each entry exactly once.

After an error or timeout of MLflow the thread retries with exponential back-off, while the run continues. Files are
sent last, so that a failing artifact store does not delay other entries.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

from agggen_platform.locks import locked
from agggen_platform.metrics import JobMetrics
from agggen_platform.tracking import journal
from agggen_platform.tracking.journal import Cursor, Entry, Event, metric_values
from agggen_platform.tracking.origin import masked, without_credentials
from agggen_platform.tracking.store import ENDED_TAG, METRICS_PER_BATCH, DeletedError, Store, classify, reason

_PASSWORD = re.compile(r"://[^/@:]*:(.+)@")
_PAUSE = 1.0  # seconds between two batches; sending each entry immediately would slow the run's other threads
_MAX_BACKOFF = 30.0  # seconds
_REPORTED_REJECTIONS = 5


class Sender:
    def __init__(
        self,
        folder: Path,
        uri: str,
        experiment: str,
        parent: str | None,
        report: Callable[[str], None],
        *,
        killed_size: int | None = None,
    ) -> None:
        """`killed_size`: the size in bytes of a dead process's log; if it is unchanged, the run becomes KILLED."""
        self.folder, self.parent = folder, parent
        self._uri, self._experiment, self._report_to, self._killed_size = uri, experiment, report, killed_size
        self.cursor = self._load()
        self.failure = ""  # error of the last attempt; empty if it succeeded
        self.has_answered = False  # whether MLflow has answered at least once
        self.is_busy = False  # whether another process sends this run log
        self._store: Store | None = None
        self._failures = 0
        self._sent_steps = _SentSteps()
        self._closing, self._abandoned = threading.Event(), threading.Event()  # set when `close` begins and ends
        self._metrics = JobMetrics(run=folder.name)
        self._thread = threading.Thread(target=self._run, name="mlflow", daemon=True)

    @property
    def path(self) -> Path:
        return self.folder / journal.FILE_NAME

    def start(self) -> None:
        self._thread.start()

    def close(self, patience: float) -> int:
        """Waits at most `patience` seconds for all entries to be sent; returns the number of unsent ones."""
        self._closing.set()
        self._thread.join(patience)
        self._abandoned.set()
        self._metrics.close()
        return self.unsent()

    def unsent(self) -> int:
        return self.cursor.unsent(self.folder, self.parent)

    # --- in the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with self._lock() as acquired:
                if acquired:
                    self._send_until_closed()
        except Exception as error:  # must not stop the run
            self._report_failure(error)

    @contextmanager
    def _lock(self) -> Iterator[bool]:
        """Waits for the run log's lock; yields False if another process still has it when this sender is closed."""
        while True:
            with locked(self.folder / journal.LOCK_NAME, wait=False) as acquired:
                self.cursor = self._load()
                self.is_busy = not acquired
                if acquired or self._abandoned.is_set() or (self._closing.is_set() and not self.unsent()):
                    yield acquired
                    return
            self._abandoned.wait(_PAUSE / 2)

    def _send_until_closed(self) -> None:
        while not self._abandoned.is_set():
            closing = self._closing.is_set()  # read first, so that all events logged before `close` are sent
            pause = _PAUSE
            try:
                self._send_new()
            except Exception as error:  # MLflow may raise anything
                self._failures += 1
                self._report_failure(error)
                if getattr(error, "error_code", None) == "RESOURCE_DOES_NOT_EXIST":
                    self._store = None  # the server may have restarted with another database
                if isinstance(error, DeletedError):
                    self._closing.wait()  # keeps the lock, because `journal.is_locked` shows that the run is alive
                if isinstance(error, DeletedError) or (closing and classify(error) != "transient"):
                    return
                pause = min(_MAX_BACKOFF, 0.5 * 2 ** min(self._failures, 10))
            else:
                self._failures = 0
                self._report_recovery()
                if closing and not self._awaits_parent():
                    return
            with suppress(OSError):
                self._metrics.set("tracking_unsent_bytes", max(0, self.path.stat().st_size - self.cursor.sent))
            if closing:
                time.sleep(min(pause, 0.5))
            else:
                self._closing.wait(pause)

    def _send_new(self) -> None:
        """Sends all new entries; raises any error of MLflow. The cursor then points past the last accepted entry."""
        if self._store is None:
            self._store = self._connect()
            self.has_answered = True
        store = self._store
        while not self._abandoned.is_set() and (batch := self._batch()):
            self._send_batch(store, batch)
        if self.parent is not None and not self.cursor.parented and store.set_parent(self.parent):
            self.cursor.parented = True
            self.cursor.save(self.folder)
        if self._sent_steps.is_running and self._killed_size == self.path.stat().st_size:
            description = "cut off: its process was killed, or its machine went down"
            store.send({"event": "end", "status": "KILLED", "ended": description, "time": self._sent_steps.last_time})
            self._sent_steps.is_running = False
        self._send_files(store)

    def _batch(self) -> list[Entry]:
        """The next entries to send together: consecutive metrics, or one entry of another kind."""
        batch: list[Entry] = []
        remaining = max(1, METRICS_PER_BATCH >> self._failures)  # fewer after failures: the server may be slow
        for entry in journal.entries(self.path, self.cursor.sent):
            is_metrics = entry.event is not None and entry.event["event"] == "metrics"
            if batch and not is_metrics:
                break
            batch.append(entry)
            remaining -= len(entry.event["values"]) if is_metrics and entry.event else remaining
            if remaining <= 0:
                break
        return batch

    def _send_batch(self, store: Store, batch: list[Entry]) -> None:
        events = [entry.event for entry in batch if entry.event is not None and not entry.is_file]
        if events and events[0]["event"] == "metrics":
            store.metrics([self._sent_steps.without_repeats(event) for event in events])
        elif events:
            store.send(self._sent_steps.with_continuation(events[0]))
        for event in events:
            self._sent_steps.record(event)
        self._failures = 0
        self.cursor.sent = batch[-1].end
        self.cursor.save(self.folder)

    def _send_files(self, store: Store) -> None:
        for event, end in journal.entries(self.path, self.cursor.files):
            if self._abandoned.is_set():
                return
            if event is None or event["event"] != "artifact":
                self.cursor.files = end  # not saved: saving is slow, and most entries are not files
                continue
            try:
                store.send(event | {"path": str(self.folder / event["path"])})  # may be relative
            except Exception as error:
                store.check()
                self._report_failure(error, "files")  # `check` raised no error, so only the artifact store failed
                raise
            self.cursor.files = end
            self.cursor.save(self.folder)

    def _connect(self) -> Store:
        """Connects to the run in MLflow, and creates it if it does not exist."""
        store = Store(self._uri, self._experiment, self.folder.parent, self._rejected)
        first_event = next((entry.event for entry in journal.entries(self.path) if entry.event is not None), None)
        if first_event is None:
            raise FileNotFoundError(f"no run log at {self.path}")
        key = sha256(repr(sorted(first_event.items())).encode()).hexdigest()[:32]
        if self.cursor.sent > self.path.stat().st_size:  # the log was deleted and started again
            self.cursor = Cursor(self.cursor.to)
        previous_id = self.cursor.run_id
        run_id, is_replaced = store.open(previous_id, key, self.folder.name, first_event)
        if is_replaced:
            self._report(f"MLflow ({self.cursor.to}) has no run {previous_id} any more: a new run gets the whole log")
        if run_id != previous_id:
            self.cursor = Cursor(self.cursor.to, run_id)
            self.cursor.save(self.folder)
        self._sent_steps = _SentSteps()
        for event, end in journal.entries(self.path):
            if end > self.cursor.sent:
                break
            if event is not None:
                self._sent_steps.record(event)
        return store

    def _awaits_parent(self) -> bool:
        """Whether the parent run is not set yet, but may still be created in MLflow."""
        return self.parent is not None and not self.cursor.parented and (self.folder.parent / self.parent).exists()

    def _load(self) -> Cursor:
        return Cursor.load(self.folder, without_credentials(self._uri), self._experiment)

    def _report(self, message: str) -> None:
        if not self._abandoned.is_set():  # afterwards, the caller of `close` reports unsent entries
            self._report_to(self._masked(message))

    def _masked(self, text: str) -> str:
        """`text` without credentials; the address's password is masked as it is written, and percent-decoded."""
        if password := _PASSWORD.search(self._uri):
            for password_form in (password.group(1), unquote(password.group(1))):
                text = text.replace(password_form, "***")
        return masked(text)

    def _rejected(self, entry: str) -> None:
        self.cursor.rejected += 1
        if self.cursor.rejected <= _REPORTED_REJECTIONS:
            suffix = "; further rejections are only counted" if self.cursor.rejected == _REPORTED_REJECTIONS else ""
            self._report(
                f"warning: MLflow refuses {entry.rstrip('.')}; all other entries are sent, {self.path} has all{suffix}"
            )

    def _report_failure(self, error: Exception, refused: str = "entries") -> None:
        if not self.failure:
            self._report(
                f"warning: MLflow ({without_credentials(self._uri)}) accepts no {refused}: {reason(error)}. The run "
                f"continues; {self.path} has all entries, which are sent when MLflow answers again"
            )
        self.failure = self._masked(reason(error))

    def _report_recovery(self) -> None:
        if self.failure:
            self._report(f"MLflow ({without_credentials(self._uri)}) has all entries of run {self.folder.name} again")
        self.failure = ""


class _SentSteps:
    """The steps of each metric that were sent, so that each step is sent only once.

    A run that resumes from a checkpoint logs the steps after it again: only their first values are sent. A value at
    step 0, the default, is sent again if it has changed.
    """

    def __init__(self) -> None:
        self.n_starts = 0
        self.last_time = 0.0  # of the last event, in seconds since 1970
        self.is_running = False  # whether the run has started but not ended
        self._largest_before_start: dict[str, int] = {}  # largest step of each metric before the last start
        self._largest: dict[str, int] = {}  # largest step of each metric
        self._values_at_zero: dict[str, float] = {}  # last value of each metric at step 0

    def without_repeats(self, event: Event) -> Event:
        """The ``metrics`` event without values that were sent before the last start."""
        step = event["step"]

        def is_new(name: str, value: float) -> bool:
            is_changed = step == 0 and self._values_at_zero.get(name) != value
            return is_changed or step > self._largest_before_start.get(name, -1)

        return event | {"values": {name: value for name, value in metric_values(event).items() if is_new(name, value)}}

    def with_continuation(self, event: Event) -> Event:
        """Adds to a ``start`` event a tag with the number of earlier starts; returns other events unchanged."""
        if event["event"] != "start" or not self.n_starts:
            return event
        return event | {"tags": event["tags"] | {"continued": str(self.n_starts), ENDED_TAG: "not yet"}}

    def record(self, event: Event) -> None:
        self.last_time, step = event["time"], event.get("step", 0)
        match event["event"]:
            case "start":
                self.n_starts, self.is_running = self.n_starts + 1, True
                self._largest_before_start = dict(self._largest)
            case "metrics":
                for name, value in metric_values(event).items():
                    self._largest[name] = max(step, self._largest.get(name, step))
                    if step == 0:
                        self._values_at_zero[name] = value
            case "end":
                self.is_running = False
