"""Checkpoints in a run's store: written in the background during training, and restored alike by all workers."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from safetensors import safe_open
from torch import Tensor

from agggen.training.checkpoints import Snapshot, load_checkpoint
from agggen.training.distributed import Group
from agggen.training.loop import Progress, Trainer
from agggen_platform.storage.checkpoints import CheckpointStore, Saved
from agggen_platform.storage.errors import StorageError, explained

_SCRATCH = "agggen-checkpoints-"


@contextmanager
def _scratch() -> Iterator[Path]:
    """A temporary folder. Also removes those of killed processes."""
    top = Path(tempfile.gettempdir())
    for stale in top.glob(f"{_SCRATCH}*"):
        with suppress(OSError), _held(stale):  # in use, or of another user, or being removed
            shutil.rmtree(stale)
    folder = Path(tempfile.mkdtemp(prefix=f".{_SCRATCH}", dir=top))
    with _held(folder):
        path = folder.rename(top / folder.name.removeprefix("."))  # under its name it is held already
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Locks the folder until the block or the process ends; raises BlockingIOError if another process has it."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


class StoreKeeper:
    """A `Keeper` over a `CheckpointStore`; a context manager that ends when the last checkpoint is stored.

    `save` copies the trainer's state and returns. A thread writes and verifies it; a checkpoint that still waits when
    the next one comes is skipped. An error of the thread is raised by the next `save`, or at the end of the block.
    """

    def __init__(self, store: CheckpointStore, group: Group, kept: Callable[[], None] = lambda: None) -> None:
        """`kept` is called in the thread when a checkpoint was verified."""
        self.store, self.group, self._kept = store, group, kept
        self._waiting: dict[str, Snapshot] = {}  # by stage
        self._changed = threading.Condition()
        self._ending = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._store_all, name="checkpoints", daemon=True)

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._scratch = self._stack.enter_context(_scratch())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises StorageError: the last checkpoint could not be stored."""
        if kind is not None and not issubclass(kind, Exception):
            return  # Ctrl-C and the like: do not wait for uploads
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()
        self._stack.close()
        self._raise()

    def restore(self, trainer: Trainer) -> bool:
        """Worker 0 chooses the newest complete checkpoint; all workers load it.

        Raises:
            TrainingError: it belongs to another run (`load_checkpoint`).
            StorageError: the store cannot be read.
        """
        path = self._scratch / "restored.safetensors"
        saved = self.store.restore(trainer.stage, path) if self.group.rank == 0 else None
        chosen = json.loads(self.group.from_first(json.dumps(asdict(saved) if saved else None)))
        if chosen is None:
            return False
        if self.group.rank:
            self.store.fetch(Saved(**chosen), path)
        load_checkpoint(path, trainer)
        path.unlink()
        return True

    def save(self, trainer: Trainer) -> None:
        """Raises StorageError: an earlier checkpoint could not be stored."""
        self._raise()
        snapshot = Snapshot.of(trainer)
        with self._changed:
            self._waiting[snapshot.stage] = snapshot
            self._changed.notify()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _store_all(self) -> None:
        path = self._scratch / "saved.safetensors"
        try:
            while snapshot := self._next():
                with explained("write", path):
                    snapshot.write(path)
                self.store.save(snapshot.stage, snapshot.step, path)
                self._kept()
        except Exception as error:  # raised by the next `save`
            self._error = error

    def _next(self) -> Snapshot | None:
        """A snapshot to store; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None


def trained_weights(store: CheckpointStore, stage: str, epochs: int) -> tuple[dict[str, Tensor], Progress]:
    """The best weights of a stage that others trained to its end, from its newest checkpoint, and where it ended.

    Raises:
        StorageError: the newest checkpoint that is whole is not of the stage's end.
    """
    with _scratch() as scratch:
        path = scratch / "trained.safetensors"
        progress = Progress()
        weights: dict[str, Tensor] = {}
        if saved := store.restore(stage, path):
            with safe_open(path, framework="pt") as file:
                progress = Progress(**json.loads(file.metadata()["agggen"])["progress"])
                best = [name for name in file.keys() if name.startswith("best.")]  # noqa: SIM118 (not a dict)
                weights = {name.removeprefix("best."): file.get_tensor(name) for name in best}
        if not (progress.done or progress.epoch >= epochs):
            reached = f"is of update {saved.step}" if saved else "is missing"
            raise StorageError(
                f"{stage} was trained to its end, but the newest whole checkpoint in {store.folder} {reached}; the "
                "same command trains the rest again"
            )
    return weights, progress
