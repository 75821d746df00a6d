"""Writes checkpoints to a run's store in the background, and restores the same checkpoint in all workers."""

import fcntl
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from safetensors import safe_open
from torch import Tensor

from agggen.training.checkpoints import Snapshot, load_checkpoint
from agggen.training.distributed import WorkerGroup
from agggen.training.loop import Progress, Trainer
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.errors import StorageError, as_storage_error

_PREFIX = "agggen-checkpoints-"


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Yields a temporary folder; also removes folders that killed processes left."""
    parent = Path(tempfile.gettempdir())
    for old_folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(old_folder):  # OSError: locked, already removed, or another user's
            shutil.rmtree(old_folder)
    folder = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=parent))
    with _locked(folder):
        path = folder.rename(parent / folder.name.removeprefix("."))  # `glob` does not match it before it is locked
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks the folder during the block; raises BlockingIOError if another process has locked it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


class StoreKeeper:
    """A `Checkpointer` that saves in a `CheckpointStore`; as a context manager, it waits for the last checkpoint.

    A thread stores and verifies copies of the trainer's state, and calls `on_saved` after each. A newer copy replaces a
    pending one. An error of the thread is raised by the next `save`, or at the end of the block.
    """

    def __init__(self, store: CheckpointStore, group: WorkerGroup, on_saved: Callable[[], None] = lambda: None) -> None:
        self.store, self.group, self._on_saved = store, group, on_saved
        self._pending: dict[str, Snapshot] = {}  # by stage
        self._condition = threading.Condition()
        self._is_ending = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._store_pending, name="checkpoints", daemon=True)

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(_temporary_folder())
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            return  # after Ctrl-C, do not wait for uploads
        with self._condition:
            self._is_ending = True
            self._condition.notify()
        self._thread.join()
        self._stack.close()
        self._raise_error()

    def restore(self, trainer: Trainer) -> bool:
        """Loads the newest complete checkpoint, the same one in all workers; returns False if there is none."""
        path = self._folder / "restored.safetensors"
        checkpoint = self.group.broadcast(self.store.restore(trainer.stage, path) if self.group.rank == 0 else None)
        if checkpoint is None:
            return False
        if self.group.rank:
            self.store.fetch(checkpoint, path)
        load_checkpoint(path, trainer)
        path.unlink()
        return True

    def save(self, trainer: Trainer) -> None:
        self._raise_error()
        snapshot = Snapshot.of(trainer)
        with self._condition:
            self._pending[snapshot.stage] = snapshot
            self._condition.notify()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _store_pending(self) -> None:
        path = self._folder / "saved.safetensors"
        try:
            while snapshot := self._next_snapshot():
                with as_storage_error("write", path):
                    snapshot.write(path)
                self.store.save(snapshot.stage, snapshot.step, path)
                self._on_saved()
        except Exception as error:  # raised by the next `save`
            self._error = error

    def _next_snapshot(self) -> Snapshot | None:
        """Waits for a snapshot to store; returns None when the block ends."""
        with self._condition:
            self._condition.wait_for(lambda: self._pending or self._is_ending)
            return self._pending.pop(next(iter(self._pending))) if self._pending else None


def trained_weights(store: CheckpointStore, stage: str, epochs: int) -> tuple[dict[str, Tensor], Progress]:
    """The best weights and the progress of a finished stage; raises StorageError if its last checkpoint is missing."""
    with _temporary_folder() as folder:
        path = folder / "trained.safetensors"
        progress = Progress()
        weights: dict[str, Tensor] = {}
        if checkpoint := store.restore(stage, path):
            with safe_open(path, framework="pt") as file:
                progress = Progress(**json.loads(file.metadata()["agggen"])["progress"])
                best_names = [name for name in file.keys() if name.startswith("best.")]  # noqa: SIM118 (not a dict)
                weights = {name.removeprefix("best."): file.get_tensor(name) for name in best_names}
        if not (progress.done or progress.epoch >= epochs):
            problem = f"is of update {checkpoint.step}" if checkpoint else "is missing"
            raise StorageError(
                f"the workers finished {stage}, but its newest complete checkpoint in {store.folder} {problem}; the "
                "same command resumes the run"
            )
    return weights, progress
