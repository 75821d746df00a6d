"""The Optuna study of a sweep, in a journal: a file in the sweep's folder with one line per change; the trials' table.

Only the process with the folder's claim writes to the journal.

A suggested trial has the state RUNNING. A trial that is RUNNING when a sweep starts was interrupted: it is suggested
again, with the same number and parameters, before any new trial.

The sampler is seeded anew for each trial, by the sweep's seed and the trial's number; a sampler seeded once per process
would repeat its first draws after a restart. Parameters therefore depend only on the seed, the number, and the results
at the time of the suggestion. A sweep is reproducible if its trials run one at a time.
"""

import csv
import io
import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from agggen.config import Scalar
from agggen.errors import AggGenError, ConfigError
from agggen_platform.sweep.config import AshaConfig, Space, SweepConfig, suggest

JOURNAL = "study.journal"
_STATES = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "stopped", TrialState.FAIL: "failed"}


@dataclass(frozen=True)
class Suggestion:
    number: int  # of the trial to run
    params: dict[str, Scalar]


@dataclass(frozen=True)
class Epochs:
    """The maximum number of epochs of each stage over all trials; defines the order of evaluations."""

    baseline: int
    joint: int

    def position(self, stage: str, epoch: int) -> int:
        """The number of an evaluation, counted over both stages: the joint stage starts after `baseline` epochs."""
        return epoch if stage == "baseline" else self.baseline + epoch


