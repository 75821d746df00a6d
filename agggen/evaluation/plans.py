"""Agreement of plans and alignments with those of humans (paper, "Study of Sentence Planning" and "... of Alignment").

A plan is scored as a clustering of the record's triples into facts, by normalised mutual information (NMI), and as a
ranking of the triples by their fact's position, by Kendall's tau-b. Plans with one triple per fact have a high NMI;
therefore the chance-corrected AMI and ARI, the number of groups and the rate of exact matches are reported, too.

Plans may omit predicates of the record. An omitted predicate is a separate cluster and is ignored by tau; ``placed`` is
the fraction of predicates that the plans contain.

In the published table of alignments, "recall" is the fraction of triples that are aligned, correctly or not, and
"precision" is the fraction of these whose alignment is correct. The usual recall is reported as ``accuracy``.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from agggen.errors import AggGenError, PlanError
from agggen.evaluation.segments import Formula, SegmentStatistics, percentage, quotient_statistics, ratio
from agggen.records import Plan, Record

# The index of each predicate's fact in the text; None or absent if the predicate is not aligned.
Positions = Mapping[str, int | None]

Predicates = Sequence[Collection[str]]  # of each input's record; plans may omit some of them
# The group number of each predicate in two plans, sorted; -1 for omitted predicates.
Labels = tuple[tuple[int, int], ...]

_SIGNATURES = {
    "nmi_max": "plans|nmi:arithmetic|unplaced:alone|max:reference,mean:inputs",
    "nmi_avg": "plans|nmi:arithmetic|unplaced:alone|mean:pairs",
    "tau_max": "plans|kendall tau:b of fact positions|max:reference,mean:inputs|no single-group plans",
    "tau_avg": "plans|kendall tau:b of fact positions|mean:pairs|no single-group plans",
    "ami": "plans|ami:arithmetic|unplaced:alone|mean:pairs",
    "ari": "plans|ari|unplaced:alone|mean:pairs",
    "groups": "plans|number of groups|mean:inputs",
    "reference_groups": "references|number of groups|mean:references",
    "exact_match": "plans|equal to a reference|order:of groups",
    "exact_partition": "plans|equal to a reference|order:none",
    "placed": "plans|predicates placed",
}


def plan_statistics(
    plans: Sequence[Plan], references: Sequence[Sequence[Plan]], predicates: Predicates | None = None
) -> dict[str, SegmentStatistics]:
    """All metrics by name: in [0, 1], tau in [-1, 1], groups as numbers; NaN if a metric is undefined for all inputs.

    As in the paper, ``_max`` is the mean over inputs of the score with the best reference, and ``_avg`` is the mean
    over all pairs of plan and reference. Tau ignores plans and references of a single group, which have no order.
    ``human_...`` compares the references of an input with each other; ``human_nmi_max`` uses only inputs with at least
    three references, if there are any. `predicates` are those of each input's record, by default all predicates of its
    references; PlanError if a plan has others.
    """
    if predicates is None:
        predicates = [dict.fromkeys(name for plan in gold for name in plan.predicates) for gold in references]
    inputs = list(zip(plans, references, predicates, strict=True))
    pairs = [[_labels(plan, reference, names) for reference in gold] for plan, gold, names in inputs]
    human_pairs = [[_labels(*pair, names) for pair in combinations(gold, 2)] for _, gold, names in inputs]
    groups_of_plans = [(_groups(plan), list(map(_groups, gold))) for plan, gold, _ in inputs]
    counts: dict[str, Sequence[tuple[float, float]]] = {
        **_agreement(plans, pairs, pairs),
        "groups": [(len(plan.states), 1) for plan in plans],
        "reference_groups": [(sum(len(plan.states) for plan in gold), len(gold)) for gold in references],
        "exact_match": [(groups in gold, 1) for groups, gold in groups_of_plans],
        "exact_partition": [(set(groups) in map(set, gold), 1) for groups, gold in groups_of_plans],
        "placed": [(len(set(plan.predicates) & set(names)), len(names)) for plan, _, names in inputs],
    }
    default_remark = f"|inputs:{len(plans)}|pairs:{sum(map(len, pairs))}"
    remarks = {
        **dict.fromkeys(("exact_match", "exact_partition"), f"|inputs:{len(plans)}"),
        "placed": f"|predicates:{sum(map(len, predicates))}",
    }
    statistics = {
        name: quotient_statistics(counts[name], signature + remarks.get(name, default_remark))
        for name, signature in _SIGNATURES.items()
    }
    max_references = max(map(len, references))
    if max_references > 1:
        min_references = min(max_references, 3)
        pairs_for_max = [
            pairs if len(gold) >= min_references else [] for pairs, gold in zip(human_pairs, references, strict=True)
        ]
        human_remark = f"|among references|pairs:{sum(map(len, human_pairs))}"
        for name, human_counts in _agreement(plans, human_pairs, pairs_for_max).items():
            inputs_remark = f"|inputs:{min_references}+ references" if name == "nmi_max" else ""
            signature = _SIGNATURES[name] + human_remark + inputs_remark
            statistics[f"human_{name}"] = quotient_statistics(human_counts, signature)
    return statistics


def indexed_reference_plans(records: Iterable[Record]) -> list[tuple[int, list[Plan]]]:
    """(index of the record, its reference plans) for records with at least two triples and one reference plan."""
    indexed_plans = [
        (index, [reference.plan for reference in record.references if reference.plan])
        for index, record in enumerate(records)
        if len(record.triples) > 1
    ]
    return [(index, plans) for index, plans in indexed_plans if plans]


def distinct_plans(n_best: Sequence[Sequence[Plan]]) -> SegmentStatistics:
    """The mean number of distinct plans per record; the order within a group is ignored."""
    counts = [len({tuple(map(frozenset, plan.states)) for plan in plans}) for plans in n_best]
    max_plans = max(map(len, n_best))
    signature = f"diversity|different plans|order:of groups|n-best:{max_plans}|records:{len(counts)}"
    return quotient_statistics([(count, 1) for count in counts], signature)


def _agreement(
    plans: Sequence[Plan], pairs: Sequence[Sequence[Labels]], pairs_for_max: Sequence[Sequence[Labels]]
) -> dict[str, list[tuple[float, int]]]:
    """By metric: the numerator and denominator for each input; ``nmi_max`` uses `pairs_for_max`."""
    pairs_with_order = [row if len(plan.states) > 1 else [] for plan, row in zip(plans, pairs, strict=True)]
    taus = [[tau for tau in map(_tau, row) if not math.isnan(tau)] for row in pairs_with_order]
    nmi, ami, ari = ([[_clustering(name, pair) for pair in row] for row in pairs] for name in ("nmi", "ami", "ari"))
    nmi_for_max = [[_clustering("nmi", pair) for pair in row] for row in pairs_for_max]
    values = {"nmi_max": nmi_for_max, "nmi_avg": nmi, "tau_max": taus, "tau_avg": taus, "ami": ami, "ari": ari}
    return {
        name: [(max(row), 1) if row and name.endswith("_max") else (sum(row), len(row)) for row in rows]
        for name, rows in values.items()
    }


def _groups(plan: Plan) -> tuple[frozenset[str], ...]:
    return tuple(map(frozenset, plan.states))


def _labels(plan: Plan, reference: Plan, predicates: Collection[str]) -> Labels:
    first, second = positions(plan.states), positions(reference.states)
    if unknown := (first.keys() | second.keys()) - set(predicates):
        raise PlanError(f"{plan} or {reference} has {min(unknown)!r}, which is not a predicate of the record")
    return tuple(sorted((first.get(name, -1), second.get(name, -1)) for name in predicates))


@lru_cache(maxsize=1 << 14)  # scikit-learn is slow, and many pairs of plans have equal labels
def _clustering(measure: str, labels: Labels) -> float:
    """``nmi`` or ``ami`` (arithmetic mean; Vinh et al. 2010) or ``ari`` of two clusterings."""
    from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score

    functions = {"nmi": normalized_mutual_info_score, "ami": adjusted_mutual_info_score, "ari": adjusted_rand_score}
    # Each omitted predicate is a separate cluster, with a negative label.
    first = [-1 - index if label == -1 else label for index, (label, _) in enumerate(labels)]
    second = [-1 - index if label == -1 else label for index, (_, label) in enumerate(labels)]
    return float(functions[measure](first, second))


@lru_cache(maxsize=1 << 14)
def _tau(labels: Labels) -> float:
    """Kendall's tau-b of the positions; NaN if a plan has one group, or fewer than two predicates are in both plans."""
    from scipy.stats import kendalltau

    common_labels = [pair for pair in labels if -1 not in pair]
    if len(common_labels) < 2:
        return math.nan
    first, second = zip(*common_labels, strict=True)
    return float(kendalltau(first, second).statistic)


