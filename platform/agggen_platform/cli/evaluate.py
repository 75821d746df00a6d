"""`agggen evaluate`, `reproduce` and `score`: a report on a bundle, the paper's tables, scores of any texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from agggen.errors import ConfigError, CorpusError
from agggen_platform.cli import console, own_data
from agggen_platform.cli import records as cli_records
from agggen_platform.cli.options import MetricNames, Overrides, check_local, split_names, warn_if_temporary

if TYPE_CHECKING:
    from agggen.evaluation.systems import MeasuredMetric
    from agggen.report import Report


@own_data.with_column_options()
def evaluate(
    bundle: cli_records.BundleAddress,
    corpus: Annotated[str, Option(help="A corpus of the catalogue, a file or a folder.")],
    split: Annotated[str, Option(help="The split to evaluate; all: all records of a file.")] = "dev",
    out: Annotated[
        str | None,
        Option("--out", "-o", metavar="DIR", help="The folder or s3://. [default: evaluation/... beside BUNDLE, or .]"),
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
    run_archives: cli_records.RunArchives = False,
    device: cli_records.Device = "cpu",
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
    parent = Path() if cli_records.is_remote(bundle) else path.resolve().parent
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


def score(
    records: Annotated[Path, Option(metavar="FILE", help="Records with references: .jsonl, .csv or .parquet.")],
    hypotheses: Annotated[
        Path, Option(metavar="FILE", help="One text per line in the records' order, or .jsonl with id and text.")
    ],
    protocol: Annotated[
        str,
        Option(metavar="plain|e2e|webnlg-2017", help="The scorer; scores of different protocols are not comparable."),
    ] = "plain",
    metrics: MetricNames = None,
    tokenised: Annotated[bool, Option("--tokenised", help="Texts and references are already tokenised.")] = False,
    against: Annotated[Path | None, Option(metavar="FILE", help="Another system's texts: a paired comparison.")] = None,
    confidence: Annotated[bool, Option("--confidence", help="Also compute 95 % bootstrap intervals.")] = False,
    json: Annotated[str | None, Option(metavar="FILE", help="Also write the unrounded scores as JSON.")] = None,
) -> None:
    """Score any system's texts against references.

    The protocols use the scorers of published results. plain: BLEU, chrF and TER of sacreBLEU. e2e: bleu, nist, meteor,
    rouge_l, cider and, for records with E2E's predicates, ser (slot error rate). webnlg-2017: bleu, meteor and ter. All
    have values_whole (strict: triples whose value is stated in full), values_lenient (triples with at least 60 % of the
    value's words in the text), texts_without_faults (strict) and invented (hallucinated values per 100 texts). Scores
    are percentages, except nist, cider and invented. METEOR, ROUGE-L and CIDEr need Java; --metrics can exclude them.

    \b
        agggen score --records records.jsonl --hypotheses REPORT/records.jsonl --metrics bleu,values_whole,invented
        agggen score --records records.jsonl --hypotheses texts.txt --protocol e2e
        agggen score --records records.jsonl --hypotheses texts.txt --against other.txt --metrics bleu,ter
    """
    from agggen.evaluation.files import read_texts
    from agggen.evaluation.systems import measure_system, metrics_of, non_slot_predicate

    check_output(json, [records, hypotheses, *([against] if against else [])])
    names = None if metrics is None else split_names(metrics)
    metrics_of(protocol, names, [])  # raises errors before the files are read
    input_records = list(cli_records.valid_records(records))
    if unreferenced := [record.id for record in input_records if not record.references]:
        raise CorpusError(f"{records}, record {unreferenced[0]!r}: no reference text to score against")
    chosen_metrics = metrics_of(protocol, names, input_records)
    if names is None and protocol == "e2e" and (other_predicate := non_slot_predicate(input_records)):
        console.note(f"The slot error rate is left out: {other_predicate} is not a slot of E2E")
    ids = [record.id for record in input_records]
    texts = _note_empty_texts(hypotheses, read_texts(hypotheses, ids, records))
    other_texts = _note_empty_texts(against, read_texts(against, ids, records)) if against else None
    measured_scores = measure_system(protocol, chosen_metrics, input_records, texts, other_texts, tokenised, confidence)
    entries = {name: _score_entry(score) for name, score in measured_scores.items()}
    if json is not None:
        with cli_records.output_lines(json) as file:
            cli_records.write_line(file, entries)
    if json != "-":
        _print_entries(entries)


def check_output(path: str | None, inputs: Sequence[Path]) -> None:
    """Raises ConfigError if the folder of the output file `path` does not exist, or if `path` is an input."""
    if path is None or path == "-":
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise ConfigError(f"cannot write {path}: no folder {target.parent}")
    if any(target.resolve() == source.resolve() for source in inputs):
        raise ConfigError(f"--json {path} would overwrite an input; give another file")


def _print_entries(entries: Mapping[str, dict[str, Any]]) -> None:
    rows = []
    for name, entry in entries.items():
        numbers = {"value": entry["score"]} | {key: entry[key] for key in ("low", "high") if key in entry}
        signatures = {"signature": entry["signature"]}
        if comparison := entry.get("against"):
            numbers |= {"against": comparison["score"], "difference": comparison["difference"]}
            numbers |= {"difference low": comparison["low"], "difference high": comparison["high"]}
            numbers["p"] = comparison["p_value"]
            signatures["test"] = comparison["signature"]
        cells = {key: "undefined" if number is None else f"{number:.4f}" for key, number in numbers.items()}
        rows.append({"score": name} | cells | signatures)
    console.print_table(list(rows[0]), [list(row.values()) for row in rows])


def _score_entry(measured: MeasuredMetric) -> dict[str, Any]:
    """A score as JSON; an undefined score (NaN) becomes null."""
    score = measured.statistics.corpus()
    entry: dict[str, Any] = {"score": None if math.isnan(score.value) else score.value, "signature": score.signature}
    if interval := measured.interval:
        entry |= {"low": interval.low, "high": interval.high, "signature": interval.signature}
    if comparison := measured.comparison:
        names = ("difference", "low", "high", "p_value", "signature")
        entry["against"] = {"score": comparison.second} | {name: getattr(comparison, name) for name in names}
    return entry


def _note_empty_texts(path: Path, texts: list[str]) -> list[str]:
    if empty := [number for number, text in enumerate(texts, start=1) if not text.strip()]:
        counts = f"{len(empty):,} of {len(texts):,} texts are empty (first: text {empty[0]:,})"
        console.note(f"{path}: {counts}; they are scored, too")
    return texts


# --- agggen reproduce ------------------------------------------------------------------------------------------------


def reproduce(
    table: Annotated[str | None, Argument(metavar="TABLE", help="A table's name. [default: list all tables]")] = None,
    overrides: Overrides = None,
    runs: Annotated[
        Path | None,
        Option(metavar="DIR", callback=check_local, help="Folder of runs and records. [default: the shipped records]"),
    ] = None,
    seeds: Annotated[str | None, Option(metavar="SEED,...", help="Create missing records of these seeds.")] = None,
    fresh: Annotated[bool, Option(help="Evaluate again and replace the records; trained models are kept.")] = False,
) -> None:
    """Show the paper's tables with agggen's scores.

    The scores are in run records that ship with agggen. With --runs and --seeds, new records are created: a Transformer
    and AggGen are trained for each seed, and each system is evaluated once on the table's test split. The same command
    resumes after a kill, and repeats no finished work.

    \b
        agggen reproduce
        agggen reproduce webnlg
        agggen reproduce webnlg --runs runs --seeds 1,2,3 training.threads=1
    """
    from agggen_platform.reproduction import work
    from agggen_platform.reproduction.records import compare, notes_of, records_of, rows_of
    from agggen_platform.reproduction.tables import find_table

    if table is None:
        _list_tables(runs)
        return
    selected_table = find_table(table)
    if seeds is not None and runs is not None:
        work.reproduce(selected_table, runs, _parse_seeds(seeds), overrides or (), fresh, console.note)
    elif seeds is not None:
        raise ConfigError("--seeds needs --runs DIR, the folder for runs and records")
    elif fresh or overrides:
        raise ConfigError("--fresh and settings need --runs DIR and --seeds SEED,..., which train and evaluate")
    comparison = compare(selected_table, records_of(selected_table, runs))
    header, *rows = rows_of(comparison)
    console.print_table(header, rows, selected_table.title)
    for note in notes_of(comparison, _records_location(runs)):
        console.echo(note)


def _list_tables(runs: Path | None) -> None:
    from agggen_platform.reproduction.records import records_of
    from agggen_platform.reproduction.tables import TABLES

    rows = []
    for table in TABLES.values():
        seeds: dict[str, list[str]] = {}
        for record in records_of(table, runs):
            seeds.setdefault(record.system, []).append(str(record.seed))
        records = "; ".join(f"{system} {', '.join(numbers)}" for system, numbers in seeds.items()) or "none"
        corpora = ", ".join(dict.fromkeys((table.recipe.corpus, table.corpus)))
        requirements = f"corpora {corpora}; a Transformer and AggGen for each seed, trained by {table.recipe.preset}"
        rows.append((table.name, table.title, requirements, records))
    console.print_table(("table", "title", "requirements", "records"), rows)
    console.note(f"Records {_records_location(runs)}; agggen reproduce TABLE shows a table")


def _records_location(runs: Path | None) -> str:
    return "that ship with agggen" if runs is None else f"in {runs / 'records'}"


def _parse_seeds(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len({int(part) for part in parts}) < len(parts):
        raise ConfigError(f"--seeds takes different whole numbers, such as 1,2,3, not {text!r}")
    return [int(part) for part in parts]
