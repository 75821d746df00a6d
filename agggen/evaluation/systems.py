"""Scores texts of any system by a protocol and by `agggen.evaluation.values`, with intervals and comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

from agggen.evaluation.protocols import PROTOCOLS, check_metrics, measure, requested_metrics
from agggen.evaluation.segments import (
    Comparison,
    Interval,
    SegmentStatistics,
    confidence_interval,
    paired_bootstrap,
    percentage_statistics,
)
from agggen.evaluation.values import VALUE_METRICS, check_values
from agggen.records import Record
from agggen.verification.e2e import VERSION, Reading, slot_errors, slot_of
from agggen.verification.results import check_paired

SER = "ser"  # the slot error rate, a metric of protocol e2e if all predicates are slots of E2E


@dataclass(frozen=True, eq=False, slots=True)
class MeasuredMetric:
    """A metric of a system; interval and comparison are None unless requested."""

    statistics: SegmentStatistics
    interval: Interval | None = None
    comparison: Comparison | None = None  # with another system, which is its `second`


def metrics_of(protocol: str, requested: Sequence[str] | None, records: Sequence[Record]) -> tuple[str, ...]:
    """The requested metrics without duplicates; by default all metrics of the protocol that the records allow."""
    without_slots = (*requested_metrics(protocol, None), *VALUE_METRICS)
    all_metrics = (*without_slots, SER) if protocol == "e2e" else without_slots
    if requested is None:
        return all_metrics if non_slot_predicate(records) is None else without_slots
    check_metrics(protocol, requested, all_metrics)
    return tuple(dict.fromkeys(requested))


def non_slot_predicate(records: Sequence[Record]) -> str | None:
    """A description of the first predicate that is not a slot of E2E, for error messages; None if all are slots."""
    for record in records:
        for triple in record.triples:
            if slot_of(triple.predicate) is None:
                return f"{triple.predicate!r} of record {record.id!r}"
    return None


def measure_system(
    protocol: str,
    metrics: Sequence[str],
    records: Sequence[Record],
    texts: Sequence[str],
    against: Sequence[str] | None = None,
    tokenised: bool = False,
    confidence: bool = False,
) -> dict[str, MeasuredMetric]:
    """Scores the text of each record by `metrics` (the result of `metrics_of`); for errors, see `measure`.

    `against` are another system's texts, for a paired comparison. Values are checked without a lexicon, since only
    models of agggen have one. Raises RecordError if slot errors are requested and a predicate is not a slot of E2E.
    """
    other_statistics = None if against is None else _statistics(protocol, metrics, records, against, tokenised)
    return {
        name: MeasuredMetric(
            statistics,
            confidence_interval(statistics) if confidence else None,
            paired_bootstrap(statistics, other_statistics[name]) if other_statistics else None,
        )
        for name, statistics in _statistics(protocol, metrics, records, texts, tokenised).items()
    }


def _statistics(
    protocol: str, metrics: Sequence[str], records: Sequence[Record], texts: Sequence[str], tokenised: bool
) -> dict[str, SegmentStatistics]:
    check_paired(records, texts)
    text_metrics = [name for name in metrics if name in PROTOCOLS[protocol]]
    statistics: dict[str, SegmentStatistics] = {}
    if text_metrics:
        references = [[reference.text for reference in record.references] for record in records]
        statistics = measure(protocol, texts, references, text_metrics, tokenised)
    if any(name in VALUE_METRICS for name in metrics):
        values = check_values(records, texts).statistics
        statistics |= {name: values[name] for name in metrics if name in VALUE_METRICS}
    return statistics | (slot_statistics(records, texts) if SER in metrics else {})


def slot_statistics(
    records: Sequence[Record], texts: Sequence[str], reading: Reading = "published"
) -> dict[str, SegmentStatistics]:
    """The slot error rate ``ser.ser``, and its parts ``ser.add``, ``ser.miss`` and ``ser.wrong``, in percent of values.

    Raises RecordError if a predicate is not a slot of E2E.
    """
    check_paired(records, texts)
    errors = [slot_errors(record, text, reading) for record, text in zip(records, texts, strict=True)]
    slots = [text_errors.slots for text_errors in errors]
    signature = f"patterns:{VERSION}|reading:{reading}|slots:{sum(slots)}|texts:{len(texts)}"
    parts = {"ser.add": "added", "ser.miss": "missed", "ser.wrong": "wrong", "ser.ser": "all"}
    return {
        name: percentage_statistics([len(getattr(text, part)) for text in errors], slots, f"{name}|{signature}")
        for name, part in parts.items()
    }
