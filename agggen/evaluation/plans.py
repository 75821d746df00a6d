"""Plans against human plans (paper, section "Study of Sentence Planning").

A plan is a clustering of the record's triples (which share a fact), scored by normalised mutual information, and a
ranking (the position of each triple's fact), scored by Kendall's tau-b. NMI rewards plans that do not aggregate at
all, so the chance-corrected AMI and ARI and the number of groups stand beside it, and how many plans a person would
have made just so.

Where the record's predicates are given, plans may leave some out. One that is left out shares a fact with no other (it
is a cluster of its own) and has no position (it is left out of tau); ``placed`` says how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from itertools import combinations

from agggen.errors import AggGenError, PlanError
from agggen.evaluation import Score
from agggen.evaluation.segments import SegmentStatistics, share_statistics
from agggen.records import Plan, Record

Predicates = Sequence[Collection[str]]
"""The predicates of each input's record, of which a plan may leave some out."""

Labels = tuple[tuple[int, int], ...]
"""The group number of each predicate in two plans, sorted; -1 where a plan leaves the predicate out."""

_SIGNATURES = {
    "nmi_max": "plans|nmi:arithmetic|unplaced:alone|max:reference,mean:inputs",
    "nmi_avg": "plans|nmi:arithmetic|unplaced:alone|mean:pairs",
    "tau_max": "plans|kendall tau:b of fact positions|max:reference,mean:inputs|no single-group plans",
    "tau_avg": "plans|kendall tau:b of fact positions|mean:pairs|no single-group plans",
    "ami": "plans|ami:arithmetic|unplaced:alone|mean:pairs",
    "ari": "plans|ari|unplaced:alone|mean:pairs",
    "groups": "plans|number of groups|mean:inputs",
    "reference_groups": "references|number of groups|mean:references",
}


def plan_scores(
    plans: Sequence[Plan], references: Sequence[Sequence[Plan]], predicates: Predicates | None = None
) -> dict[str, Score]:
    """The corpus scores of `plan_statistics` by name."""
    return {name: counts.corpus() for name, counts in plan_statistics(plans, references, predicates).items()}


def plan_statistics(
    plans: Sequence[Plan], references: Sequence[Sequence[Plan]], predicates: Predicates | None = None
) -> dict[str, SegmentStatistics]:
    """All measures by name, 0..1 but for tau (-1..1) and groups (a number); NaN where no input allows a measure.

    By the paper's conventions ``_max`` is the mean over inputs of the best reference and ``_avg`` the mean over all
    pairs of a plan and a reference. For tau, inputs whose plan is a single group are left out (it ranks nothing), and
    so are references that are a single group. ``human_...`` compares the references with each other, where an input
    has two of them; ``human_nmi_max`` takes inputs with three references only, if there are any.

    Args:
        predicates: those of each input's record, by default all that its references name.

    Raises:
        AggGenError: different numbers of inputs, or none, or an input without references.
        PlanError: a plan names a predicate that its record does not have.
    """
    if predicates is None:
        predicates = [dict.fromkeys(name for plan in others for name in plan.predicates) for others in references]
    _check(plans, references, predicates)
    inputs = list(zip(plans, references, predicates, strict=True))
    pairs = [[_labels(plan, other, names) for other in others] for plan, others, names in inputs]
    among = [[_labels(*pair, names) for pair in combinations(others, 2)] for _, others, names in inputs]
    ordered = [(_groups(plan), [_groups(other) for other in others]) for plan, others, _ in inputs]
    counts: dict[str, Sequence[tuple[float, float]]] = {
        **_agreement(plans, pairs, pairs),
        "groups": [(len(plan.states), 1) for plan in plans],
        "reference_groups": [(sum(len(plan.states) for plan in others), len(others)) for others in references],
    }
    total = f"|inputs:{len(plans)}|pairs:{sum(map(len, pairs))}"
    statistics = {name: share_statistics(counts[name], _SIGNATURES[name] + total) for name in _SIGNATURES}
    exact = [(ours in theirs, 1) for ours, theirs in ordered]
    partition = [(set(ours) in map(set, theirs), 1) for ours, theirs in ordered]
    placed = [(len(set(plan.predicates) & set(names)), len(names)) for plan, _, names in inputs]
    equal = "plans|equal to a reference|order:"
    statistics["exact_match"] = share_statistics(exact, f"{equal}of groups|inputs:{len(plans)}")
    statistics["exact_partition"] = share_statistics(partition, f"{equal}none|inputs:{len(plans)}")
    statistics["placed"] = share_statistics(placed, f"plans|predicates placed|predicates:{sum(map(len, predicates))}")
    most = max(map(len, references))
    if most > 1:
        enough = min(most, 3)
        for_max = [group if len(others) >= enough else [] for group, others in zip(among, references, strict=True)]
        remark = f"|among references|pairs:{sum(map(len, among))}"
        for name, human in _agreement(plans, among, for_max).items():
            limit = f"|inputs:{enough}+ references" if name == "nmi_max" else ""
            statistics[f"human_{name}"] = share_statistics(human, _SIGNATURES[name] + remark + limit)
    return statistics


