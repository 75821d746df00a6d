"""The training loop: runs one stage (baseline or joint) and keeps the best weights.

Dropout is seeded per update, and sums are computed in a fixed order, so a resumed run on a CPU has the same losses as
an uninterrupted run with as many threads.
"""

import hashlib
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from agggen.errors import ConfigError, TrainingError, check_below_one, check_minima
from agggen.model.batch import Batch, Example, collate
from agggen.model.joint import JointModel
from agggen.training.batches import epoch_batches, fingerprint, joint_costs, sort_keys, text_costs
from agggen.training.callbacks import Callback
from agggen.training.distributed import SINGLE_WORKER, WorkerGroup, all_reduce_gradients, worker_share
from agggen.training.substitution import Substitute

# baseline: the plain Transformer, a text as a single fact; joint: the marginal over plans (paper section 3.3).
Stage = Literal["baseline", "joint"]
Precision = Literal["auto", "float32", "bfloat16"]  # of matrix products; auto is bfloat16 on a GPU, float32 on a CPU
ScheduleName = Literal["linear", "noam"]


@dataclass(frozen=True)
class StageConfig:
    """One stage of training, skipped if it has 0 epochs. Raises ConfigError if a value is out of range."""

    epochs: int = 10
    learning_rate: float = 1e-3  # of encoder, decoder and copying; multiplies the schedule
    transition_learning_rate: float = 3e-3  # of predicate embeddings and stop probabilities
    schedule: ScheduleName = "linear"
    warmup: int = 400  # updates
    transition_warmup: int = 0  # updates, for the transition learning rate; 0: `warmup`
    beta2: float = 0.98  # Adam's beta2; beta1 is 0.9
    label_smoothing: float = 0.0  # of output words, in training of the baseline only
    alignment_penalty: float | None = None  # joint stage only, see `JointModel.potentials`
    omission_weight: float = 0.0  # joint stage only: weight of `JointModel.omission_loss`
    substitute: float = 0.0  # probability of replacing a name in record and text (`training.substitution`)
    batch_positions: int = 4096  # decoded positions per update
    max_records: int = 128  # texts per update
    clip: float = 1.0  # largest norm of the gradient
    patience: int = 3  # consecutive evaluations without a lower dev loss after which the stage ends
    initial_share: float = 0.0  # fraction of the stage's initial weights in its final weights, except transitions
    log_every: int = 50  # updates

    def __post_init__(self) -> None:
        check_minima(self, dict.fromkeys(("epochs", "warmup", "transition_warmup"), 0))
        check_minima(self, dict.fromkeys(("batch_positions", "max_records", "patience", "log_every"), 1))
        check_below_one(self, ("label_smoothing", "beta2"))
        if self.alignment_penalty is not None and not self.alignment_penalty >= 0:
            raise ConfigError(f"alignment_penalty must be at least 0, or null, not {self.alignment_penalty}")
        if not 0 <= self.omission_weight < math.inf:
            raise ConfigError(f"omission_weight must be a number of 0 or more, not {self.omission_weight}")
        for name in ("substitute", "initial_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        if not self.clip > 0:
            raise ConfigError(f"clip must be greater than 0, not {self.clip}")


def schedule(name: ScheduleName, warmup: int, total: int) -> Callable[[int], float]:
    """Factors of the learning rate by update number s = 1, 2, ...

    linear: a linear increase to 1 over `warmup` updates, then a linear decrease to 0.01 at `total`.
    noam: min(s^-0.5, s * warmup^-1.5), without the model-size term (Vaswani et al. 2017, section 5.3).
    """
    warmup = max(warmup, 1)

    def linear(step: int) -> float:
        decay = min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)
        return min(step / warmup, 1.0) * max(1.0 - decay, 0.01)

    def noam(step: int) -> float:
        return float(min(step**-0.5, step * warmup**-1.5))

    return linear if name == "linear" else noam


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Makes gradients on a CPU (not on a GPU) deterministic; by default, threads sum gradients in any order."""
    options: Any = torch.utils.deterministic
    fills_memory, was_deterministic = options.fill_uninitialized_memory, torch.are_deterministic_algorithms_enabled()
    if device.type == "cpu":
        options.fill_uninitialized_memory = False  # slow and unnecessary: uninitialised memory is never read
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic)
        options.fill_uninitialized_memory = fills_memory


def isolated_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Restores torch's random state on exit."""
    return torch.random.fork_rng([device.index or 0] if device.type == "cuda" else [], device_type="cuda")


