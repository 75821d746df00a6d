"""Checkpoints: exact resume, atomic writing, refusal of other runs and damaged files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from agggen.errors import TrainingError
from agggen.model.joint import JointModel
from agggen.training import checkpoints
from agggen.training.callbacks import CheckpointEvery
from agggen.training.checkpoints import FileKeeper, Snapshot, load_checkpoint
from agggen.training.loop import StageConfig, Trainer
from agggen.training.objectives import ObjectiveName
from tests.unit.toy_training import (
    CONFIG,
    DEV,
    DROPPING,
    STAGES,
    TRAIN,
    Log,
    callback,
    fresh_model,
    same,
    trainer,
    weights,
)

# --- resume ---


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("stop_at", [1, 5, 7, 12])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_stopped_run_resumes_exactly(tmp_path: Path, stage: ObjectiveName, stop_at: int, accumulate: int) -> None:
    config = replace(CONFIG, accumulate=accumulate, label_smoothing=0.1 if stage == "baseline" else 0.0)
    full = Log()
    uncut = trainer(stage, config, callbacks=[full])
    total = uncut.run().step
    assert total == uncut.total_steps == len(full.losses)
    stop_at = min(stop_at, total - 1)

    before_stop, after_stop = Log(stop_at), Log()
    stopped = trainer(stage, config, callbacks=[before_stop])
    assert not stopped.run().done
    assert stopped.progress.step == stop_at == len(before_stop.losses)
    Snapshot.of(stopped).write(tmp_path / "checkpoint")
    torch.manual_seed(999)
    torch.rand(13)  # the state of the process that continues is another
    resumed = trainer(stage, config, model=fresh_model(seed=1234), callbacks=[after_stop])
    load_checkpoint(tmp_path / "checkpoint", resumed)
    assert resumed.run() == uncut.progress
    assert before_stop.losses + after_stop.losses == full.losses
    assert before_stop.dev_losses + after_stop.dev_losses == full.dev_losses
    assert same(weights(resumed.model), weights(uncut.model))


def test_callbacks_that_draw_random_numbers_change_nothing() -> None:
    draws = callback(on_log=lambda trainer, metrics: torch.rand(trainer.progress.step))
    plain, drawing = trainer(), trainer(callbacks=[draws])
    plain.run()
    drawing.run()
    assert same(weights(plain.model), weights(drawing.model))


def test_checkpoints_do_not_wait_for_log_lines(tmp_path: Path) -> None:
    def crash(trainer: Trainer) -> None:
        if trainer.progress.step == 3:
            raise KeyboardInterrupt

    rare = replace(CONFIG, log_every=1000)
    callbacks = [CheckpointEvery(FileKeeper(tmp_path), seconds=0.0), callback(on_update=crash)]
    with pytest.raises(KeyboardInterrupt):
        trainer(config=rare, callbacks=callbacks).run()
    resumed = trainer(config=rare)
    assert FileKeeper(tmp_path).restore(resumed)
    assert resumed.progress.step == 3


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, epochs=9, patience=1, learning_rate=0.5)])
def test_a_finished_stage_is_restored_without_training(tmp_path: Path, config: StageConfig) -> None:
    """After its last epoch, and after early stopping."""
    finished = trainer(config=config, callbacks=[CheckpointEvery(FileKeeper(tmp_path))])
    finished.run()
    log = Log()
    repeated = trainer(config=config, model=fresh_model(3), callbacks=[log])
    assert FileKeeper(tmp_path).restore(repeated)
    progress = repeated.run()
    assert log.events == ["end"]
    assert progress == finished.progress
    assert same(weights(repeated.model), weights(finished.model))
    assert not repeated.model.training


def test_the_baseline_does_not_train_the_transitions(tmp_path: Path) -> None:
    stopped = trainer(callbacks=[Log(5)])
    before = weights(stopped.model)
    stopped.run()
    Snapshot.of(stopped).write(tmp_path / "checkpoint")
    resumed = trainer()
    load_checkpoint(tmp_path / "checkpoint", resumed)
    resumed.run()
    after = weights(resumed.model)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and not any(name.startswith("transitions.") for name in moved)
    transition_ids = {id(p) for p in resumed.model.transitions.parameters()}
    assert resumed.optimizer.state and not any(id(p) in transition_ids for p in resumed.optimizer.state)


# --- files ---


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    stopped = trainer(callbacks=[Log(3)])
    stopped.run()
    FileKeeper(tmp_path / "runs").save(stopped)
    return tmp_path / "runs" / "baseline.safetensors"


def test_checkpoints_are_written_atomically(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [path.name for path in checkpoint.parent.iterdir()] == [checkpoint.name]
    before = checkpoint.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoints.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        Snapshot.of(trainer()).write(checkpoint)
    assert checkpoint.read_bytes() == before, "the earlier one is untouched"


def test_checkpoints_are_saved_at_evaluations_and_after_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 50 s per update and evaluations after updates 5 and 10."""
    saved: list[int] = []
    times = iter(range(0, 10_000, 50))
    clock = [next(times)]
    monkeypatch.setattr("agggen.training.callbacks.time.monotonic", lambda: clock[-1])
    monkeypatch.setattr(FileKeeper, "save", lambda self, trainer: saved.append(trainer.progress.step))
    tick = callback(on_update=lambda trainer: clock.append(next(times)))
    trainer(config=replace(CONFIG, epochs=2), callbacks=[tick, CheckpointEvery(FileKeeper(tmp_path), 120)]).run()
    assert saved == [3, 5, 8, 10]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: trainer(config=replace(CONFIG, epochs=7)), r"written with config\.epochs 3, this run has 7"),
        (lambda: trainer(config=replace(CONFIG, schedule="noam")), r"config\.schedule 'linear', this run has 'noam'"),
        (lambda: trainer(seed=6), "written with seed 5, this run has 6"),
        (lambda: trainer("joint"), "written with stage 'baseline', this run has 'joint'"),
        (lambda: trainer(model=fresh_model(config=replace(DROPPING, width=16))), r"model\.width 8, this run has 16"),
        (lambda: trainer(model=fresh_model(config=replace(DROPPING, dropout=0.1))), r"model\.dropout 0\.3, .* 0\.1"),
        (lambda: trainer(model=JointModel(DROPPING, 25, 20, 8)), "model of another shape: size mismatch"),
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


