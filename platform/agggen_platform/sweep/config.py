"""The settings of a sweep, from a YAML file of the package `agggen_platform.sweeps` or of the user."""

from dataclasses import dataclass, field
from typing import Any

from agggen.errors import AggGenError, ConfigError, check_minima

SPACES = "agggen_platform.sweeps"  # the package with the YAML files of the named spaces
STAGES = ("baseline", "joint")
MEASURES = ("dev_loss", "dev_seconds")  # of an evaluation during training (`Trainer.evaluate`); lower is better


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
