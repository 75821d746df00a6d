"""The training loop: seeds, early stopping, callbacks, losses that are not finite, signals."""

import math
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from agggen.errors import TrainingError
from agggen.model.batch import Example, collate
from agggen.training.callbacks import Callback, CheckpointEvery, Metrics
from agggen.training.checkpoints import FileCheckpointer
from agggen.training.loop import Stage, Trainer
from agggen.training.stopping import StopRequest
from tests.unit.model.enumeration import random_example, tiny_model
from tests.unit.toy_training import (
    ALL,
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
def test_losses_are_determined_by_the_seed(stage: Stage) -> None:
    def losses(seed: int, **settings: Any) -> list[float]:
        log = Log()
        torch.rand(3)  # other random numbers were drawn before
        state = torch.get_rng_state()
        trainer(stage, replace(CONFIG, epochs=1), callbacks=[log], seed=seed, **settings).run()
        assert torch.equal(torch.get_rng_state(), state)
        return log.losses

    assert losses(1) == losses(1) != losses(2)
    assert losses(1) != losses(1, substitute=shuffle) == losses(1, substitute=shuffle)


@pytest.mark.parametrize("stage", STAGES)
def test_a_gradient_is_the_mean_over_scored_positions_and_is_clipped(stage: Stage) -> None:
    """The baseline scores one end mark per text, the joint model one per fact."""
    model = tiny_model(predicate_dropout=0.0)
    training = trainer(stage, replace(CONFIG, clip=1e9), model=model)
    whole = stage == "baseline"
    batch = collate(TRAIN, single_fact=whole)
    log_probs = model.text_log_probs(batch) if whole else model.log_likelihood(batch)
    expected = torch.autograd.grad(-log_probs.sum() / (batch.targets != 0).sum(), [model.output_bias])[0]
    update = training._prepare(ALL, 0)
    total, norm = training._update(update)
    assert update.positions == int((batch.targets != 0).sum())
    assert float(total) == pytest.approx(-float(log_probs.detach().sum()))
    assert model.output_bias.grad is not None
    torch.testing.assert_close(model.output_bias.grad, expected)
    assert float(norm) == pytest.approx(float(clip_grad_norm_(model.parameters(), math.inf)))
    clipping = trainer(stage, replace(CONFIG, clip=0.01), model=tiny_model(predicate_dropout=0.0))
    assert clipping._update(clipping._prepare(ALL, 0))[1] == norm > 0.1
    assert float(clip_grad_norm_(clipping.model.parameters(), math.inf)) == pytest.approx(0.01, rel=1e-3)


def test_each_group_of_weights_has_its_own_rate() -> None:
    rates: list[list[float]] = []

    def log_rates(trainer: Trainer, metrics: Metrics) -> None:
        rates.append([group["lr"] for group in trainer.optimizer.param_groups])
        assert metrics["learning_rate"] == rates[-1][0]

    config = replace(CONFIG, schedule="noam", warmup=4)
    training = trainer("joint", config, callbacks=[callback(on_log=log_rates)])
    training.run()
    factors = [min(step**-0.5, step * 4**-1.5) for step in range(1, training.total_steps + 1)]
    assert [pair[0] for pair in rates] == pytest.approx([3e-3 * factor for factor in factors])
    assert [pair[1] for pair in rates] == pytest.approx([1e-2 * factor for factor in factors])


# --- evaluation, early stopping, best weights ---


@pytest.mark.parametrize("stage", STAGES)
def test_the_development_loss_is_per_scored_position_and_not_smoothed(stage: Stage) -> None:
    model = fresh_model(config=replace(DROPOUT, dropout=0.0))
    training = trainer(stage, replace(CONFIG, label_smoothing=0.2), model=model)
    loss = training.evaluate()["dev_loss"]
    with torch.no_grad():
        if stage == "baseline":
            totals = [float(model.text_log_probs(collate([e], single_fact=True))) for e in DEV]
            positions = sum(sum(map(len, e.facts)) + 1 for e in DEV)
        else:
            totals = [float(model.log_likelihood(collate([e]))) for e in DEV]
            positions = sum(e.n_target for e in DEV)
    assert loss == pytest.approx(-sum(totals) / positions, rel=1e-5)
    if stage == "baseline":
        model.train()
        assert float(training._loss(collate(DEV, single_fact=True))) > loss * positions + 1e-3, "it must be smoothed"


@pytest.mark.parametrize(
    ("losses", "patience", "epochs", "best"),
    [
        ([3.0, 2.0, 2.5, 2.4, 1.0], 2, 4, 2),
        ([3.0, 2.0, 2.5, 1.9, 2.0, 2.1], 2, 6, 4),
        ([3.0, 3.0], 1, 2, 1),
        ([5.0, 4.0, 3.0], 1, 3, 3),
        ([1.0, 2.0, 3.0], 9, 3, 1),
    ],
)
def test_early_stopping_restores_the_best_weights(
    losses: list[float], patience: int, epochs: int, best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ended = fresh_model(), list[bool]()
    seen = [weights(model)]

    def evaluate() -> dict[str, float]:
        seen.append(weights(model))
        return {"dev_loss": losses[len(seen) - 2]}

    at_end = callback(on_end=lambda trainer: ended.append(same(weights(model), seen[best])))
    training = trainer(config=replace(CONFIG, epochs=len(losses), patience=patience), model=model, callbacks=[at_end])
    monkeypatch.setattr(training, "evaluate", evaluate)
    progress = training.run()
    assert (progress.epoch, progress.best_dev_loss, progress.done) == (epochs, losses[best - 1], True)
    assert progress.best_step == best * training.total_steps // len(losses)
    assert ended == [True]
    assert sum(same(weights(model), other) for other in seen) == 1


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_ends_with_the_mean_of_its_weights_and_those_before_it(stage: Stage, tmp_path: Path) -> None:
    plain, mixed = trainer(stage), trainer(stage, replace(CONFIG, initial_share=0.4))
    before = weights(plain.model)
    mixed.callbacks = [CheckpointEvery(FileCheckpointer(tmp_path))]
    plain.run()
    mixed.run()
    trained = weights(plain.model)
    for name, mean in weights(mixed.model).items():
        share = 0.0 if name.startswith("transitions.") else 0.4
        torch.testing.assert_close(mean, share * before[name] + (1 - share) * trained[name])
    repeated = trainer(stage, mixed.config)
    assert FileCheckpointer(tmp_path).restore(repeated)
    repeated.run()
    assert same(weights(repeated.model), weights(mixed.model)), "the weights of a finished stage were averaged again"


def test_callbacks_receive_each_event_once_in_order_and_mean_losses() -> None:
    fine, coarse, logged = Log(), Log(), []
    trainer(config=replace(CONFIG, epochs=2, max_records=7), callbacks=[fine]).run()
    callbacks = [coarse, callback(on_log=lambda trainer, metrics: logged.append(metrics))]
    assert trainer(config=replace(CONFIG, epochs=2, max_records=7, log_every=2), callbacks=callbacks).run().step == 4
    assert coarse.events == ["log 2", "evaluation 1", "log 4", "evaluation 2", "end"]
    for loss, own in zip(coarse.losses, (fine.losses[:2], fine.losses[2:]), strict=True):
        assert min(own) < loss < max(own), "the loss must be the mean since the last log line"
    assert [metrics["epoch"] for metrics in logged] == [1.0, 2.0]
    keys = {"train_loss", "gradient_norm", "texts_per_second", "learning_rate", "epoch"}
    assert all(metrics.keys() == keys for metrics in logged)


@pytest.mark.parametrize(
    "act", [lambda trainer: torch.rand(trainer.progress.step), lambda trainer: trainer.model.eval()]
)
def test_callbacks_that_generate_texts_do_not_change_the_training(act: Callable[[Trainer], object]) -> None:
    """A generator draws random numbers and disables dropout."""
    plain, log = Log(), Log()
    trainer(callbacks=[plain]).run()
    trainer(callbacks=[log, callback(on_log=lambda trainer, metrics: act(trainer))]).run()
    assert log.losses == plain.losses


def test_the_number_of_updates_is_computed_in_advance() -> None:
    """The number of batches differs between epochs."""
    config = replace(CONFIG, epochs=6, batch_positions=60, max_records=99)
    train = [replace(random_example(seed, 3, [2, 3]), max_size=1 + seed % 3) for seed in range(14)]
    training = trainer("joint", config, train=train)
    counts = {len(training._batches(epoch)) for epoch in range(6)}
    assert len(counts) > 1, "the epochs of this test must differ"
    assert training.run().step == training.total_steps


# --- errors ---


def weights_become_nan(at: int) -> Callback:
    def fill(trainer: Trainer, metrics: Metrics) -> None:
        if trainer.progress.step == at:
            trainer.model.output_bias.data.fill_(math.nan)

    return callback(on_log=fill)


@pytest.mark.parametrize("stage", STAGES)
def test_a_loss_that_is_not_finite_names_the_update_and_records(stage: Stage) -> None:
    training = trainer(stage, callbacks=[weights_become_nan(2)])
    with pytest.raises(TrainingError, match=r"update 3: loss nan .*\(records r\d+, r\d+, .*smaller learning_rate"):
        training.run()
    assert training.progress.step == 2
    assert TrainingError.exit_code == 4


def test_a_development_loss_that_is_not_finite_raises_an_error() -> None:
    training = trainer(config=replace(CONFIG, max_records=99), callbacks=[weights_become_nan(1)])
    with pytest.raises(TrainingError, match="the development loss after update 1 is nan"):
        training.run()


@pytest.mark.parametrize(("train", "dev"), [([], DEV), (TRAIN, [])])
def test_a_stage_needs_texts(train: list[Example], dev: list[Example]) -> None:
    with pytest.raises(TrainingError, match=rf"{len(train)} texts to train on and {len(dev)} to validate on"):
        trainer(train=train, dev=dev)


@pytest.mark.parametrize("stage", STAGES)
def test_updates_are_deterministic_and_the_setting_is_restored(stage: Stage) -> None:
    """By default, threads sum gradients in any order."""
    deterministic: list[bool] = []
    record = callback(on_update=lambda trainer: deterministic.append(torch.are_deterministic_algorithms_enabled()))
    trainer(stage, callbacks=[record]).run()
    assert deterministic and all(deterministic)
    assert not torch.are_deterministic_algorithms_enabled()
    of_memory: Any = torch.utils.deterministic
    assert of_memory.fill_uninitialized_memory  # PyTorch's default


# --- stopping ---


def test_a_block_in_another_thread_leaves_the_handlers_of_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def block() -> None:
        with stop:
            pass

    with StopRequest() as stop:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(block).result()
        signal.raise_signal(signal.SIGTERM)
        assert stop() and stop.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
