"""The Optuna study of a sweep, in storage that survives a kill, and what a sweep does with it.

By default it is a journal in the sweep's folder, one line per change; or a database by its URL. The writer holds the
claim on the sweep's folder, and on a study in a database also the claim in the study itself, which other folders and
machines reach. So there is one writer.

A trial is RUNNING from the moment it was asked for. One that is RUNNING when a sweep starts was cut off: it is handed
out again, under its number and with its parameters, before any new one. So `trials` is exactly what runs in all.

A trial's parameters depend on the sweep's seed, the trial's number, and what the study knew when it was asked for; not
on the process that asked. (A sampler seeded once would, in a second process, begin its draws anew and propose the first
trials again.) With one trial at a time the whole sweep therefore repeats; with several, what is known at that moment
depends on which trial ends first.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from agggen.config import Scalar
from agggen.errors import AggGenError, ConfigError
from agggen_platform.storage.errors import StorageError
from agggen_platform.sweep.config import SweepConfig
from agggen_platform.sweep.halving import falls_behind, is_rung
from agggen_platform.sweep.space import Space, suggest

JOURNAL = "study.journal"


@dataclass(frozen=True)
class Suggestion:
    """A trial to run."""

    number: int
    params: dict[str, Scalar]


@dataclass(frozen=True)
class Epochs:
    """The most epochs that a trial has in each stage: they put the evaluations of both stages on one line."""

    baseline: int
    joint: int

    def position(self, stage: str, epoch: int) -> int:
        """The epochs of a trial after the `epoch`-th of a stage, had its baseline taken all of its own."""
        return epoch if stage == "baseline" else self.baseline + epoch


class StudyClaim:
    """Where the claim on a study in a database is kept, for `storage.claim.heartbeat`: in the study's attributes."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self.address = f"the study {study.study_name} in its database"

    def read(self, name: str) -> bytes | None:
        with self._answered():
            content = self._study.user_attrs.get(name)
        return content.encode() if content else None

    def write(self, name: str, content: bytes) -> None:
        with self._answered():
            self._study.set_user_attr(name, content.decode())

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        now = self.read(name)
        if (new := change(now)) is not None:
            self.write(name, new)
        return now if new is None else new

    def delete(self, name: str) -> None:
        with self._answered():
            self._study.set_user_attr(name, None)  # Optuna takes none away

    @contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # SQLAlchemy's, the driver's and Optuna's own kinds
            raise StorageError(f"{self.address} cannot be claimed: {type(error).__name__}") from error


