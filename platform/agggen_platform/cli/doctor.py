"""`agggen doctor`: finds problems that would stop a job on this machine, and prints remedies."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from agggen_platform.cli import console
from agggen_platform.cli.options import Overrides, Runs
from agggen_platform.doctor.areas import Area, examine
from agggen_platform.doctor.findings import settings_of


def doctor(
    overrides: Overrides = None,
    preset: Annotated[str | None, Option(metavar="PRESET", help="The preset of the job to check.")] = None,
    runs: Runs = Path("runs"),
    only: Annotated[list[Area] | None, Option(help="Check only this area; can be repeated.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check this machine, and the servers that a job uses.

    The exit code is 11 if a finding is an error, else 0. The checks write a small object to the store, delete it again,
    and set a tag of MLflow's experiment. Each check has a time limit, and no secret is printed.

    \b
        agggen doctor
        agggen doctor --preset webnlg cluster.workers=4 cluster.address=head:6379 storage.url=s3://models/runs
        agggen doctor --only storage storage.url=s3://models/runs
        agggen doctor --json | jq '.findings[] | select(.level == "error")'
    """
    columns = ["area", "level", "subject", "message", "remedy"]
    rows = [
        [area, finding.level, finding.subject, *map(_without_secrets, (finding.message, finding.remedy or ""))]
        for area, findings in examine(settings_of(preset, overrides or (), str(runs)), only or ()).items()
        for finding in findings
    ]
    counts = Counter(level for _, level, *_ in rows)
    if as_json:
        findings = [dict(zip(columns, row, strict=True)) for row in rows]
        console.echo(json.dumps({"findings": findings}, indent=2, ensure_ascii=False))
    else:
        if console.console().is_terminal:  # prints the remedy below the message
            columns, rows = columns[:-1], [[*row[:-2], "\n".join(filter(None, row[-2:]))] for row in rows]
        console.print_table(columns, rows)
        console.note(", ".join(f"{level}: {counts[level]}" for level in ("error", "warning", "note")))
    raise typer.Exit(11 if counts["error"] else 0)


def _without_secrets(text: str) -> str:
    """Masks credentials in addresses, and the values of secret environment variables."""
    from agggen_platform.tracking.origin import is_secret, masked

    text = masked(text)
    # PWD is the working directory, though its name looks like that of a password. Shorter values may be ordinary words.
    secrets = {value for name, value in os.environ.items() if name != "PWD" and is_secret(name) and len(value) >= 6}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