class Study:
    """Suggests trials, stores their evaluations and results, and stops trials early."""

    def __init__(self, study: optuna.Study, config: SweepConfig, space: Space, epochs: Epochs) -> None:
        self.optuna, self.config, self.space, self.epochs = study, config, space, epochs
        self._interrupted_numbers = []
        for trial in self.trials(TrialState.RUNNING):
            # The driver may have died after it stored an evaluation, and before it stored that the trial stops.
            last_position = max(trial.intermediate_values, default=0)
            if not self._prune_if_behind(trial.number, last_position):
                self._interrupted_numbers.append(trial.number)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The trials in these states (default: all), sorted by number."""
        return self.optuna.get_trials(deepcopy=False, states=states or None)

    @property
    def remaining(self) -> int:
        """The number of trials to run: interrupted trials and trials not yet suggested."""
        ended = len(self.trials(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
        return max(self.config.trials, len(self.trials())) - ended

    def next(self) -> Suggestion | None:
        """The next trial to run, interrupted trials first; None if all were suggested."""
        if not self._interrupted_numbers and len(self.trials()) >= self.config.trials:
            return None
        number = self._interrupted_numbers.pop(0) if self._interrupted_numbers else self.optuna.ask().number
        seed = np.random.SeedSequence([self.config.seed, number]).generate_state(1)[0]
        self.optuna.sampler = optuna.samplers.TPESampler(seed=int(seed))
        # If a process was killed after `ask`, only the parameters that it had not stored are sampled.
        return Suggestion(number, suggest(self._trial(number), self.space))

    def report_evaluation(self, number: int, stage: str, epoch: int, value: float | None) -> bool:
        """Stores the metric after an epoch of a stage; returns whether the trial should stop.

        If a trial resumes from a checkpoint and repeats evaluations, their first values are kept.
        """
        if self.trials()[number].state.is_finished():  # stopped before its process died and was restarted
            return True
        if value is None:
            return False
        position = self.epochs.position(stage, epoch)
        if position not in self.trials()[number].intermediate_values:
            self._trial(number).report(value, position)
        return self._prune_if_behind(number, position)

    def complete(self, number: int, bundle: str, run: str, seconds: float) -> None:
        """Marks a trial as finished, with the best value of the metric; does nothing if the trial was stopped."""
        if self.trials()[number].state.is_finished():
            return
        trial = self._trial(number)
        values = [
            value
            for position, value in self.trials()[number].intermediate_values.items()
            if (position <= self.epochs.baseline) == (self.config.stage == "baseline")
        ]
        if not values:
            return self.fail(number, f"it never reported {self.config.metric}")
        for name, attribute in {"bundle": bundle, "run": run, "seconds": seconds}.items():
            trial.set_user_attr(name, attribute)
        self.optuna.tell(number, min(values))

    def fail(self, number: int, reason: str) -> None:
        """Marks a trial as failed; does nothing if the trial was stopped."""
        if self.trials()[number].state.is_finished():
            return
        self._trial(number).set_user_attr("reason", reason)
        self.optuna.tell(number, state=TrialState.FAIL)

    def best(self) -> FrozenTrial | None:
        """The finished trial with the lowest value, the earliest if several have it; None if no trial has finished."""
        return min(self.trials(TrialState.COMPLETE), key=lambda trial: trial.value or 0.0, default=None)

    def _prune_if_behind(self, number: int, position: int) -> bool:
        asha = self.config.asha
        if asha is None or not is_rung(position, asha, self.epochs.baseline + self.epochs.joint):
            return False
        values_at_rung = {trial.number: trial.intermediate_values.get(position) for trial in self.trials()}
        value = values_at_rung.pop(number)
        other_values = [rung_value for rung_value in values_at_rung.values() if rung_value is not None]
        is_behind = value is not None and should_prune(value, other_values, asha.factor)
        if is_behind:
            self.optuna.tell(number, state=TrialState.PRUNED)
        return is_behind

    def _trial(self, number: int) -> optuna.Trial:
        return optuna.Trial(self.optuna, self.trials()[number]._trial_id)


def is_rung(position: int, asha: AshaConfig, last_position: int) -> bool:
    """Whether there is a rung after `position` epochs; not after `last_position`, where pruning would save no time.

    Optuna's pruner is not used: a trial whose baseline stage ends early may skip a rung, and the pruner would then
    compare it with trials in the other stage.
    """
    rung = asha.grace
    while rung < position:
        rung *= asha.factor
    return rung == position < last_position


def should_prune(value: float, other_values: Sequence[float], factor: int) -> bool:
    """Whether a trial's `value` at a rung is not among the best 1 / `factor` of all values, with `other_values`.

    Asynchronous successive halving (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm
    2). The best trial always continues, even among fewer than `factor`. Trials with equal values continue together.
    """
    n_better = sum(other_value < value for other_value in other_values)
    return n_better >= max(1, (len(other_values) + 1) // factor)


def reason_of(error: BaseException) -> str:
    """An error in one line: the message of an `AggGenError`; type, message and location of any other error."""
    if isinstance(error, AggGenError):
        return " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    location = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{location}"


def open_study(folder: Path, name: str, identity: Mapping[str, Any]) -> optuna.Study:
    """The study of a sweep in its claimed folder, or a new one; raises ConfigError if its `identity` is another."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = folder / JOURNAL
    path.parent.mkdir(parents=True, exist_ok=True)
    # Remove the lock and the incomplete line that a killed process may have left: Optuna would wait for the lock for
    # 30 s, and append to the line.
    path.with_name(path.name + ".lock").unlink(missing_ok=True)
    if path.exists():
        with path.open("rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
    current = json.loads(json.dumps(identity))
    existing = study.user_attrs.get("identity")
    if existing is None:
        study.set_user_attr("identity", current)
    elif existing != current:
        keys = sorted(key for key in current.keys() | existing.keys() if current.get(key) != existing.get(key))
        raise ConfigError(
            f"the sweep {name} was begun with another {' and '.join(keys)}; give another --name, or the same settings"
        )
    return study


def columns(study: Study) -> list[str]:
    """The columns of the table of trials."""
    return ["trial", "state", study.config.metric, "epochs", *study.space, "reason"]


def rows(study: Study) -> list[list[object]]:
    """One row per trial: finished trials from best to worst, then trials stopped early, then failed trials."""

    def value_of(trial: FrozenTrial) -> float | None:
        return trial.value if trial.state == TrialState.COMPLETE else None  # Optuna gives stopped trials values, too

    def sort_key(trial: FrozenTrial) -> tuple[int, float, int]:
        return list(_STATES).index(trial.state), value_of(trial) or 0.0, trial.number

    result: list[list[object]] = []
    for trial in sorted(study.trials(), key=sort_key):
        values = [_format_value(value) for value in (value_of(trial), *map(trial.params.get, study.space))]
        epochs, reason = max(trial.intermediate_values, default=0), trial.user_attrs.get("reason", "")
        result.append([trial.number, _STATES[trial.state], values[0], epochs, *values[1:], reason])
    return result


def table(study: Study) -> str:
    """The table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns(study), *rows(study)])
    return text.getvalue()


def description(study: Study) -> str:
    """The table as Markdown, for the page of the sweep's run in MLflow."""
    lines: list[list[Any]] = [columns(study), ["---"] * len(columns(study)), *rows(study)]
    return "\n".join(" | ".join(str(cell).replace("|", "\\|") for cell in line) for line in lines)


def _format_value(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
