"""A model evaluated on records, and the texts of any system scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agggen.api import Model, load_model
from agggen.datasets import Dataset, load_dataset, load_records
from agggen.evaluation.protocols import measure
from agggen.evaluation.values import read_values
from agggen.records import Record
from agggen.report import Report
from agggen.report.evaluate import Task
from agggen.report.evaluate import evaluate as evaluate_task
from agggen.report.sections import TextMetrics, protocol_of
from agggen.scores import Score
from agggen.training.progress import writing_lines


def evaluate(
    model: Model | Path | str,
    data: Any,
    split: str = "test",
    *,
    limit: int = 0,
    protocol: str | None = None,
    metrics: Sequence[str] | None = None,
    meteor: bool = True,
    run_archives: bool = False,
    **settings: Any,
) -> Report:
    """Writes about records and scores the texts, plans and alignments; the result prints itself.

    Args:
        model: or its address.
        data: records with references, or a dataset of which `split` is taken.
        limit: only the first so many records (0: all).
        protocol: whose scorer, as `agggen.evaluation.protocols` names them. [default: as the corpus is scored in print]
        metrics: some of the protocol's.
        meteor: compute METEOR where the protocol has it; needs Java.
        run_archives: see `Bundle.fact_segmenter`.
        settings: of inference, see `Model.settings`.

    Raises:
        CorpusError: no record has a reference text.
        ConfigError: a setting, protocol or metric that does not exist or cannot be computed here.
    """
    own = model if isinstance(model, Model) else load_model(model)
    of_dataset = isinstance(data, Dataset | str | Path)
    dataset = load_dataset(data) if of_dataset else Dataset("data", {split: load_records(data)})
    records = [record for record in dataset.split(split) if record.references]
    task = Task(
        bundle=own.bundle,
        path=own.path,
        address=str(own.path),
        corpus=dataset.name,
        split=split,
        records=records[: limit or None],
        whole=len(records),
        config=own.settings(**settings),
        wanted=TextMetrics(protocol or protocol_of(dataset.name), None if metrics is None else tuple(metrics), meteor),
        command="agggen.evaluate",
        cut=own.bundle.fact_segmenter(run_archives),
        device=str(own.generator.device),
    )
    notes: list[str] = []
    return evaluate_task(task, writing_lines(len(task.records)), notes.append)


def _references(given: Any) -> list[str]:
    if isinstance(given, Record):
        return [reference.text for reference in given.references]
    return [given] if isinstance(given, str) else list(given)


class Scores(dict[str, Score]):
    """Scores by name; shown one a line, with how each was computed."""

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {score}" for name, score in self.items())


def score(
    texts: Sequence[str], references: Any, protocol: str = "plain", metrics: Sequence[str] | None = None
) -> Scores:
    """Scores any system's texts, one a record.

    Args:
        references: for each text its reference or references; or records with references, whose values are then looked
            for in the texts too.
        protocol, metrics: see `agggen.evaluation.protocols`.

    Raises:
        AggGenError: not one text a record, a record without a reference, or an unknown protocol or metric.
    """
    given = list(references) if not isinstance(references, str | Path) else load_records(references)
    records = [one for one in given if isinstance(one, Record)]
    groups = [_references(one) for one in given]
    statistics = dict(measure(protocol, texts, groups, metrics))
    if records and len(records) == len(given):
        statistics |= read_values(records, texts).statistics
    return Scores({name: found.corpus() for name, found in statistics.items()})