@dataclass
class Progress:
    """The progress of a stage, as saved in checkpoints."""

    epoch: int = 0
    batch: int = 0  # completed batches of the epoch
    step: int = 0  # completed updates
    best_dev_loss: float = math.inf
    best_step: int = 0
    bad_evaluations: int = 0
    done: bool = False


class _Update(NamedTuple):
    """The input of an update, on the trainer's device."""

    indices: list[int]  # of the examples of all workers
    batch: Batch | None  # this worker's examples, if any
    positions: int  # scored positions of all workers


class Trainer:
    """Trains `model` in place for one stage. Its final weights are those of the best evaluation or, with
    ``initial_share``, their weighted mean with the initial weights (Wortsman et al. 2022, "Robust fine-tuning of
    zero-shot models").

    All workers of `group` pass the same arguments, except for the callbacks. `stop` is called before every update; if
    it returns True on any worker, all workers stop. `substitute` augments each training example. `epoch_examples`
    returns the indices of the training examples of an epoch, all if it is None. Raises TrainingError without texts.
    """

    def __init__(
        self,
        model: JointModel,
        train: Sequence[Example],
        dev: Sequence[Example],
        stage: Stage,
        config: StageConfig,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        precision: Precision = "auto",
        group: WorkerGroup = SINGLE_WORKER,
        stop: Callable[[], bool] = lambda: False,
        substitute: Substitute | None = None,
        epoch_examples: Callable[[int], Sequence[int] | None] = lambda epoch: None,
    ) -> None:
        if not train or not dev:
            raise TrainingError(
                f"there are {len(train)} texts to train on and {len(dev)} to validate on; both need at least one"
            )
        self.model, self.stage, self.config, self.seed = model, stage, config, seed
        self.train_examples, self.dev_examples, self.callbacks = train, dev, callbacks
        self.group, self._stop, self._substitute, self._epoch_examples = group, stop, substitute, epoch_examples
        self.device = next(model.parameters()).device
        self._bfloat16 = precision == "bfloat16" or (precision == "auto" and self.device.type == "cuda")
        self.fingerprint = fingerprint(chain(train, dev))  # identifies the texts of a checkpoint
        max_group_size, max_violations = model.config.max_group_size, 0 if config.alignment_penalty is None else 1
        self._train_costs, self._dev_costs = (
            joint_costs(examples, max_group_size, max_violations) if stage == "joint" else text_costs(examples)
            for examples in (train, dev)
        )
        self._train_sort_keys, self._dev_sort_keys = sort_keys(train), sort_keys(dev)
        transitions = list(model.transitions.parameters())
        transition_ids = {id(p) for p in transitions}
        self.optimizer = torch.optim.Adam(
            [{"params": [p for p in model.parameters() if id(p) not in transition_ids]}, {"params": transitions}],
            lr=0.0,
            betas=(0.9, config.beta2),
        )
        self.total_steps = sum(len(self._batches(epoch)) for epoch in range(config.epochs))
        warmups = (config.warmup, config.transition_warmup or config.warmup)
        factors = [schedule(config.schedule, warmup, self.total_steps) for warmup in warmups]
        self._rates = list(zip((config.learning_rate, config.transition_learning_rate), factors, strict=True))
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        initial = model.state_dict().items() if config.initial_share else ()
        self._initial = {name: tensor.clone() for name, tensor in initial if not name.startswith("transitions.")}
        self.stop_requested = False
        # Number, example indices, loss and gradient norm of the last update.
        self._last_update: tuple[int, list[int], Tensor, Tensor] | None = None

    def _batches(self, epoch: int) -> list[list[int]]:
        budget, max_records = self.config.batch_positions, self.config.max_records
        indices = self._epoch_examples(epoch)
        return epoch_batches(self._train_sort_keys, self._train_costs, budget, max_records, self.seed, epoch, indices)

    def run(self) -> Progress:
        """Trains to the last epoch or early stopping (``progress.done``), or until a stop is requested.

        A stopped or restored run is resumed; a finished run only restores the best weights. Raises TrainingError if a
        loss is not finite.
        """
        while self.progress.epoch < self.config.epochs and not self.progress.done:
            with deterministic(self.device):
                completed = self._epoch()
            if not completed:
                return self.progress
            metrics = self.evaluate()
            self._keep_best(metrics["dev_loss"])
            self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
            for callback in self.callbacks:
                callback.on_evaluation(self, metrics)
        if self.best:
            self.model.load_state_dict(self.best)
        weights = self.model.state_dict()
        for name, initial in self._initial.items():
            weights[name].lerp_(initial, self.config.initial_share)
        self.model.eval()
        self.progress.done = True
        for callback in self.callbacks:
            callback.on_end(self)
        return self.progress

    def _epoch(self) -> bool:
        """Runs the remaining updates of the epoch; returns False if a stop was requested."""
        batches = self._batches(self.progress.epoch)
        # Loss, gradient norm, scored positions and number of texts of each update since the last log line.
        logged_updates: list[tuple[Tensor, Tensor, int, int]] = []
        start_time = time.monotonic()
        for update in self._updates(batches):
            if self._must_stop():
                return False
            with isolated_randomness(self.device):
                loss, norm = self._update(update)
            logged_updates.append((loss, norm, update.positions, len(update.indices)))
            self.progress.batch += 1
            self.progress.step += 1
            for callback in self.callbacks:
                callback.on_update(self)
            if self.progress.step % self.config.log_every == 0:
                self.check_finite()
                losses, norms, positions, texts = zip(*logged_updates, strict=True)
                metrics = {
                    "train_loss": float(sum(losses)) / sum(positions),
                    "gradient_norm": float(sum(norms)) / len(norms),
                    "texts_per_second": sum(texts) / max(time.monotonic() - start_time, 1e-9),
                    "learning_rate": self.optimizer.param_groups[0]["lr"],
                    "epoch": self.progress.epoch + self.progress.batch / len(batches),
                }
                logged_updates, start_time = [], time.monotonic()
                for callback in self.callbacks:
                    callback.on_log(self, metrics)
        return not self._must_stop()

    def _updates(self, batches: list[list[int]]) -> Iterator[_Update]:
        """The inputs of the epoch's remaining updates; on a GPU, a thread prepares the next input during an update."""
        remaining = batches[self.progress.batch :]
        steps = range(self.progress.step, self.progress.step + len(remaining))
        if self.device.type == "cpu":
            yield from map(self._prepare, remaining, steps)
            return
        with ThreadPoolExecutor(1) as background:
            arguments = zip(remaining, steps, strict=True)
            submitted = (background.submit(self._prepare, *update) for update in arguments)
            current = next(submitted, None)
            while current:
                following = next(submitted, None)  # is prepared while the caller uses the current input
                yield current.result()
                current = following

    def _must_stop(self) -> bool:
        self.stop_requested = self.group.any(self.stop_requested or self._stop())
        return self.stop_requested

    def _prepare(self, indices: list[int], step: int) -> _Update:
        """The input of update `step` + 1."""
        examples = [self.train_examples[i] for i in indices]
        if self._substitute:  # the seed depends on the update, not on the worker
            seeds = [f"{self.seed} {self.stage} {step} {i}" for i in indices]
            examples = [self._substitute(e, random.Random(seed)) for e, seed in zip(examples, seeds, strict=True)]
        share = worker_share([self._train_costs[i] for i in indices], self.group.rank, self.group.size)
        batch = self._collated([examples[position] for position in share]) if share else None
        return _Update(indices, batch, self._scored_positions(examples))

    def _update(self, update: _Update) -> tuple[Tensor, Tensor]:
        """Makes one optimiser step; returns the summed loss and gradient norm of all workers, float64 on the device."""
        for parameter_group, (rate, factor) in zip(self.optimizer.param_groups, self._rates, strict=True):
            parameter_group["lr"] = rate * factor(self.progress.step + 1)
        self.model.train()  # a callback may have set evaluation mode to generate samples
        self.optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(self._random_seed())
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        if update.batch:
            loss = self._loss(update.batch)
            (loss / update.positions).backward()
            loss_sum += loss.detach()
        all_reduce_gradients(self.model, self.group)
        self.group.all_reduce(loss_sum)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip).double()
        self._last_update = (self.progress.step + 1, update.indices, loss_sum, norm)
        if self.device.type == "cpu":  # on a GPU only before log lines and checkpoints, to avoid synchronisation
            self.check_finite()
        self.optimizer.step()
        return loss_sum, norm

    def check_finite(self) -> None:
        """Raises TrainingError if the last loss or gradient norm is not finite; synchronises with the device."""
        if self._last_update is None:
            return
        step, indices = self._last_update[:2]
        loss, norm = map(float, self._last_update[2:])
        if not math.isfinite(loss) or not math.isfinite(norm):
            ids = ", ".join(self.train_examples[i].id for i in indices[:3])
            raise TrainingError(
                f"update {step}: loss {loss} and gradient norm {norm} must be finite "
                f"(records {ids}, ...); try a smaller learning_rate or a longer warmup"
            )

    def _random_seed(self) -> int:
        key = f"{self.seed} {self.stage} {self.progress.step} {self.group.rank}"
        return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")

    def _collated(self, examples: list[Example]) -> Batch:
        return collate(examples, single_fact=self.stage == "baseline").to(self.device)

    def _loss(self, batch: Batch) -> Tensor:
        """-log p(y | x), summed over the batch, in training with label smoothing or the omission loss."""
        model, config = self.model, self.config
        with torch.autocast(self.device.type, dtype=torch.bfloat16) if self._bfloat16 else nullcontext():
            if self.stage == "baseline":
                return -model.text_log_probs(batch, config.label_smoothing if model.training else 0.0).sum()
            omission_weight = config.omission_weight if model.training else 0.0
            return model.joint_loss(batch, config.alignment_penalty, omission_weight)

    def _scored_positions(self, examples: Sequence[Example]) -> int:
        """Number of tokens with END, which occurs once per text for the plain Transformer, once per fact otherwise."""
        return sum(text_costs(examples) if self.stage == "baseline" else (example.n_target for example in examples))

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """-log p of the development texts in nats per scored position; TrainingError if it is not finite."""
        self.model.eval()
        config, start_time = self.config, time.monotonic()
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        batches = epoch_batches(
            self._dev_sort_keys, self._dev_costs, config.batch_positions, config.max_records, seed=0, epoch=0
        )
        for batch in batches[self.group.rank :: self.group.size]:
            loss_sum += self._loss(self._collated([self.dev_examples[i] for i in batch]))
        self.group.all_reduce(loss_sum)
        total, positions = float(loss_sum), self._scored_positions(self.dev_examples)
        if not math.isfinite(total):
            raise TrainingError(
                f"the development loss after update {self.progress.step} is {total / positions}; it must be finite: "
                "try a smaller learning_rate or a longer warmup"
            )
        return {"dev_loss": total / positions, "dev_seconds": time.monotonic() - start_time}

    def _keep_best(self, dev_loss: float) -> None:
        progress = self.progress
        if dev_loss < progress.best_dev_loss:
            progress.best_dev_loss, progress.best_step, progress.bad_evaluations = dev_loss, progress.step, 0
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        else:
            progress.bad_evaluations += 1
            progress.done = progress.bad_evaluations >= self.config.patience
