"""The training loop: one stage (baseline or joint) from a model to better weights.

Everything that decides the next update is in `Trainer` and can be saved and restored exactly: weights, optimiser,
position in the epoch's order, random state, and the best weights so far. A resumed run on CPU gives the same losses as
an uninterrupted one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from agggen.errors import ConfigError, TrainingError
from agggen.model.batch import Example, collate
from agggen.model.joint import JointModel
from agggen.training.batches import epoch_batches, fingerprint, joint_costs, text_costs
from agggen.training.callbacks import Callback
from agggen.training.objectives import ObjectiveName, objective
from agggen.training.schedules import ScheduleName, schedule


@dataclass(frozen=True)
class StageConfig:
    """One stage of training. A stage of 0 epochs is skipped.

    Raises:
        ConfigError: a number out of range.
    """

    epochs: int = 10
    learning_rate: float = 1e-3  # encoder, decoder, copying; the factor of the schedule
    transition_learning_rate: float = 3e-3  # predicate embeddings and stop probabilities
    schedule: ScheduleName = "linear"
    warmup: int = 400  # updates
    label_smoothing: float = 0.0  # baseline only
    batch_positions: int = 4096  # decoded positions in one forward pass
    max_records: int = 128  # texts in one forward pass
    accumulate: int = 1  # forward passes an update
    clip: float = 1.0  # largest norm of the gradient
    patience: int = 3  # evaluations without a better dev loss before the stage ends
    log_every: int = 50  # updates

    def __post_init__(self) -> None:
        least = {"epochs": 0, "warmup": 0, "batch_positions": 1, "max_records": 1, "accumulate": 1, "patience": 1}
        for name, low in (least | {"log_every": 1}).items():
            if getattr(self, name) < low:
                raise ConfigError(f"{name} must be at least {low}, not {getattr(self, name)}")
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(f"label_smoothing must be at least 0 and less than 1, not {self.label_smoothing}")
        if not self.clip > 0:
            raise ConfigError(f"clip must be greater than 0, not {self.clip}")


@dataclass
class Progress:
    """Where the loop stands; all of it is saved in a checkpoint."""

    epoch: int = 0
    batch: int = 0  # batches of the epoch already used
    step: int = 0  # updates
    best_dev_loss: float = math.inf
    best_step: int = 0
    bad_evaluations: int = 0
    done: bool = False


class Trainer:
    """Runs one stage. `model` is changed in place and ends with the weights of the best evaluation.

    Raises:
        TrainingError: there is no text to train on, or none to validate on.
    """

    def __init__(
        self,
        model: JointModel,
        train: Sequence[Example],
        dev: Sequence[Example],
        stage: ObjectiveName,
        config: StageConfig,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        precision: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        if not train or not dev:
            raise TrainingError(
                f"there are {len(train)} texts to train on and {len(dev)} to validate on; both need some"
            )
        self.model, self.stage, self.config, self.seed = model, stage, config, seed
        self.train_examples, self.dev_examples = train, dev
        self.callbacks, self.precision = callbacks, precision
        self.device = next(model.parameters()).device
        self.fingerprint = fingerprint((*train, *dev))  # a checkpoint belongs to these texts
        self.loss = objective(stage, config.label_smoothing)
        limit = model.config.max_state
        self._costs = [joint_costs(x, limit) if stage == "joint" else text_costs(x) for x in (train, dev)]
        transitions = list(model.transitions.parameters())
        own = {id(p) for p in transitions}
        self.optimizer = torch.optim.Adam(
            [
                {"params": [p for p in model.parameters() if id(p) not in own], "base": config.learning_rate},
                {"params": transitions, "base": config.transition_learning_rate},
            ],
            lr=0.0,
            betas=(0.9, 0.98),
        )
        self.total_steps = sum(math.ceil(len(self._batches(e)) / config.accumulate) for e in range(config.epochs))
        self.rate = schedule(config.schedule, config.warmup, self.total_steps)
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.stop_requested = False

    def _batches(self, epoch: int) -> list[list[int]]:
        config = self.config
        return epoch_batches(
            self.train_examples, self._costs[0], config.batch_positions, config.max_records, self.seed, epoch
        )

    def run(self) -> Progress:
        """Trains to the last epoch or an early stop (then `done` is set), or until a callback asks to stop.

        A run that was stopped, or loaded from a checkpoint, continues; a finished one only gets its best weights.

        Raises:
            TrainingError: a loss is not finite.
        """
        if not self.progress.step:
            torch.manual_seed(self.seed)
        while self.progress.epoch < self.config.epochs and not self.progress.done:
            self._epoch()
            if self.stop_requested:
                return self.progress
            metrics = self.evaluate()
            self._keep_best(metrics["dev_loss"])
            self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
            for callback in self.callbacks:
                callback.on_evaluation(self, metrics)
        if self.best:
            self.model.load_state_dict(self.best)
        self.model.eval()
        self.progress.done = True
        for callback in self.callbacks:
            callback.on_end(self)
        return self.progress

    def _epoch(self) -> None:
        batches = self._batches(self.progress.epoch)
        window = _Window()
        while self.progress.batch < len(batches) and not self.stop_requested:
            group = batches[self.progress.batch : self.progress.batch + self.config.accumulate]
            window.add(
                *self._update([[self.train_examples[i] for i in batch] for batch in group]), sum(map(len, group))
            )
            self.progress.batch += len(group)
            self.progress.step += 1
            if self.progress.step % self.config.log_every == 0:
                metrics = window.metrics() | {
                    "learning_rate": self.optimizer.param_groups[0]["lr"],
                    "epoch": self.progress.epoch + self.progress.batch / len(batches),
                }
                window = _Window()
                for callback in self.callbacks:
                    callback.on_log(self, metrics)

    def _update(self, group: list[list[Example]]) -> tuple[float, int, float]:
        """One optimiser step over the micro-batches of `group`: summed loss, scored positions, gradient norm."""
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = parameters["base"] * self.rate(self.progress.step + 1)
        self.model.train()  # a callback may have generated samples in between
        self.optimizer.zero_grad(set_to_none=True)
        positions = sum(map(self._scored, group))
        total = 0.0
        for examples in group:
            loss = self._loss(examples)
            (loss / positions).backward()
            total += float(loss.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip))
        if not math.isfinite(total) or not math.isfinite(norm):
            ids = ", ".join(example.id for batch in group for example in batch[:3])
            raise TrainingError(
                f"update {self.progress.step + 1}: loss {total} and gradient norm {norm} must be finite "
                f"(records {ids}, ...); try a smaller learning_rate or a longer warmup"
            )
        self.optimizer.step()
        return total, positions, norm

    def _loss(self, examples: list[Example]) -> Tensor:
        batch = collate(examples, whole=self.stage == "baseline").to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bfloat16"):
            return self.loss(self.model, batch)

    def _scored(self, examples: Sequence[Example]) -> int:
        """Positions whose likelihood the objective scores: the plain Transformer has one end mark a text."""
        return sum(text_costs(examples) if self.stage == "baseline" else (e.n_target for e in examples))

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Mean negative log-likelihood of the development texts in nats a scored position.

        Raises:
            TrainingError: it is not finite.
        """
        self.model.eval()
        begin, total, positions = time.monotonic(), 0.0, 0
        for examples in self._dev_batches():
            total += float(self._loss(examples))
            positions += self._scored(examples)
        if not math.isfinite(total):
            raise TrainingError(
                f"the development loss after update {self.progress.step} is {total / positions}; it must be finite: "
                "try a smaller learning_rate or a longer warmup"
            )
        return {"dev_loss": total / positions, "dev_seconds": time.monotonic() - begin}

    def _dev_batches(self) -> Iterator[list[Example]]:
        config = self.config
        batches = epoch_batches(self.dev_examples, self._costs[1], config.batch_positions, config.max_records, 0, 0)
        return ([self.dev_examples[i] for i in batch] for batch in batches)

    def _keep_best(self, dev_loss: float) -> None:
        progress = self.progress
        if dev_loss < progress.best_dev_loss:
            progress.best_dev_loss, progress.best_step, progress.bad_evaluations = dev_loss, progress.step, 0
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        else:
            progress.bad_evaluations += 1
            progress.done = progress.bad_evaluations >= self.config.patience


class _Window:
    """Averages between two log lines."""

    def __init__(self) -> None:
        self.loss, self.positions, self.norm, self.updates, self.texts = 0.0, 0, 0.0, 0, 0
        self.begin = time.monotonic()

    def add(self, loss: float, positions: int, norm: float, texts: int) -> None:
        self.loss, self.positions, self.norm = self.loss + loss, self.positions + positions, self.norm + norm
        self.updates, self.texts = self.updates + 1, self.texts + texts

    def metrics(self) -> dict[str, float]:
        seconds = max(time.monotonic() - self.begin, 1e-9)
        return {
            "train_loss": self.loss / self.positions,
            "gradient_norm": self.norm / self.updates,
            "texts_per_second": self.texts / seconds,
        }
