"""A system's texts measured by a protocol and by what they say of values, with intervals and beside another system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agggen.errors import AggGenError
from agggen.evaluation.protocols import PROTOCOLS, known_metrics, measure
from agggen.evaluation.segments import SegmentStatistics, rate_statistics
from agggen.evaluation.significance import Comparison, Interval, confidence_interval, paired_bootstrap
from agggen.evaluation.values import VALUES, read_values
from agggen.records import Record
from agggen.verification.e2e import Reading, slot_error_rate, slot_errors, slot_of

SER = "ser"
"""The slot error rate, which protocol e2e has where all predicates are E2E's."""


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """One metric of one system; what was not asked for is None."""

    statistics: SegmentStatistics
    interval: Interval | None = None
    comparison: Comparison | None = None
    """With the other system, which is `second`."""


def metrics_of(protocol: str, wanted: Sequence[str] | None, records: Sequence[Record]) -> tuple[str, ...]:
    """The metrics to compute: those that are wanted, or all that the protocol has for such records.

    Raises:
        AggGenError: the protocol or a metric is unknown, or none is wanted.
    """
    general = (*known_metrics(protocol, None), *VALUES)
    known = (*general, SER) if protocol == "e2e" else general
    if wanted is None:
        return known if SER not in known or foreign_predicate(records) is None else general
    if not wanted:
        raise AggGenError(f"no metric is named; protocol {protocol} has {', '.join(known)}")
    for name in wanted:
        if name not in known:
            raise AggGenError(f"protocol {protocol} has no metric {name!r}; it has {', '.join(known)}")
    return tuple(dict.fromkeys(wanted))


def foreign_predicate(records: Sequence[Record]) -> str | None:
    """The first predicate that is no slot of E2E and the record that has it, in words; None where all are slots."""
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
) -> dict[str, Measured]:
    """Measures one text a record; the slot error rate comes as ``ser.add``, ``ser.miss``, ``ser.wrong``, ``ser.ser``.

    Values are checked without a lexicon, for no model is known that has one.

    Args:
        metrics: of `metrics_of`.
        against: another system's texts, for a paired comparison.
        tokenised: see `agggen.evaluation.protocols.measure`.
        confidence: bootstrap an interval for each score.

    Raises:
        AggGenError: not one text a record; a record without references; a metric lacks what it runs on.
        RecordError: slot errors are wanted of a record with other predicates than E2E's.
    """
    ours = _statistics(protocol, metrics, records, texts, tokenised)
    theirs: Mapping[str, SegmentStatistics] = {}
    if against is not None:
        theirs = _statistics(protocol, metrics, records, against, tokenised)
    return {
        name: Measured(
            found,
            confidence_interval(found) if confidence else None,
            paired_bootstrap(found, theirs[name]) if theirs else None,
        )
        for name, found in ours.items()
    }


def _statistics(
    protocol: str, metrics: Sequence[str], records: Sequence[Record], texts: Sequence[str], tokenised: bool
) -> dict[str, SegmentStatistics]:
    if len(records) != len(texts):
        raise AggGenError(f"{len(records)} records but {len(texts)} texts; there must be one text a record")
    worded = [name for name in metrics if name in PROTOCOLS[protocol]]
    found: dict[str, SegmentStatistics] = {}
    if worded:
        references = [[reference.text for reference in record.references] for record in records]
        found = measure(protocol, texts, references, worded, tokenised)
    if any(name in VALUES for name in metrics):
        values = read_values(records, texts).statistics
        found |= {name: values[name] for name in metrics if name in VALUES}
    return found | slot_statistics(records, texts) if SER in metrics else found


def slot_statistics(
    records: Sequence[Record], texts: Sequence[str], reading: Reading = "published"
) -> dict[str, SegmentStatistics]:
    """`slot_error_rate` by text: what intervals and comparisons need.

    Raises:
        AggGenError: not one text a record, or no records.
        RecordError: a record has a predicate that is no slot of E2E.
    """
    rates = slot_error_rate(records, texts, reading)
    errors = [slot_errors(record, text, reading) for record, text in zip(records, texts, strict=True)]
    slots = [found.slots for found in errors]
    counts = {
        "ser.add": [len(found.added) for found in errors],
        "ser.miss": [len(found.missed) for found in errors],
        "ser.wrong": [len(found.wrong) for found in errors],
        "ser.ser": [len(found.all) for found in errors],
    }
    return {name: rate_statistics(counts[name], slots, rate.signature) for name, rate in rates.items()}
