"""`agggen doctor`: what would stop a job on this machine, and how to fix it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agggen_platform.cli import console
from agggen_platform.cli.options import Overrides, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence


def doctor(
    overrides: Overrides = None,
    preset: Annotated[
        str | None, typer.Option(metavar="PRESET", help="The job's preset; its cluster, stores and corpus are checked.")
    ] = None,
    runs: Runs = Path("runs"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="AREA", help="Check only this area; can be repeated. [default: all]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check this machine, and the cluster, stores and servers that a job would use.

    Areas: python, torch, ray, mlflow, storage, data, disk. Exit code 11 if a finding is an error, else 0. A small
    object is written to the store and deleted again, and MLflow's experiment gets a tag; nothing else is changed.
    Every check has a time limit, and no secret is printed.

    \b
        agggen doctor
        agggen doctor --preset webnlg cluster.workers=4 cluster.address=head:6379 storage.url=s3://models/runs
        agggen doctor --only storage storage.url=s3://models/runs
        agggen doctor --json | jq '.findings[] | select(.level == "error")'
    """
    import json

    from agggen_platform.doctor.areas import chosen, examine
    from agggen_platform.doctor.findings import report
    from agggen_platform.doctor.settings import settings_of

    areas = chosen(only or ())
    result = report(examine(settings_of(preset, overrides or (), str(runs)), areas))
    if as_json:
        console.say(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        _print(result["findings"])
        counts = {level: result["counts"][level] for level in ("error", "warning", "note")}
        console.note(", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items()))
    raise typer.Exit(result["exit_code"])


def _print(findings: Sequence[dict[str, Any]]) -> None:
    """A table; on a terminal each remedy is below its message."""
    columns = ["area", "level", "subject", "message", "remedy"]
    rows = [[finding[column] or "" for column in columns] for finding in findings]
    if console.console().is_terminal:
        columns.remove("remedy")
        rows = [[*row[:-2], "\n".join(filter(None, row[-2:]))] for row in rows]
    console.print_table(columns, rows)
