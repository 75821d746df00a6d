"""Metrics of faithfulness from the strict and the lenient check of values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agggen.evaluation.segments import SegmentStatistics, percentage_statistics
from agggen.records import Record
from agggen.verification.check import Checker
from agggen.verification.lenient import THRESHOLD, Mentions, find_mentions
from agggen.verification.lexicon import Lexicon
from agggen.verification.results import TextCheck, check_paired
from agggen.verification.values import MATCH_KINDS

VALUE_METRICS: Mapping[str, str] = {  # the definition of each metric
    "values_whole": "percentage of triples whose value the text expresses completely (strict)",
    "values_lenient": f"percentage of triples whose value the text mentions (lenient: {100 * THRESHOLD:g} % of its "
    "words)",
    "texts_without_faults": "percentage of texts without a fault (strict)",
    "invented": "hallucinated numbers, names and value words, which are in no triple, per 100 texts (strict)",
}
FULFILLED_SIGNATURE = (
    "share of texts that have no fault and whose facts each say the values of their group whole (strict)"
)


@dataclass(frozen=True, eq=False, slots=True)
class CheckedValues:
    """The strict and the lenient checks of texts, and the metrics that are computed from them."""

    checks: Sequence[TextCheck]  # the strict check of each text
    mentions: Sequence[Mentions]  # the lenient check of each text
    statistics: Mapping[str, SegmentStatistics]  # by metric of `VALUE_METRICS`


def check_values(records: Sequence[Record], texts: Sequence[str], checker: Checker | None = None) -> CheckedValues:
    """Checks the text of each record by the strict check (by default without a lexicon) and the lenient check.

    The signature of ``values_whole`` has, after ``said``, the number of values by kind of match.
    """
    check_paired(records, texts)
    checker = checker or Checker()
    checks, mentions = list(map(checker.check, records, texts)), list(map(find_mentions, records, texts))
    triples, ones = [len(record.triples) for record in records], [1] * len(records)
    n_whole = [sum(value.whole for value in check.values) for check in checks]
    n_mentioned = [sum(value.mentioned for value in mention.checks) for mention in mentions]
    is_faultless = [not check.faults for check in checks]
    invented = [len(check.invented) for check in checks]
    n_by_kind = Counter(value.kind for check in checks for value in check.values)
    kinds = ",".join(f"{kind} {n_by_kind[kind]}" for kind in MATCH_KINDS)
    variants = sum(map(len, checker.lexicon.variants.values()))
    lexicon_remark = "lexicon:none" if checker.lexicon == Lexicon() else f"lexicon:{variants} variants"
    triples_remark, texts_remark = f"triples:{sum(triples)}", f"texts:{len(texts)}"
    lenient = f"values mentioned (lenient: {100 * THRESHOLD:g} % of the words)|words:normal,e2e:phrases"
    strict = f"(strict)|{lexicon_remark}"
    counts: dict[str, tuple[Sequence[float], Sequence[float], str]] = {
        "values_whole": (n_whole, triples, f"values said whole {strict}|{triples_remark}|said:{kinds}"),
        "values_lenient": (n_mentioned, triples, f"{lenient}|threshold:{THRESHOLD}|{triples_remark}"),
        "texts_without_faults": (is_faultless, ones, f"texts without faults {strict}|{texts_remark}"),
        "invented": (invented, ones, f"invented values per 100 texts {strict}|{texts_remark}"),
    }
    statistics = {name: percentage_statistics(*arguments) for name, arguments in counts.items()}
    return CheckedValues(checks, mentions, statistics)
