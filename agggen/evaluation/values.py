"""What texts say of their records' values, as measures: by the strict check and, beside it, by the lenient one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agggen.evaluation.segments import SegmentStatistics, rate_statistics
from agggen.records import Record
from agggen.verification.check import Checker, whole_values
from agggen.verification.lenient import THRESHOLD, Mentions, mentioned_values
from agggen.verification.results import TextCheck

VALUES: Mapping[str, str] = {
    "values_whole": "percent of the triples whose values the texts say whole (strict)",
    "values_lenient": f"percent of the triples whose values the texts mention (lenient: {100 * THRESHOLD:g} % of the "
    "words)",
    "texts_without_faults": "percent of the texts without a fault (strict)",
    "invented": "invented values per 100 texts: numbers, names and value words that no triple has (strict)",
}
"""The measures, and what each one counts."""

FULFILLED = "share of texts that have no fault and whose facts each say the values of their group whole (strict)"
"""The signature of ``fulfilled``."""


@dataclass(frozen=True, eq=False, slots=True)
class ReadValues:
    """Both checks of each text, and the measures."""

    checks: Sequence[TextCheck]
    """Strict."""
    mentions: Sequence[Mentions]
    """Lenient."""
    statistics: Mapping[str, SegmentStatistics]
    """By the names of `VALUES`."""


def read_values(records: Sequence[Record], texts: Sequence[str], checker: Checker | None = None) -> ReadValues:
    """Checks one text a record.

    Args:
        checker: a model's own; by default one without a lexicon, which takes values by rule alone.

    Raises:
        AggGenError: not one text a record, or no records.
    """
    whole, checks = whole_values(checker or Checker(), records, texts)
    lenient, mentions = mentioned_values(records, texts)
    _, lexicon, *_ = whole.signature.split("|")
    triples = [len(record.triples) for record in records]
    one = [1] * len(records)
    missing = [len(check.missing) for check in checks]
    unmentioned = [len(found.missing) for found in mentions]
    said = [total - absent for total, absent in zip(triples, missing, strict=True)]
    mentioned = [total - absent for total, absent in zip(triples, unmentioned, strict=True)]
    faultless = [not check.faults for check in checks]
    invented = [len(check.invented) for check in checks]
    texts_of = f"{lexicon}|texts:{len(texts)}"
    statistics = {
        "values_whole": rate_statistics(said, triples, whole.signature),
        "values_lenient": rate_statistics(mentioned, triples, lenient.signature),
        "texts_without_faults": rate_statistics(faultless, one, f"texts without faults (strict)|{texts_of}"),
        "invented": rate_statistics(invented, one, f"invented values per 100 texts (strict)|{texts_of}"),
    }
    return ReadValues(checks, mentions, statistics)
