"""The space that a sweep searches: keys of the run's configuration, each with an Optuna distribution.

Before the first trial, it is checked that every key exists and that the configuration accepts its values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from optuna import Trial
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from agggen.config import Scalar, flatten, load_config, overrides_of
from agggen.errors import ConfigError
from agggen.run import RunConfig
from agggen_platform.job_config import JobConfig, run_config_of

Space = dict[str, BaseDistribution]

_KINDS = ("choice", "uniform", "log_uniform", "int")


def parse_space(described: Mapping[str, Mapping[str, Sequence[Any]]]) -> Space:
    """The distributions that a sweep's ``space`` describes.

    Raises:
        ConfigError: it is empty, or the values of a key are not a valid ``{kind: [...]}``.
    """
    if not described:
        raise ConfigError("space is empty: it takes KEY: {choice: [...]} and the like")
    space: Space = {}
    for key, dimension in described.items():
        if len(dimension) != 1 or next(iter(dimension)) not in _KINDS:
            kinds = ", ".join(f"{{{kind}: [...]}}" for kind in _KINDS)
            raise ConfigError(f"space, {key!r} must be one of {kinds}, not {dict(dimension)}")
        ((kind, values),) = dimension.items()
        try:
            space[key] = _distribution(kind, values)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"space, {key!r}, {kind} {values}: {error}") from error
    return space


def _distribution(kind: str, values: Sequence[Any]) -> BaseDistribution:
    """Raises ValueError or TypeError if Optuna refuses the values."""
    if kind == "choice":
        return CategoricalDistribution(values)
    low, high = values
    if kind == "int":
        if not (isinstance(low, int) and isinstance(high, int)):
            raise ValueError("takes two whole numbers")
        return IntDistribution(low, high)
    return FloatDistribution(low, high, log=kind == "log_uniform")


def suggest(trial: Trial, space: Space) -> dict[str, Scalar]:
    """The parameters of a trial; Optuna samples the parameters that are not stored yet."""
    params: dict[str, Scalar] = {}
    for key, distribution in space.items():
        match distribution:
            case IntDistribution(low=low, high=high):
                params[key] = trial.suggest_int(key, low, high)
            case FloatDistribution(low=low, high=high, log=log):
                params[key] = trial.suggest_float(key, low, high, log=log)
            case CategoricalDistribution(choices=choices):
                params[key] = trial.suggest_categorical(key, choices)
    return params


def extremes(distribution: BaseDistribution) -> Sequence[Any]:
    """The values to check: if the configuration accepts them, it accepts all values of the distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    return distribution.low, distribution.high


def check_space(space: Space, config: JobConfig, overrides: Sequence[str] = ()) -> None:
    """Checks that a space fits `config`; `overrides` are the user's.

    Raises:
        ConfigError: a key does not exist (suggests a similar one) or is also an override, or a value is not valid.
    """
    for key in [override.partition("=")[0].strip() for override in overrides]:
        if key in space:
            raise ConfigError(f"{key!r} is set by an override and searched by the space; leave one of them out")
    base = overrides_of(run_config_of(config))
    for key, distribution in space.items():
        for value in extremes(distribution):
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
        ConfigError: the values are not valid together.
    """
    return load_config(JobConfig, None, [*overrides_of(config), *as_overrides(params)])


def largest(space: Space, config: JobConfig, key: str) -> int:
    """The largest value that a trial may have for an integer setting like ``training.joint.epochs``."""
    if key in space:
        return max(int(value) for value in extremes(space[key]) if value is not None)
    return int(flatten(config)[key] or 0)
