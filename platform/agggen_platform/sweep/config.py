"""The settings of a sweep, from a YAML file (`agggen_platform.sweeps`, or of the user), and its search space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna import Trial
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from agggen.config import Scalar, as_overrides, flatten, load_config, overrides_of
from agggen.errors import AggGenError, ConfigError, check_minima
from agggen.run import RunConfig
from agggen_platform.job_config import JobConfig, run_config_of

SPACES = "agggen_platform.sweeps"  # the package with the YAML files of the named spaces
STAGES = ("baseline", "joint")
MEASURES = ("dev_loss", "dev_seconds")  # of an evaluation during training (`Trainer.evaluate`); lower is better
Space = dict[str, BaseDistribution]  # by key of the run's configuration
_KINDS = ("choice", "uniform", "log_uniform", "int")


class SweepError(AggGenError):
    """No trial finished, or the study cannot be read or written."""

    exit_code = 4


@dataclass(frozen=True)
class AshaConfig:
    """Early stopping by asynchronous successive halving (Li et al. 2020); the resource is the epochs of both stages."""

    grace: int = 2  # epochs of the first rung, which every trial reaches
    factor: int = 3  # one in `factor` trials passes a rung; the next rung has `factor` times as many epochs

    def __post_init__(self) -> None:
        if self.grace < 1 or self.factor < 2:
            raise ConfigError(
                f"grace must be at least 1 and factor at least 2, not {self.grace} and {self.factor}; "
                "asha: null switches early stopping off"
            )


@dataclass(frozen=True)
class SweepConfig:
    # By key of the run's configuration: {choice: [...]}, {uniform: [low, high]}, {log_uniform: [...]} or {int: [...]}
    space: dict[str, dict[str, list[Any]]]
    trials: int = 20  # including failed trials; a larger number extends a finished sweep
    metric: str = "joint/dev_loss"  # STAGE/MEASURE; a trial's value is the minimum over its evaluations
    seed: int = 1
    concurrent: int = 0  # trials; 0: as many as fit on the cluster; 1: results do not depend on timing
    asha: AshaConfig | None = field(default_factory=AshaConfig)

    def __post_init__(self) -> None:
        check_minima(self, {"trials": 1, "seed": 0, "concurrent": 0})
        metrics = [f"{stage}/{measure}" for stage in STAGES for measure in MEASURES]
        if self.metric not in metrics:
            raise ConfigError(f"metric must be one of {', '.join(metrics)}, not {self.metric!r}")

    @property
    def stage(self) -> str:
        return self.metric.partition("/")[0]

    @property
    def measure(self) -> str:
        return self.metric.partition("/")[2]


def parse_space(settings: Mapping[str, Mapping[str, Sequence[Any]]]) -> Space:
    """The distributions of `SweepConfig.space`; raises ConfigError if it is empty or a value is invalid."""
    if not settings:
        raise ConfigError("space is empty: it needs entries such as model.width: {choice: [64, 128]}")
    space: Space = {}
    for key, entry in settings.items():
        if len(entry) != 1 or next(iter(entry)) not in _KINDS:
            kinds = ", ".join(f"{{{kind}: [...]}}" for kind in _KINDS)
            raise ConfigError(f"space, {key!r} must be one of {kinds}, not {dict(entry)}")
        ((kind, values),) = entry.items()
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
            raise ValueError("the values must be two whole numbers")
        return IntDistribution(low, high)
    return FloatDistribution(low, high, log=kind == "log_uniform")


def suggest(trial: Trial, space: Space) -> dict[str, Scalar]:
    """The parameters of a trial; Optuna samples those that it has not stored yet."""
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
    """All choices, or the bounds; if the configuration accepts these, it accepts all values of the distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    return distribution.low, distribution.high


def check_space(space: Space, config: JobConfig, overrides: Sequence[str] = ()) -> None:
    """Raises ConfigError if a key does not exist or is one of the user's `overrides`, or a value is invalid."""
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


def trial_config(config: JobConfig, params: Mapping[str, Scalar]) -> JobConfig:
    """The configuration of a trial with these parameters; raises ConfigError if their combination is invalid."""
    return load_config(JobConfig, None, [*overrides_of(config), *as_overrides(params)])


def maximum(space: Space, config: JobConfig, key: str) -> int:
    """The largest value of an integer setting, such as ``training.joint.epochs``, in any trial."""
    if key in space:
        return max(int(value) for value in extremes(space[key]) if value is not None)
    return int(flatten(config)[key] or 0)