def with_plans(records: Iterable[Record]) -> list[tuple[int, list[Plan]]]:
    """The places of the records of two or more triples whose references have plans, and these plans."""
    planned = [
        (place, [reference.plan for reference in record.references if reference.plan])
        for place, record in enumerate(records)
        if len(record.triples) > 1
    ]
    return [(place, plans) for place, plans in planned if plans]


def _check(plans: Sequence[Plan], references: Sequence[Sequence[Plan]], predicates: Predicates) -> None:
    if len(plans) != len(references):
        raise AggGenError(f"{len(plans)} plans but references for {len(references)} inputs; there must be as many")
    if not plans:
        raise AggGenError("there are no plans to compare")
    for number, others in enumerate(references, start=1):
        if not others:
            raise AggGenError(f"input {number} has no reference plan")
    if len(predicates) != len(plans):
        raise AggGenError(f"{len(plans)} plans but predicates of {len(predicates)} inputs; there must be as many")


def _agreement(
    plans: Sequence[Plan], pairs: Sequence[Sequence[Labels]], pairs_for_max: Sequence[Sequence[Labels]]
) -> dict[str, list[tuple[float, int]]]:
    """What each input adds to a measure, and how often it counts."""
    ranked = [
        [_tau(pair) for pair in group] if len(plan.states) > 1 else [] for plan, group in zip(plans, pairs, strict=True)
    ]
    taus = [[tau for tau in group if not math.isnan(tau)] for group in ranked]
    return {
        "nmi_max": _best(_each(_nmi, pairs_for_max)),
        "nmi_avg": _mean(_each(_nmi, pairs)),
        "tau_max": _best(taus),
        "tau_avg": _mean(taus),
        "ami": _mean(_each(_ami, pairs)),
        "ari": _mean(_each(_ari, pairs)),
    }


def _each(measure: Callable[[Labels], float], pairs: Sequence[Sequence[Labels]]) -> list[list[float]]:
    return [[measure(pair) for pair in group] for group in pairs]


def _best(values: Sequence[Sequence[float]]) -> list[tuple[float, int]]:
    return [(max(group), 1) if group else (0.0, 0) for group in values]


def _mean(values: Sequence[Sequence[float]]) -> list[tuple[float, int]]:
    return [(sum(group), len(group)) for group in values]


def _groups(plan: Plan) -> tuple[frozenset[str], ...]:
    return tuple(map(frozenset, plan.states))


def _labels(plan: Plan, other: Plan, predicates: Collection[str] | None) -> Labels:
    """The group number in either plan of each of `predicates`; None: those of the plans, which must be the same."""
    first = {predicate: number for number, state in enumerate(plan.states) for predicate in state}
    second = {predicate: number for number, state in enumerate(other.states) for predicate in state}
    if predicates is None and first.keys() != second.keys():
        odd = min(first.keys() ^ second.keys())
        raise PlanError(f"{plan} and {other} are no plans of one record: only one of them names {odd!r}")
    if predicates is not None and (unknown := (first.keys() | second.keys()) - set(predicates)):
        raise PlanError(f"{plan} or {other} names {min(unknown)!r}, which is no predicate of the record")
    names = first if predicates is None else predicates
    return tuple(sorted((first.get(name, -1), second.get(name, -1)) for name in names))


def nmi(plan: Plan, other: Plan, predicates: Collection[str] | None = None) -> float:
    """Normalised mutual information of two plans as clusterings (scikit-learn, arithmetic mean), 0..1.

    Two plans of one single group each have no information and agree: 1.
    """
    return _nmi(_labels(plan, other, predicates))


def ami(plan: Plan, other: Plan, predicates: Collection[str] | None = None) -> float:
    """Adjusted mutual information (scikit-learn; Vinh et al. 2010): NMI less what chance gives; 1 if equal."""
    return _ami(_labels(plan, other, predicates))


def ari(plan: Plan, other: Plan, predicates: Collection[str] | None = None) -> float:
    """Adjusted Rand index (scikit-learn): the share of pairs of triples treated alike, less what chance gives."""
    return _ari(_labels(plan, other, predicates))


def kendall_tau(plan: Plan, other: Plan, predicates: Collection[str] | None = None) -> float:
    """Kendall's tau-b of the positions of the facts (SciPy), -1..1; NaN if either plan is a single group."""
    return _tau(_labels(plan, other, predicates))


# Few pairs of plans differ in shape, and the libraries are slow: each shape is computed once.


@lru_cache(maxsize=1 << 14)
def _nmi(labels: Labels) -> float:
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(*_clusters(labels)))


@lru_cache(maxsize=1 << 14)
def _ami(labels: Labels) -> float:
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(*_clusters(labels)))


@lru_cache(maxsize=1 << 14)
def _ari(labels: Labels) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_clusters(labels)))


@lru_cache(maxsize=1 << 14)
def _tau(labels: Labels) -> float:
    from scipy.stats import kendalltau

    both = [pair for pair in labels if -1 not in pair]
    if len(both) < 2:
        return math.nan
    first, second = zip(*both, strict=True)
    return float(kendalltau(first, second).statistic)


def _clusters(labels: Labels) -> tuple[list[int], list[int]]:
    """The cluster of each predicate in both plans; one that is left out is alone in a cluster."""
    first = [-1 - place if label == -1 else label for place, (label, _) in enumerate(labels)]
    second = [-1 - place if label == -1 else label for place, (_, label) in enumerate(labels)]
    return first, second
