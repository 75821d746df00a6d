"""Helpers for tests of training: random examples, a small model, callbacks."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from agggen.model.batch import Example
from agggen.model.joint import JointModel, ModelConfig
from agggen.training.callbacks import Callback, Metrics
from agggen.training.loop import Stage, StageConfig, Trainer
from tests.unit.model.enumeration import random_example

STAGES: tuple[Stage, ...] = ("baseline", "joint")
TRAIN = [random_example(seed, 1 + seed % 3, [2 + seed % 3, 3]) for seed in range(14)]
DEV = [random_example(seed, 1 + seed % 3, [3]) for seed in range(100, 104)]
ALL = list(range(len(TRAIN)))
CONFIG = StageConfig(
    epochs=3, learning_rate=3e-3, transition_learning_rate=1e-2, warmup=3, max_records=3, patience=9, log_every=1
)
DROPOUT = ModelConfig(width=8, heads=2, layers=2, feed_forward=12, dropout=0.3, predicate_dim=3, predicate_dropout=0.2)


def fresh_model(seed: int = 7, config: ModelConfig = DROPOUT) -> JointModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return JointModel(config, n_words=24, n_output=20, n_predicates=8)


def callback(**methods: Callable[..., None]) -> Callback:
    """A callback with these methods, such as ``on_log``."""
    result = Callback()
    vars(result).update(methods)
    return result


def shuffle(example: Example, rng: random.Random) -> Example:
    """A `Substitute` function that shuffles the words of each fact."""
    return replace(example, facts=tuple(tuple(rng.sample(fact, len(fact))) for fact in example.facts))


class Log(Callback):
    """Records losses and events, and requests a stop after the update `stop_at`."""

    def __init__(self, stop_at: int = 0) -> None:
        self.stop_at = stop_at
        self.losses: list[float] = []
        self.dev_losses: list[float] = []
        self.events: list[str] = []

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        self.losses.append(metrics["train_loss"])
        self.events.append(f"log {trainer.progress.step}")
        trainer.stop_requested |= trainer.progress.step == self.stop_at

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        self.dev_losses.append(metrics["dev_loss"])
        self.events.append(f"evaluation {trainer.progress.epoch}")

    def on_end(self, trainer: Trainer) -> None:
        self.events.append("end")


def trainer(
    stage: Stage = "baseline",
    config: StageConfig = CONFIG,
    model: JointModel | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Trainer:
    arguments: dict[str, Any] = {"train": TRAIN, "dev": DEV, "seed": 5} | settings
    return Trainer(model or fresh_model(), stage=stage, config=config, callbacks=callbacks, **arguments)


def weights(model: JointModel) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