def positions(facts: Iterable[Iterable[str]]) -> dict[str, int]:
    """The fact index of each predicate, from the predicates of each fact in text order.

    Of several facts with the same predicate, the last is used, as in the published numbers.
    """
    return {predicate: number for number, predicates in enumerate(facts) for predicate in predicates}


def alignment_statistics(predicted: Sequence[Positions], gold: Sequence[Positions]) -> dict[str, SegmentStatistics]:
    """Precision, recall, F1 and accuracy in percent, with the paper's definitions.

    Triples without a gold fact are not counted; AggGenError if no triple has a gold fact.
    """
    counts = []
    for facts, gold_facts in zip(predicted, gold, strict=True):
        pairs = [(facts.get(predicate), fact) for predicate, fact in gold_facts.items() if fact is not None]
        if pairs:
            n_correct = sum(fact == gold_fact for fact, gold_fact in pairs)
            n_aligned = sum(fact is not None for fact, _ in pairs)
            counts.append((n_correct, n_aligned, len(pairs)))
    if not counts:
        raise AggGenError("the gold alignments are empty; at least one triple must have a fact")
    rows = np.array(counts, dtype=float)  # (texts, 3): correctly aligned, aligned, all triples
    return {
        name: SegmentStatistics(rows, formula, f"alignment|{definition}|percent|triples:{int(rows[:, 2].sum())}")
        for name, (formula, definition) in _MEASURES.items()
    }


_PRECISION, _RECALL = percentage(0, 1), percentage(1, 2)


def _f1(sums: np.ndarray) -> np.ndarray:
    precision, recall = _PRECISION(sums), _RECALL(sums)
    return ratio(2 * precision * recall, precision + recall)


_MEASURES: dict[str, tuple[Formula, str]] = {
    "precision": (_PRECISION, "right/aligned"),
    "recall": (_RECALL, "paper's recall: aligned, right or wrong/all"),
    "f1": (_f1, "of precision and the paper's recall"),
    "accuracy": (percentage(0, 2), "right/all"),
}
