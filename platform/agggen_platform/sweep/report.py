"""The table of a sweep's trials."""

import csv
import io
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from agggen_platform.sweep.study import Study

_STATES = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "stopped", TrialState.FAIL: "failed"}


def columns(study: Study) -> list[str]:
    return ["trial", "state", study.config.metric, "epochs", *study.space, "reason"]


def rows(study: Study) -> list[list[object]]:
    """One row per trial: finished trials from best to worst, then trials stopped early, then failed trials."""

    def value_of(trial: FrozenTrial) -> float | None:
        return trial.value if trial.state == TrialState.COMPLETE else None  # Optuna gives stopped trials values, too

    def sort_key(trial: FrozenTrial) -> tuple[int, float, int]:
        return list(_STATES).index(trial.state), value_of(trial) or 0.0, trial.number

    return [
        [
            trial.number,
            _STATES[trial.state],
            _format_value(value_of(trial)),
            max(trial.intermediate_values, default=0),
            *(_format_value(trial.params.get(key)) for key in study.space),
            trial.user_attrs.get("reason", ""),
        ]
        for trial in sorted(study.trials(), key=sort_key)
    ]


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
