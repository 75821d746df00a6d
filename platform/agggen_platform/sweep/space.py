"""The space that a sweep searches: keys of the run's configuration, each with the values that it may take.

Everything is checked before the first trial: that a key exists and takes such values (as an override would be), and
that the configuration allows them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agggen.errors import ConfigError
from agggen.run import RunConfig
from agggen_platform.config import Scalar, load_config, overrides_of
from agggen_platform.job_config import JobConfig, result_of


class Suggests(Protocol):
    """The part of an Optuna trial that dimensions need."""

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any: ...
    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...
    def suggest_int(self, name: str, low: int, high: int) -> int: ...


class Dimension(Protocol):
    """The values of one key."""

    def suggest(self, trial: Suggests, key: str) -> Scalar:
        """The trial's value: sampled now, or the one that it has."""

    def samples(self) -> Sequence[Scalar]:
        """Values that stand for all: if these are right, all are."""


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if not self.values or any(isinstance(value, list | dict) for value in self.values):
            raise ConfigError("choice takes a list of numbers, words, true, false or null")
        if len({json.dumps(value) for value in self.values}) < len(self.values):
            raise ConfigError(f"choice has a value twice: {list(self.values)}")

    def suggest(self, trial: Suggests, key: str) -> Scalar:
        return trial.suggest_categorical(key, self.values)

    def samples(self) -> Sequence[Scalar]:
        return self.values


@dataclass(frozen=True)
class Real:
    """A number from `low` to `high`, evenly spread by itself or by its logarithm."""

    low: float
    high: float
    log: bool

    def __post_init__(self) -> None:
        if not (-math.inf < self.low < self.high < math.inf) or (self.log and self.low <= 0):
            least = "0 < low < high" if self.log else "low < high"
            raise ConfigError(
                f"{'log_uniform' if self.log else 'uniform'} takes [low, high] with {least}, "
                f"not [{self.low:g}, {self.high:g}]"
            )

    def suggest(self, trial: Suggests, key: str) -> Scalar:
        return trial.suggest_float(key, self.low, self.high, log=self.log)

    def samples(self) -> Sequence[Scalar]:
        return (self.low, self.high)


@dataclass(frozen=True)
class Integer:
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ConfigError(f"int takes [low, high] with low < high, not [{self.low}, {self.high}]")

    def suggest(self, trial: Suggests, key: str) -> Scalar:
        return trial.suggest_int(key, self.low, self.high)

    def samples(self) -> Sequence[Scalar]:
        return (self.low, self.high)


Space = dict[str, Dimension]

_KINDS = ("choice", "uniform", "log_uniform", "int")


def parse_space(described: Mapping[str, Mapping[str, Sequence[Any]]]) -> Space:
    """The dimensions that a sweep's ``space`` describes.

    Raises:
        ConfigError: there are none, or one is not a ``{kind: [...]}`` that makes sense.
    """
    if not described:
        raise ConfigError("space is empty: it takes KEY: {choice: [...]} and the like")
    return {key: _dimension(key, dict(one)) for key, one in described.items()}


def _dimension(key: str, described: dict[str, Sequence[Any]]) -> Dimension:
    if len(described) != 1 or not (kind := next(iter(described))) or kind not in _KINDS:
        raise ConfigError(
            f"space, {key!r} must be one of {', '.join(f'{{{kind}: [...]}}' for kind in _KINDS)}, not {described}"
        )
    values = list(described[kind])
    try:
        if kind == "choice":
            return Choice(tuple(values))
        wanted = int if kind == "int" else int | float
        if len(values) != 2 or any(isinstance(v, bool) or not isinstance(v, wanted) for v in values):
            raise ConfigError(f"{kind} takes {'two whole numbers' if kind == 'int' else 'two numbers'}, not {values}")
        if kind == "int":
            return Integer(*values)
        return Real(float(values[0]), float(values[1]), kind == "log_uniform")
    except ConfigError as error:
        raise ConfigError(f"space, {key!r}: {error}") from error


def check_space(space: Space, config: JobConfig, given: Sequence[str] = ()) -> None:
    """Refuses a space that does not fit `config`; `given` are the user's overrides.

    Raises:
        ConfigError: a key that no run has (with the nearest), one that the user sets as well, a value of another type,
            or one that the configuration does not allow.
    """
    for key in [override.partition("=")[0].strip() for override in given]:
        if key in space:
            raise ConfigError(f"{key!r} is set by an override and searched by the space; leave one of them out")
    base = overrides_of(result_of(config))
    for key, dimension in space.items():
        for value in dimension.samples():
            try:
                load_config(RunConfig, None, [*base, *as_overrides({key: value})])
            except ConfigError as error:
                raise ConfigError(f"space: {error}") from error


def as_overrides(params: Mapping[str, Scalar]) -> list[str]:
    """``["model.width=128", ...]``."""
    return [f"{key}={json.dumps(value)}" for key, value in params.items()]


def trial_config(config: JobConfig, params: Mapping[str, Scalar]) -> JobConfig:
    """The configuration of a trial with these values.

    Raises:
        ConfigError: they do not go together.
    """
    return load_config(JobConfig, None, [*overrides_of(config), *as_overrides(params)])


def largest(space: Space, config: JobConfig, key: str) -> int:
    """The largest value that a trial may have for a whole-numbered key like ``training.joint.epochs``."""
    if key in space:
        return max(int(value) for value in space[key].samples() if value is not None)
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return int(value)
