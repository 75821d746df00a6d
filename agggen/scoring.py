"""Evaluates a model on records, and scores the texts of any system."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agggen.api import Model, load_model
from agggen.datasets import Dataset, load_dataset, load_records
from agggen.evaluation import Score
from agggen.evaluation.protocols import measure
from agggen.evaluation.values import check_values
from agggen.records import Record
from agggen.report import Report
from agggen.report.evaluate import Task
from agggen.report.evaluate import evaluate as evaluate_task
from agggen.report.sections import TextMetrics, protocol_of
from agggen.training.progress import progress_printer


def evaluate(
    model: Model | Path | str,
    data: Any,
    split: str = "test",
    *,
    limit: int = 0,
    protocol: str | None = None,
    metrics: Sequence[str] | None = None,
    run_archives: bool = False,
    **settings: Any,
) -> Report:
    """Generates texts for records and scores texts, plans and alignments.

    Args:
        data: records with references, or a dataset with the split `split`.
        limit: number of records to evaluate, from the beginning of the split; 0: all.
        protocol: one of `agggen.evaluation.protocols`. [default: that of the corpus's published scores]
        metrics: names of metrics of the protocol. [default: all]
        run_archives: see `Bundle.fact_segmenter`.
        settings: inference settings, see `Model.settings`.

    Raises CorpusError if no record has a reference text, ConfigError if a metric cannot be computed on this machine.
    """
    loaded_model = model if isinstance(model, Model) else load_model(model)
    is_dataset = isinstance(data, Dataset | str | Path)
    dataset = load_dataset(data) if is_dataset else Dataset("data", {split: load_records(data)})
    records = [record for record in dataset.split(split) if record.references]
    task = Task(
        bundle=loaded_model.bundle,
        path=loaded_model.path,
        address=str(loaded_model.path),
        corpus=dataset.name,
        split=split,
        records=records[: limit or None],
        split_size=len(records),
        config=loaded_model.settings(**settings),
        metrics=TextMetrics(protocol or protocol_of(dataset.name), None if metrics is None else tuple(metrics)),
        command="agggen.evaluate",
        segmenter=loaded_model.bundle.fact_segmenter(run_archives),
        device=str(loaded_model.generator.device),
    )
    return evaluate_task(task, progress_printer(len(task.records)), note=lambda message: None)


def _reference_texts(reference: Any) -> list[str]:
    """The texts of an entry of `score`'s `references`: a record, a text or a list of texts."""
    if isinstance(reference, Record):
        return [record_reference.text for record_reference in reference.references]
    return [reference] if isinstance(reference, str) else list(reference)


class Scores(dict[str, Score]):
    """Scores by name; printed with their signatures, one per line."""

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {score}" for name, score in self.items())


def score(
    texts: Sequence[str], references: Any, protocol: str = "plain", metrics: Sequence[str] | None = None
) -> Scores:
    """Scores the texts of any system.

    Args:
        references: the reference or references of each text; or records with references (any source of
            `load_records`), which adds scores for the records' values.
        protocol, metrics: see `agggen.evaluation.protocols`.

    Raises AggGenError if the numbers of texts and references differ, or a text has no reference.
    """
    is_table = isinstance(references, str | Path) or hasattr(references, "columns")
    entries = load_records(references) if is_table else list(references)
    if any(isinstance(entry, Mapping) for entry in entries):
        entries = load_records(entries)
    records = [entry for entry in entries if isinstance(entry, Record)]
    statistics = dict(measure(protocol, texts, list(map(_reference_texts, entries)), metrics))
    if records and len(records) == len(entries):
        statistics |= check_values(records, texts).statistics
    return Scores({name: metric.corpus() for name, metric in statistics.items()})
