"""Checkpoints: exact resume, atomic writing, refusal of other runs and damaged files."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from agggen.errors import TrainingError
from agggen.model.joint import JointModel
from agggen.training.callbacks import CheckpointEvery
from agggen.training.checkpoints import FileCheckpointer, Snapshot, load_checkpoint
from agggen.training.loop import Stage, StageConfig, Trainer
from tests.unit.toy_training import (
    CONFIG,
    DEV,
    DROPOUT,
    STAGES,
    TRAIN,
    Log,
    callback,
    fresh_model,
    same,
    shuffle,
    trainer,
    weights,
)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("stop_at", [1, 5, 7, 12])
@pytest.mark.parametrize("substitute", [None, shuffle])
def test_a_stopped_run_resumes_exactly(tmp_path: Path, stage: Stage, stop_at: int, substitute: Any) -> None:
    config = replace(CONFIG, label_smoothing=0.1 if stage == "baseline" else 0.0)
    full = Log()
    whole = trainer(stage, config, callbacks=[full], substitute=substitute)
    assert whole.run().step == whole.total_steps == len(full.losses)
    before_stop, after_stop = Log(stop_at), Log()
    stopped = trainer(stage, config, callbacks=[before_stop], substitute=substitute)
    assert not stopped.run().done
    assert stopped.progress.step == stop_at == len(before_stop.losses)
    Snapshot.of(stopped).write(tmp_path / "checkpoint")
    torch.rand(13)  # the resuming process has another random state
    resumed = trainer(stage, config, fresh_model(seed=1234), [after_stop], substitute=substitute)
    load_checkpoint(tmp_path / "checkpoint", resumed)
    assert resumed.run() == whole.progress
    assert before_stop.losses + after_stop.losses == full.losses
    assert before_stop.dev_losses + after_stop.dev_losses == full.dev_losses
    assert same(weights(resumed.model), weights(whole.model))


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, epochs=9, patience=1, learning_rate=0.5)])
def test_a_finished_stage_is_restored_without_training(tmp_path: Path, config: StageConfig) -> None:
    """After its last epoch, and after early stopping."""
    finished = trainer(config=config, callbacks=[CheckpointEvery(FileCheckpointer(tmp_path))])
    finished.run()
    log = Log()
    repeated = trainer(config=config, model=fresh_model(3), callbacks=[log])
    assert FileCheckpointer(tmp_path).restore(repeated)
    assert repeated.run() == finished.progress
    assert log.events == ["end"]
    assert same(weights(repeated.model), weights(finished.model))
    assert not repeated.model.training


def test_the_baseline_does_not_train_the_transitions(checkpoint: Path) -> None:
    resumed = trainer()
    before = weights(resumed.model)
    load_checkpoint(checkpoint, resumed)
    resumed.run()
    after = weights(resumed.model)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and not any(name.startswith("transitions.") for name in moved)
    assert resumed.optimizer.state and not resumed.optimizer.state.keys() & {*resumed.model.transitions.parameters()}


# --- files ---


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    stopped = trainer(callbacks=[Log(3)])
    stopped.run()
    FileCheckpointer(tmp_path / "runs").save(stopped)
    return tmp_path / "runs" / "baseline.safetensors"


def test_checkpoints_are_written_atomically(checkpoint: Path) -> None:
    assert [path.name for path in checkpoint.parent.iterdir()] == [checkpoint.name]
    before = checkpoint.read_bytes()
    with patch("os.fsync", side_effect=OSError("no space")), pytest.raises(OSError, match="no space"):
        Snapshot.of(trainer()).write(checkpoint)
    assert checkpoint.read_bytes() == before, "the previous checkpoint was changed"


def test_checkpoints_are_saved_at_evaluations_and_after_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 s per update, evaluations after updates 5 and 10, no log lines."""
    saved: list[int] = []
    clock = [0]
    monkeypatch.setattr("agggen.training.callbacks.time.monotonic", lambda: clock[-1])
    monkeypatch.setattr(FileCheckpointer, "save", lambda self, trainer: saved.append(trainer.progress.step))
    tick = callback(on_update=lambda trainer: clock.append(clock[-1] + 50))
    config = replace(CONFIG, epochs=2, log_every=1000)
    trainer(config=config, callbacks=[tick, CheckpointEvery(FileCheckpointer(tmp_path), 120)]).run()
    assert saved == [3, 5, 8, 10]


def test_a_snapshot_is_a_copy(tmp_path: Path) -> None:
    snapshots: list[Snapshot] = []
    full = trainer(callbacks=[callback(on_log=lambda trainer, metrics: snapshots.append(Snapshot.of(trainer)))])
    full.run()
    assert (snapshots[7].stage, snapshots[7].step) == ("baseline", 8)
    snapshots[7].write(tmp_path / "baseline.safetensors")
    resumed = trainer(model=fresh_model(2))
    FileCheckpointer(tmp_path).restore(resumed)
    assert resumed.progress.step == 8
    resumed.run()
    assert same(weights(resumed.model), weights(full.model))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: trainer(config=replace(CONFIG, epochs=7)), r"written with config\.epochs 3, this run has 7"),
        (lambda: trainer(seed=6), "written with seed 5, this run has 6"),
        (lambda: trainer("joint"), "written with stage 'baseline', this run has 'joint'"),
        (lambda: trainer(model=fresh_model(config=replace(DROPOUT, width=16))), r"model\.width 8, this run has 16"),
        (lambda: trainer(model=fresh_model(config=replace(DROPOUT, dropout=0.1))), r"model\.dropout 0\.3, .* 0\.1"),
        (lambda: trainer(model=JointModel(DROPOUT, 25, 20, 8)), "does not fit this model .size mismatch"),
        (lambda: trainer(train=TRAIN[1:]), "written with texts"),
        (lambda: trainer(dev=DEV[1:]), "written with texts"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(
    checkpoint: Path, change: Callable[[], Trainer], message: str
) -> None:
    with pytest.raises(TrainingError, match=message) as raised:
        load_checkpoint(checkpoint, change())
    assert str(checkpoint) in str(raised.value)


def rewrite(path: Path, without: str = "", **changes: object) -> None:
    """Removes a tensor and changes the description."""
    with safe_open(path, framework="pt") as file:
        described = json.loads(file.metadata()["agggen"])
        tensors = {name: file.get_tensor(name) for name in file.keys() if name != without}  # noqa: SIM118
    assert described.keys() == {"format", "stage", "seed", "config", "model", "texts", "progress"}
    save_file(tensors, path, {"agggen": json.dumps(described | changes)})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *(
            (lambda path, end=end: path.write_bytes(path.read_bytes()[:end]), "not a readable")
            for end in (0, 5, 200, -1)
        ),
        (lambda path: path.write_bytes(bytes(range(256)) * 9), "not a readable checkpoint .*delete it to start over"),
        (lambda path: save_file({"a": torch.zeros(2)}, path, {"agggen": "{half of"}), "not a readable checkpoint"),
        (lambda path: save_file({"a": torch.zeros(2)}, path), "not a readable checkpoint"),
        (lambda path: rewrite(path, format=1), "written with format 1, this run has 2"),
        (lambda path: rewrite(path, progress={"a": 1}), "not a readable checkpoint .*'a'"),
        (lambda path: rewrite(path, without="model.output_bias"), "does not fit this model"),
    ],
)
def test_a_damaged_checkpoint_is_refused(checkpoint: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(checkpoint)
    with pytest.raises(TrainingError, match=message):
        load_checkpoint(checkpoint, trainer())
