"""The settings of a sweep, read from a YAML file of the package `agggen_platform.sweeps` or of the user."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agggen.errors import AggGenError, ConfigError, check_minima

SPACES = "agggen_platform.sweeps"
"""The package of the named spaces."""

STAGES = ("baseline", "joint")
MEASURES = ("dev_loss", "dev_seconds")
"""The measures of an evaluation that training reports (`agggen.training.loop.Stage.evaluate`); less is better."""


class SweepError(AggGenError):
    """No trial finished, or the study was lost."""

    exit_code = 4


@dataclass(frozen=True)
class AshaConfig:
    """Early stopping by asynchronous successive halving (Li et al. 2020). Its resource is the epochs of both stages."""

    grace: int = 2  # epochs that every trial gets: the first rung
    factor: int = 3  # one in `factor` trials passes a rung; a rung has `factor` times the epochs of the previous one

    def __post_init__(self) -> None:
        if self.grace < 1 or self.factor < 2:
            raise ConfigError(
                f"grace must be at least 1 and factor at least 2, not {self.grace} and {self.factor}; "
                "asha: null switches early stopping off"
            )


@dataclass(frozen=True)
class SweepConfig:
    # KEY of the run's configuration -> {choice: [...]}, {uniform: [low, high]}, {log_uniform: [...]} or {int: [...]}
    space: dict[str, dict[str, list[Any]]]
    trials: int = 20  # total number, including failed trials; a larger number extends a finished sweep
    metric: str = "joint/dev_loss"  # STAGE/MEASURE, minimised; the value of a trial is that of its best evaluation
    seed: int = 1
    concurrent: int = 0  # concurrent trials; 0: as many as fit on the cluster; 1: results do not depend on timing
    asha: AshaConfig | None = field(default_factory=AshaConfig)

    def __post_init__(self) -> None:
        check_minima(self, {"trials": 1, "seed": 0, "concurrent": 0})
        metrics = [f"{stage}/{measure}" for stage in STAGES for measure in MEASURES]
        if self.metric not in metrics:
            raise ConfigError(f"metric must be one of {', '.join(metrics)}, not {self.metric!r}")

    @property
    def stage(self) -> str:
        """The stage whose evaluations have the metric."""
        return self.metric.partition("/")[0]

    @property
    def measure(self) -> str:
        """The metric's name without the stage."""
        return self.metric.partition("/")[2]