class Study:
    """Hands out trials, keeps their evaluations and outcomes, and stops those that fall behind."""

    def __init__(self, study: optuna.Study, config: SweepConfig, space: Space, epochs: Epochs) -> None:
        """`study`: see `open_study`."""
        self.optuna, self.config, self.space, self.epochs = study, config, space, epochs
        self._cut_off = []
        for trial in self.trials(TrialState.RUNNING):
            # The driver may have died between an evaluation that ends the trial and writing that down.
            last = max(trial.intermediate_values, default=0)
            if last and self._falls_behind(trial.number, last):
                self._prune(trial.number)
            else:
                self._cut_off.append(trial.number)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The trials in these states, or all, by number."""
        return self.optuna.get_trials(deepcopy=False, states=states or None)

    @property
    def left(self) -> int:
        """Trials that have not ended: those that were cut off, and those still to be asked for."""
        ended = len(self.trials(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
        return max(self.config.trials, len(self.trials())) - ended

    def next(self) -> Suggestion | None:
        """A trial to run, those that were cut off first; None when all were handed out."""
        if not self._cut_off and len(self.trials()) >= self.config.trials:
            return None
        number = self._cut_off.pop(0) if self._cut_off else self.optuna.ask().number
        self.optuna.sampler = self._sampler(number)
        # A process may have died between asking and the last parameter: what it wrote stays, the others are drawn.
        return Suggestion(number, suggest(self._trial(number), self.space))

    def evaluated(self, number: int, stage: str, epoch: int, value: float | None) -> bool:
        """Keeps the evaluation after an epoch of a stage; returns whether the trial is stopped here.

        A trial that continues from an earlier checkpoint reports evaluations again; the first ones stay.
        """
        if self.trials()[number].state.is_finished():  # it was stopped, and its process died before it heard so
            return True
        if value is None:
            return False
        position = self.epochs.position(stage, epoch)
        if position not in self.trials()[number].intermediate_values:
            self._trial(number).report(value, position)
        if behind := self._falls_behind(number, position):
            self._prune(number)
        return behind

    def complete(self, number: int, bundle: str, run: str, seconds: float) -> None:
        """A trial is done; its value is its best evaluation of the metric. One that was stopped stays so."""
        if self.trials()[number].state.is_finished():
            return
        trial = self._trial(number)
        value = self._value(number)
        if value is None:
            return self.fail(number, f"it never reported {self.config.metric}")
        for name, fact in {"bundle": bundle, "run": run, "seconds": seconds}.items():
            trial.set_user_attr(name, fact)
        self.optuna.tell(number, value)

    def fail(self, number: int, reason: str) -> None:
        """A trial has no result. One that was stopped stays so."""
        if self.trials()[number].state.is_finished():
            return
        trial = self._trial(number)
        trial.set_user_attr("reason", reason)
        self.optuna.tell(number, state=TrialState.FAIL)

    def best(self) -> FrozenTrial | None:
        """The finished trial with the least value; of equals the first."""
        done = [trial for trial in self.trials(TrialState.COMPLETE) if trial.value is not None]
        return min(done, key=lambda trial: trial.value or 0.0, default=None)

    def _falls_behind(self, number: int, position: int) -> bool:
        asha = self.config.asha
        if asha is None or not is_rung(position, asha, self.epochs.baseline + self.epochs.joint):
            return False
        at_rung = {trial.number: trial.intermediate_values.get(position) for trial in self.trials()}
        value = at_rung.pop(number)
        others = [other for other in at_rung.values() if other is not None]
        return value is not None and falls_behind(value, others, asha.factor)

    def _value(self, number: int) -> float | None:
        baseline = self.epochs.baseline
        values = [
            value
            for position, value in self.trials()[number].intermediate_values.items()
            if (position <= baseline) == (self.config.stage == "baseline")
        ]
        return min(values, default=None)

    def _prune(self, number: int) -> None:
        self.optuna.tell(number, state=TrialState.PRUNED)

    def _trial(self, number: int) -> optuna.Trial:
        return optuna.Trial(self.optuna, self.trials()[number]._trial_id)

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        seed = np.random.SeedSequence([self.config.seed, number]).generate_state(1)[0]
        return optuna.samplers.TPESampler(seed=int(seed))


def reason_of(error: BaseException) -> str:
    """One line: a user's error as it is, a fault of ours with its kind and place."""
    if isinstance(error, AggGenError):
        return " ".join(str(error).split())
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" at {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


def open_study(folder: Path, name: str, identity: Mapping[str, Any], database: str | None = None) -> optuna.Study:
    """The study of the sweep `name`: a new one, or the one that is there.

    `identity`: all that decides a sweep's trials; the caller holds the claim on `folder`.

    Raises:
        ConfigError: the one that is there is of another sweep, or the database cannot be used.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=_database(database) if database else _journal(folder / JOURNAL),
        study_name=name,
        direction="minimize",
        load_if_exists=True,
    )
    mine = json.loads(json.dumps(identity))
    earlier = study.user_attrs.get("identity")
    if earlier is None:
        study.set_user_attr("identity", mine)
    elif earlier != mine:
        differ = sorted(key for key in mine.keys() | earlier.keys() if mine.get(key) != earlier.get(key))
        raise ConfigError(
            f"the sweep {name} was begun with another {' and '.join(differ)}; give another --name, or the same settings"
        )
    return study


def _database(url: str) -> optuna.storages.BaseStorage:
    scheme, separator, rest = url.partition("://")
    if scheme == "postgresql":  # SQLAlchemy's own choice of a driver changed between versions
        scheme = "postgresql+psycopg2"  # the one that agggen[ray] brings
    try:
        return optuna.storages.RDBStorage(scheme + separator + rest)
    except Exception as error:  # SQLAlchemy's and the driver's own kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(f"the study's database cannot be used: {reason}") from error


def _journal(path: Path) -> optuna.storages.BaseStorage:
    """The journal at `path`, without the lock and the unfinished line that a killed process may have left."""
    from optuna.storages.journal import JournalFileBackend

    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)  # Optuna would wait 30 s for its holder
    if path.exists():
        with path.open("rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)  # Optuna would append to the half and then refuse the whole
    return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
