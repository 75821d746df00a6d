"""The table of a sweep's trials."""

from __future__ import annotations

import csv
import io
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from agggen_platform.sweep.study import Study

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
    """One row per trial: finished trials from best to worst, then trials stopped early, then the rest."""

    def sort_key(trial: FrozenTrial) -> tuple[bool, bool, float, int]:
        is_complete = trial.state == TrialState.COMPLETE
        value = trial.value if is_complete and trial.value is not None else 0.0
        return not is_complete, trial.state != TrialState.PRUNED, value, trial.number

    return [
        [
            trial.number,
            STATES[trial.state],
            _format_value(trial.value if trial.state == TrialState.COMPLETE else None),
            max(trial.intermediate_values, default=0),
            *(_format_value(trial.params.get(key)) for key in study.space),
            trial.user_attrs.get("reason", ""),
        ]
        for trial in sorted(study.trials(), key=sort_key)
    ]


def table(study: Study) -> str:
    """The table as CSV, with the header."""
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
