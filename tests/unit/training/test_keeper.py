"""Checkpoints in a store: saved in the background; all workers restore the checkpoint that worker 0 chooses."""

import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from agggen.errors import TrainingError
from agggen.training.callbacks import CheckpointEvery
from agggen.training.distributed import SINGLE_WORKER, WorkerGroup
from agggen_platform.storage.checkpoints import CheckpointStore, SavedCheckpoint
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.training.keeper import StoreKeeper, trained_weights
from tests.unit.toy_training import Log, fresh_model, same, trainer, weights


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(Folder(str(tmp_path / "checkpoints")), keep=2)


class OneOfTwo(WorkerGroup):
    """A group of two workers in one process; worker 0 broadcasts through `choices`."""

    def __init__(self, rank: int, choices: list[Any]) -> None:
        self.rank, self.size, self.choices = rank, 2, choices

    def broadcast(self, value: Any) -> Any:
        if self.rank == 0:
            self.choices.append(value)
        return self.choices[-1]


def test_all_workers_restore_the_choice_of_worker_0(store: CheckpointStore) -> None:
    """The newest checkpoint is damaged: worker 0 chooses the previous one, worker 1 takes this choice."""
    with StoreKeeper(store, SINGLE_WORKER) as keeper:
        trainer(callbacks=[CheckpointEvery(keeper)]).run()
    newest, older = store._read_index("baseline")
    assert newest.step > older.step
    store.folder.write(newest.name, b"x" * newest.bytes)
    choices: list[Any] = []
    for rank in (0, 1):
        training = trainer(model=fresh_model(rank))
        with StoreKeeper(CheckpointStore(store.folder), OneOfTwo(rank, choices)) as keeper:
            assert keeper.restore(training)
        assert training.progress.step == older.step
    with StoreKeeper(CheckpointStore(Folder(f"{store.folder}/nowhere")), OneOfTwo(0, choices)) as keeper:
        assert not keeper.restore(trainer())
    with StoreKeeper(store, OneOfTwo(1, choices)) as keeper:
        assert not keeper.restore(trainer()), "worker 1 must not choose a checkpoint itself"


class Slow(CheckpointStore):
    """A store whose uploads wait until the test releases them."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)
        self.started, self.may_save = threading.Event(), threading.Event()
        self.stored: list[tuple[str, int]] = []

    def save(self, stage: str, step: int, path: Path) -> SavedCheckpoint:
        self.started.set()
        assert self.may_save.wait(30)
        self.stored.append((stage, step))
        return super().save(stage, step, path)


def test_training_does_not_wait_and_only_the_newest_is_stored(tmp_path: Path) -> None:
    slow = Slow(Folder(str(tmp_path)))
    training, joint_training = trainer(), trainer("joint")
    with StoreKeeper(slow, SINGLE_WORKER) as keeper:
        keeper.save(training)
        assert slow.started.wait(30)
        for step in (3, 4, 5):
            training.progress.step = step
            keeper.save(training)
        keeper.save(joint_training)
        training.progress.step = 99  # the keeper must have copied it
        assert not slow.stored
        slow.may_save.set()
    assert slow.stored == [("baseline", 0), ("baseline", 5), ("joint", 0)], "the block must wait for the last upload"


@pytest.mark.parametrize("at_end", [False, True])
def test_a_checkpoint_that_could_not_be_stored_is_an_error_of_the_next_save_or_at_the_end(
    store: CheckpointStore, at_end: bool
) -> None:
    """Otherwise a stopped run would report a checkpoint that is not stored."""
    store.save = Mock(side_effect=StorageError("the bucket is gone"))  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="the bucket is gone"), StoreKeeper(store, SINGLE_WORKER) as keeper:
        keeper.save(trainer())
        if at_end:
            raise TrainingError("stopped")
        keeper._thread.join(30)
        keeper.save(trainer())
        pytest.fail("the second save does not raise the error")


@pytest.mark.parametrize(("step", "message"), [(None, "is missing"), (4, "is of update 4")])
def test_the_weights_of_a_stage_are_read_only_at_its_end(
    store: CheckpointStore, step: int | None, message: str
) -> None:
    epochs = trainer().config.epochs
    if step:
        stopped = trainer(callbacks=[Log(step)])
        stopped.run()
        with StoreKeeper(store, SINGLE_WORKER) as keeper:
            keeper.save(stopped)
    with pytest.raises(StorageError, match=f"finished baseline, .* {message}; the same"):
        trained_weights(store, "baseline", epochs)
    with StoreKeeper(store, SINGLE_WORKER) as keeper:
        whole = trainer(callbacks=[CheckpointEvery(keeper)])
        whole.run()
    best, progress = trained_weights(store, "baseline", epochs)
    assert same(best, weights(whole.model))
    assert (progress.step, progress.best_dev_loss) == (whole.progress.step, whole.progress.best_dev_loss)


def test_only_temporary_folders_of_killed_workers_are_removed(
    store: CheckpointStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    (temporary / "agggen-checkpoints-killed").mkdir(parents=True)
    (temporary / "agggen-checkpoints-killed" / "saved.safetensors").write_bytes(b"x")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with StoreKeeper(store, SINGLE_WORKER):
        (folder,) = temporary.iterdir()
        assert folder.name != "agggen-checkpoints-killed"
        with StoreKeeper(store, SINGLE_WORKER):
            assert folder.exists() and len(list(temporary.iterdir())) == 2
    assert not list(temporary.iterdir())
