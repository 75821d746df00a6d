"""`agggen doctor`: what stands in the way of a job on this machine, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agggen_platform.cli import console
from agggen_platform.cli.train import Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "bold red"}


def doctor(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="The job's settings, say cluster.workers=4")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="PRESET", help="The job's preset; its cluster, stores and corpus are checked.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Ray cluster: auto, HOST:6379. [default: the job's]")
    ] = None,
    tracking: Annotated[str | None, typer.Option(metavar="URI", help="An MLflow. [default: the job's]")] = None,
    storage: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="s3://bucket/prefix or a folder; may be given again. [default: the job's]"),
    ] = None,
    runs: Runs = Path("runs"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="AREA", help="Only this area; may be given again. [default: all]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check this machine, and the cluster, stores and servers that a job would use.

    Areas: python, torch, java, ray, mlflow, storage, data, caches, allennlp, ports, disk, system. Exit code 11 where
    something is an error, else 0. Nothing is changed: in a store a small object is written and deleted again. No check
    waits long for a server that does not answer, and no secret is printed.

    \b
        agggen doctor
        agggen doctor --preset webnlg cluster.workers=4 cluster.address=head:6379 storage.url=s3://models/runs
        agggen doctor --only storage --storage s3://models/runs
        agggen doctor --json | jq '.findings[] | select(.level == "error")'
    """
    import json

    from agggen_platform.doctor.areas import checks_of
    from agggen_platform.doctor.report import report
    from agggen_platform.doctor.running import examine
    from agggen_platform.doctor.settings import settings_of

    settings = settings_of(
        preset, overrides or (), runs=runs, address=address, storage=storage or (), tracking=tracking
    )
    found = report(examine(checks_of(settings, only or ())))
    if as_json:
        console.say(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print(found["findings"])
        counts = {level: found["counts"][level] for level in ("error", "warning", "note")}
        console.note(", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items()))
    raise typer.Exit(found["exit_code"])


def _print(findings: Sequence[dict[str, Any]]) -> None:
    """A table with the areas as its parts; without a terminal, tab-separated lines."""
    columns = ("area", "level", "what", "found", "what to do")
    if not console.console().is_terminal:
        rows = [(one["area"], one["level"], one["about"], one["found"], one["remedy"] or "") for one in findings]
        console.print_table(columns, rows)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("area", "level", "what", "found, and what to do", show_lines=False)
    before = None
    for one in findings:
        if before not in (None, one["area"]):
            table.add_section()
        text = Text(one["found"])
        if one["remedy"]:
            text.append(f"\n{one['remedy']}", style="bold")
        area = "" if one["area"] == before else one["area"]
        table.add_row(area, Text(one["level"], style=_COLOURS[one["level"]]), Text(one["about"]), text)
        before = one["area"]
    console.console().print(table, soft_wrap=False)
