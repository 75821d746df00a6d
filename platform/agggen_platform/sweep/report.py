"""The table of a sweep's trials."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from agggen_platform.sweep.study import Study

if TYPE_CHECKING:
    pass

STATES = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "stopped",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "interrupted",
    TrialState.WAITING: "waiting",
}


def columns(study: Study) -> list[str]:
    """The table's header."""
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


def description(study: Study) -> str:
    """The rows as a table in Markdown, for the page of the sweep's run."""
    lines: list[list[Any]] = [columns(study), ["---"] * len(columns(study)), *rows(study)]
    return "\n".join(" | ".join(str(cell).replace("|", "\\|") for cell in line) for line in lines)


def figures(study: Study) -> dict[str, Callable[[], Figure]]:
    """Optuna's plots by name, only those for which there are enough finished trials.

    MLflow draws the parameters of all trials beside the metric (parallel coordinates).
    """
    finished = study.trials(TrialState.COMPLETE)
    values = {trial.value for trial in finished}
    searched = [{str(trial.params[key]) for trial in finished} for key in study.space]
    drawn: dict[str, Callable[[], Figure]] = {}
    if values:
        drawn["optimisation-history"] = lambda: _optimisation_history(study)
    if len(values) > 1 and any(len(different) > 1 for different in searched):
        drawn["parameter-importance"] = lambda: _parameter_importance(study)
    return drawn


def _optimisation_history(study: Study) -> Figure:
    """The value of each finished trial, and the best up to it."""
    from optuna.visualization.matplotlib import plot_optimization_history

    return _drawn(plot_optimization_history, study)


def _parameter_importance(study: Study) -> Figure:
    """How much of the value's variance each key explains (fANOVA, over finished trials)."""
    from optuna.importance import FanovaImportanceEvaluator
    from optuna.visualization.matplotlib import plot_param_importances

    return _drawn(plot_param_importances, study, evaluator=FanovaImportanceEvaluator(seed=study.config.seed))


def _drawn(plot: Callable[..., Any], study: Study, **options: Any) -> Figure:
    from matplotlib import pyplot
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        figure: Figure = plot(study.optuna, target_name=study.config.metric, **options).figure
    pyplot.close(figure)  # pyplot would otherwise keep it, and a notebook show it
    return figure


def _short(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
