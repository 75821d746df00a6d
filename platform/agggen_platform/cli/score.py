"""`agggen score`: scores the texts of any system against references."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from agggen_platform.cli import console
from agggen_platform.cli.options import MetricNames, split_names
from agggen_platform.cli.records import output_lines, valid_records, write_line

if TYPE_CHECKING:
    from agggen.evaluation.systems import MeasuredMetric


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
    json: Annotated[
        str | None, Option(metavar="FILE", help="Also write the scores as JSON, at full precision.")
    ] = None,
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
    from agggen.errors import CorpusError
    from agggen.evaluation.files import read_texts
    from agggen.evaluation.systems import measure_system, metrics_of, non_slot_predicate

    check_output(json, [records, hypotheses, *([against] if against else [])])
    names = None if metrics is None else split_names(metrics)
    metrics_of(protocol, names, [])  # raises errors before the files are read
    input_records = list(valid_records(records))
    if unreferenced := [record.id for record in input_records if not record.references]:
        raise CorpusError(f"{records}, record {unreferenced[0]!r}: there is no reference text to score against")
    chosen_metrics = metrics_of(protocol, names, input_records)
    if names is None and protocol == "e2e" and (other_predicate := non_slot_predicate(input_records)):
        console.note(f"The slot error rate is left out: {other_predicate} is not a slot of E2E")
    ids = [record.id for record in input_records]
    texts = _note_empty_texts(hypotheses, read_texts(hypotheses, ids, records))
    other_texts = _note_empty_texts(against, read_texts(against, ids, records)) if against else None
    measured_scores = measure_system(protocol, chosen_metrics, input_records, texts, other_texts, tokenised, confidence)
    entries = {name: _score_entry(score) for name, score in measured_scores.items()}
    if json is not None:
        with output_lines(json) as file:
            write_line(file, entries)
    if json != "-":
        _print_scores(entries)


def check_output(path: str | None, inputs: Sequence[Path]) -> None:
    """Raises ConfigError if the folder of the output file `path` does not exist, or if `path` is an input."""
    from agggen.errors import ConfigError

    if path is None or path == "-":
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise ConfigError(f"cannot write {path}: there is no folder {target.parent}")
    if any(target.resolve() == source.resolve() for source in inputs):
        raise ConfigError(f"--json {path} would overwrite an input; give another file")


def _print_scores(entries: Mapping[str, dict[str, Any]]) -> None:
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
        entry["against"] = {
            "score": comparison.second,
            "difference": comparison.difference,
            "low": comparison.low,
            "high": comparison.high,
            "p_value": comparison.p_value,
            "signature": comparison.signature,
        }
    return entry


def _note_empty_texts(path: Path, texts: list[str]) -> list[str]:
    if empty := [number for number, text in enumerate(texts, start=1) if not text.strip()]:
        console.note(
            f"{path}: {len(empty):,} of {len(texts):,} texts are empty (first: text {empty[0]:,}); they are scored, too"
        )
    return texts