def test_a_checkpoint_of_another_format_is_refused(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "FORMAT", 3)
    with pytest.raises(TrainingError, match="written with format 2, this run has 3"):
        load_checkpoint(checkpoint, trainer())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *(
            (lambda path, end=end: path.write_bytes(path.read_bytes()[:end]), "not a readable")
            for end in (0, 5, 200, -1)
        ),
        (lambda path: path.write_bytes(bytes(range(256)) * 9), "not a readable checkpoint .*delete it to start over"),
        (lambda path: save_file({"a": torch.zeros(2)}, path, {"agggen": "{half of"}), "not a readable checkpoint"),
        (lambda path: save_file({"a": torch.zeros(2)}, path), "is not a checkpoint of a training run"),
    ],
)
def test_a_damaged_checkpoint_is_refused(checkpoint: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(checkpoint)
    with pytest.raises(TrainingError, match=message):
        load_checkpoint(checkpoint, trainer())


def test_a_missing_checkpoint_is_not_a_training_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "checkpoint", trainer())


def test_an_incomplete_checkpoint_is_refused(checkpoint: Path) -> None:
    from safetensors import safe_open

    with safe_open(checkpoint, framework="pt") as file:
        described = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert set(json.loads(described["agggen"])) == {"format", "stage", "seed", "config", "model", "texts", "progress"}
    save_file(
        tensors, checkpoint, metadata={"agggen": json.dumps(json.loads(described["agggen"]) | {"progress": {"a": 1}})}
    )
    with pytest.raises(TrainingError, match=r"not a complete checkpoint .*'a'"):
        load_checkpoint(checkpoint, trainer())
    lacking = {k: v for k, v in tensors.items() if k != "model.output_bias"}
    save_file(lacking, checkpoint, metadata=described)
    with pytest.raises(TrainingError, match="model of another shape"):
        load_checkpoint(checkpoint, trainer())


def test_a_snapshot_is_a_copy(tmp_path: Path) -> None:
    snapshots: list[Snapshot] = []

    full = trainer(callbacks=[callback(on_log=lambda trainer, metrics: snapshots.append(Snapshot.of(trainer)))])
    full.run()
    assert (snapshots[7].stage, snapshots[7].step) == ("baseline", 8)
    snapshots[7].write(tmp_path / "baseline.safetensors")
    resumed = trainer(model=fresh_model(2))
    FileKeeper(tmp_path).restore(resumed)
    assert resumed.progress.step == 8
    resumed.run()
    assert same(weights(resumed.model), weights(full.model))
