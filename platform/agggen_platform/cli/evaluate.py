"""`agggen evaluate`: evaluates a bundle on a split and writes a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from agggen_platform.cli import console, own_data
from agggen_platform.cli.options import MetricNames, Overrides, check_local, split_names, warn_if_temporary
from agggen_platform.cli.records import BundleAddress, Device, RunArchives, is_remote

if TYPE_CHECKING:
    from agggen.report import Report


@own_data.with_column_options()
def evaluate(
    bundle: BundleAddress,
    corpus: Annotated[str, Option(help="A corpus of the catalogue, a file or a folder.")],
    split: Annotated[str, Option(help="The split to evaluate; all: all records of a file.")] = "dev",
    out: Annotated[
        str | None,
        Option(
            "--out", "-o", metavar="DIR", help="Report folder or s3://. [default: evaluation/... beside BUNDLE, or .]"
        ),
    ] = None,
    limit: Annotated[int, Option(min=0, help="Maximum number of records, from the first; 0: all.")] = 0,
    protocol: Annotated[
        str | None,
        Option(metavar="plain|e2e|webnlg-2017", help="The scorer. [default: as in published results on the corpus]"),
    ] = None,
    metrics: MetricNames = None,
    runs: Annotated[
        Path | None,
        Option(metavar="DIR", callback=check_local, help="The folder of the run log. [default: the bundle's]"),
    ] = None,
    run_archives: RunArchives = False,
    device: Device = "cpu",
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
    division_seed: own_data.DivisionSeed = 1,
    overrides: Overrides = None,
) -> None:
    """Score texts, plans and alignments on a split.

    Generates the texts, prints and logs the scores, and writes a report: a folder with report.html, report.json and
    records.jsonl. An evaluation never overwrites the report of another one.

    \b
        agggen evaluate BUNDLE --corpus webnlg --split dev
        agggen evaluate BUNDLE --corpus films.csv --subject title --text plot --split test
        agggen evaluate BUNDLE --corpus prepared/elements -o report --limit 100 ablation=no-aggregation seed=2
        agggen evaluate models:/agggen@candidate --corpus elements -o s3://models/reports/candidate
    """
    from agggen.errors import ConfigError
    from agggen.report import check_target, write_report
    from agggen.training.data import bundle_folder
    from agggen.training.progress import progress_printer
    from agggen_platform import evaluation

    if out == "-":
        raise ConfigError("--out must be a folder for the report, not -; the scores go to standard output anyway")
    path = bundle_folder(bundle)
    task = evaluation.task_of(
        bundle,
        path,
        corpus,
        split,
        overrides or (),
        limit=limit,
        protocol=protocol,
        metrics=None if metrics is None else split_names(metrics),
        run_archives=run_archives,
        device=device,
        load_options={"seed": division_seed, **columns},
        note=console.note,
    )
    parent = Path() if is_remote(bundle) else path.resolve().parent
    address = out or str(parent / "evaluation" / task.name)
    warn_if_temporary(address, "--out")
    with evaluation.report_folder(address) as folder:
        check_target(folder, task.identity)
        report = evaluation.evaluate(task, progress_printer(len(task.records), console.note), console.note)
        write_report(folder, report)
        _print_scores(report)
        run_id = evaluation.log_report(task, report, folder, runs or evaluation.runs_folder_of(path), console.note)
    console.note(f"Report: {address}/report.html{f' and, in MLflow, runs:/{run_id}' if run_id else ''}")


def _print_scores(report: Report) -> None:
    from agggen.report.content import format_cell

    rows = [
        (f"{section.key}/{name}", *map(format_cell, values))
        for section in report.sections
        for name, *values in (row.values() for row in section.table().rows)
    ]
    console.print_table(("score", "value", "95 % interval", "signature"), rows)
