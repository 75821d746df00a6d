"""Measures of faithfulness from the strict and the lenient check of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agggen.evaluation.segments import SegmentStatistics, rate_statistics
from agggen.records import Record
from agggen.verification.check import Checker, whole_values
from agggen.verification.lenient import THRESHOLD, Mentions, mentioned_values
from agggen.verification.results import TextCheck

VALUES: Mapping[str, str] = {
    "values_whole": "percentage of triples whose value the text expresses whole (strict)",
    "values_lenient": f"percentage of triples whose value the text mentions (lenient: {100 * THRESHOLD:g} % of its "
    "words)",
    "texts_without_faults": "percentage of texts without a fault (strict)",
    "invented": "hallucinated numbers, names and value words, which are in no triple, per 100 texts (strict)",
}
"""The measures and their definitions."""

FULFILLED = "share of texts that have no fault and whose facts each say the values of their group whole (strict)"
"""The signature of ``fulfilled``."""


@dataclass(frozen=True, eq=False, slots=True)
class ReadValues:
    """The results of both checks, and the measures."""

    checks: Sequence[TextCheck]
    """The strict check of each text."""
    mentions: Sequence[Mentions]
    """The lenient check of each text."""
    statistics: Mapping[str, SegmentStatistics]
    """By the names of `VALUES`."""


def read_values(records: Sequence[Record], texts: Sequence[str], checker: Checker | None = None) -> ReadValues:
    """Applies both checks to the text of each record.

    Args:
        checker: the model's; by default one without a lexicon, which matches values by rule only.

    Raises:
        AggGenError: the numbers of records and texts differ, or are zero.
    """
    strict, checks = whole_values(checker or Checker(), records, texts)
    lenient, mentions = mentioned_values(records, texts)
    _, lexicon, *_ = strict.signature.split("|")
    triples = [len(record.triples) for record in records]
    ones = [1] * len(records)
    missing = [len(check.missing) for check in checks]
    unmentioned = [len(check.missing) for check in mentions]
    complete = [total - absent for total, absent in zip(triples, missing, strict=True)]
    mentioned = [total - absent for total, absent in zip(triples, unmentioned, strict=True)]
    faultless = [not check.faults for check in checks]
    invented = [len(check.invented) for check in checks]
    suffix = f"{lexicon}|texts:{len(texts)}"
    statistics = {
        "values_whole": rate_statistics(complete, triples, strict.signature),
        "values_lenient": rate_statistics(mentioned, triples, lenient.signature),
        "texts_without_faults": rate_statistics(faultless, ones, f"texts without faults (strict)|{suffix}"),
        "invented": rate_statistics(invented, ones, f"invented values per 100 texts (strict)|{suffix}"),
    }
    return ReadValues(checks, mentions, statistics)
