"""What a sweep found: the table of its trials, and plots of the study."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from agggen_platform.sweep.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STATES = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "stopped",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "cut off",
    TrialState.WAITING: "waiting",
}


def columns(study: Study) -> list[str]:
    """The table's."""
    return ["trial", "state", study.config.metric, "epochs", *study.space, "reason"]


def rows(study: Study) -> list[list[object]]:
    """One row per trial: the finished ones from best to worst, then the stopped, then all others."""

    def order(trial: FrozenTrial) -> tuple[bool, bool, float, int]:
        complete = trial.state == TrialState.COMPLETE
        value = trial.value if complete and trial.value is not None else 0.0
        return not complete, trial.state != TrialState.PRUNED, value, trial.number

    return [
        [
            trial.number,
            STATES[trial.state],
            _short(trial.value if trial.state == TrialState.COMPLETE else None),
            max(trial.intermediate_values, default=0),
            *(_short(trial.params.get(key)) for key in study.space),
            trial.user_attrs.get("reason", ""),
        ]
        for trial in sorted(study.trials(), key=order)
    ]


def table(study: Study) -> str:
    """The rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns(study), *rows(study)])
    return text.getvalue()


def figures(study: Study) -> dict[str, Callable[[], Figure]]:
    """Name -> what draws it; only the plots for which there are enough finished trials."""
    values = [trial.value for trial in study.trials(TrialState.COMPLETE) if trial.value is not None]
    drawn: dict[str, Callable[[], Figure]] = {}
    if values:
        drawn["optimisation-history"] = lambda: history(study)
    if len(values) > 1:
        drawn["parallel-coordinates"] = lambda: parallel_coordinates(study)
    if len(set(values)) > 1 and any(len(set(column)) > 1 for column in _columns(study).values()):
        drawn["parameter-importance"] = lambda: importance(study)
    return drawn


def history(study: Study) -> Figure:
    """The value of each finished trial, and the best up to it."""
    done = study.trials(TrialState.COMPLETE)
    numbers, values = [trial.number for trial in done], [trial.value or 0.0 for trial in done]
    figure, axes = _figure(8, 4.5)
    axes.plot(numbers, values, "o", label="trial")
    axes.step(numbers, np.minimum.accumulate(values), where="post", label="best so far")
    axes.set(xlabel="trial", ylabel=study.config.metric, title="Optimisation history")
    axes.legend()
    return figure


def importance(study: Study) -> Figure:
    """How much of the value's variance each key explains (fANOVA, over finished trials)."""
    import optuna

    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=study.config.seed)
    shares = optuna.importance.get_param_importances(study.optuna, evaluator=evaluator)
    figure, axes = _figure(8, 1.5 + 0.5 * len(shares))
    axes.barh(list(reversed(shares.keys())), list(reversed(shares.values())))
    axes.set(xlabel=f"share of the variance of {study.config.metric}", xlim=(0, 1), title="Parameter importance")
    return figure


def parallel_coordinates(study: Study) -> Figure:
    """One line per finished trial through its values, coloured by the metric; each axis from the least to the most."""
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    done = study.trials(TrialState.COMPLETE)
    values = [trial.value or 0.0 for trial in done]
    colours = ScalarMappable(Normalize(min(values), max(values)), matplotlib.colormaps["viridis"])
    figure, axes = _figure(2.5 + 2.2 * len(study.space), 5)
    lines: dict[str, list[Any]] = {study.config.metric: values, **_columns(study)}
    heights, ends = zip(*(_heights(line) for line in lines.values()), strict=True)
    for trial_heights, colour in zip(zip(*heights, strict=True), colours.to_rgba(np.array(values)), strict=True):
        axes.plot(trial_heights, color=colour, alpha=0.8)
    labels = [f"{low}\n{key.removeprefix('training.')}" for key, (low, _) in zip(lines, ends, strict=True)]
    axes.set_xticks(range(len(lines)), labels)
    axes.secondary_xaxis("top").set_xticks(range(len(lines)), [high for _, high in ends])
    axes.set(yticks=[], title="Parallel coordinates")
    axes.grid(axis="x")
    figure.colorbar(colours, ax=axes, label=study.config.metric)
    return figure


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _columns(study: Study) -> dict[str, list[Any]]:
    """Key -> the values of the finished trials."""
    done = study.trials(TrialState.COMPLETE)
    return {key: [trial.params[key] for trial in done] for key in study.space}


def _heights(line: Sequence[Any]) -> tuple[list[float], tuple[str, str]]:
    """Where values stand from 0 to 1: numbers by their rank, so that sizes and rates spread alike, words by name."""
    numbers = all(isinstance(value, int | float) for value in line)
    distinct = sorted(set(line), key=None if numbers else str)
    place = {value: index / max(1, len(distinct) - 1) for index, value in enumerate(distinct)}
    return [place[value] for value in line], (_short(distinct[0]), _short(distinct[-1]))


def _short(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
