"""Plans against human plans (paper, section "Study of Sentence Planning").

A plan is a clustering of the record's triples (which share a fact), scored by normalised mutual information, and a
ranking (the position of each triple's fact), scored by Kendall's tau-b. NMI rewards plans that do not aggregate at
all, so the chance-corrected AMI and ARI and the number of groups stand beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from agggen.errors import AggGenError, PlanError
from agggen.records import Plan


@dataclass(frozen=True, slots=True)
class PlanAgreement:
    """How well plans agree with references, averaged over inputs; NaN where no input allows the measure."""

    nmi_max: float
    """Mean over inputs of the best reference's NMI, 0..1."""
    nmi_avg: float
    """Mean NMI over all pairs of a plan and a reference."""
    tau_max: float
    """Mean over inputs of the best reference's tau-b, -1..1."""
    tau_avg: float
    """Mean tau-b over all pairs for which it is defined."""
    ami: float
    """Mean adjusted mutual information over all pairs: 0 is chance, 1 is equal."""
    ari: float
    """Mean adjusted Rand index over all pairs: 0 is chance, 1 is equal."""
    groups: float
    """Mean number of groups of the plans that are compared with the references."""
    reference_groups: float
    """Mean number of groups of the references."""
    inputs: int
    pairs: int
    signature: str = "plans|nmi:arithmetic|tau:b|avg:pairs|max:inputs"


def agreement(plans: Sequence[Plan], references: Sequence[Sequence[Plan]]) -> PlanAgreement:
    """Each plan against the reference plans of the same input, by the paper's conventions.

    For tau, inputs whose plan is a single group are left out (it ranks nothing), and so are references that are a
    single group.

    Raises:
        AggGenError: different numbers of inputs, or none, or an input without references.
        PlanError: two plans of one input name different predicates.
    """
    _check(plans, references)
    pairs = [[(plan, other) for other in others] for plan, others in zip(plans, references, strict=True)]
    return _agreement(pairs, pairs, plans, references)


def reference_agreement(
    references: Sequence[Sequence[Plan]], plans: Sequence[Plan] | None = None, inputs_for_max: int = 3
) -> PlanAgreement:
    """How well the references of an input agree with each other: the human row of the paper's table.

    Args:
        plans: the system's plans; inputs for which they are a single group are left out for tau, as in the paper.
        inputs_for_max: only inputs with this many references count for `nmi_max` (the paper: 3).

    Raises:
        AggGenError: no input has two references.
        PlanError: two plans of one input name different predicates.
    """
    if plans is not None:
        _check(plans, references)
    pairs = [list(combinations(others, 2)) for others in references]
    if not any(pairs):
        raise AggGenError("no input has two reference plans to compare")
    best = [pair if len(others) >= inputs_for_max else [] for pair, others in zip(pairs, references, strict=True)]
    return _agreement(pairs, best, plans, references)


def _check(plans: Sequence[Plan], references: Sequence[Sequence[Plan]]) -> None:
    if len(plans) != len(references):
        raise AggGenError(f"{len(plans)} plans but references for {len(references)} inputs; there must be as many")
    if not plans:
        raise AggGenError("there are no plans to compare")
    for number, others in enumerate(references, start=1):
        if not others:
            raise AggGenError(f"input {number} has no reference plan")


def _agreement(
    pairs: Sequence[Sequence[tuple[Plan, Plan]]],
    pairs_for_max: Sequence[Sequence[tuple[Plan, Plan]]],
    plans: Sequence[Plan] | None,
    references: Sequence[Sequence[Plan]],
) -> PlanAgreement:
    ranked = [group for i, group in enumerate(pairs) if plans is None or len(plans[i].states) > 1]
    taus = [[tau for pair in group if not math.isnan(tau := kendall_tau(*pair))] for group in ranked]
    all_pairs = [pair for group in pairs for pair in group]
    reference_sizes = [len(plan.states) for others in references for plan in others]
    return PlanAgreement(
        nmi_max=_mean([max(nmi(*pair) for pair in group) for group in pairs_for_max if group]),
        nmi_avg=_mean([nmi(*pair) for pair in all_pairs]),
        tau_max=_mean([max(group) for group in taus if group]),
        tau_avg=_mean([tau for group in taus for tau in group]),
        ami=_mean([ami(*pair) for pair in all_pairs]),
        ari=_mean([ari(*pair) for pair in all_pairs]),
        groups=_mean([len(plan.states) for plan in plans]) if plans is not None else _mean(reference_sizes),
        reference_groups=_mean(reference_sizes),
        inputs=len(references),
        pairs=len(all_pairs),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _labels(plan: Plan, other: Plan) -> tuple[list[int], list[int]]:
    """The group number of each predicate in either plan, in the same order of the predicates."""
    first = {predicate: number for number, state in enumerate(plan.states) for predicate in state}
    second = {predicate: number for number, state in enumerate(other.states) for predicate in state}
    if first.keys() != second.keys():
        odd = sorted(first.keys() ^ second.keys())[0]
        raise PlanError(f"{plan} and {other} are no plans of one record: only one of them names {odd!r}")
    return list(first.values()), [second[predicate] for predicate in first]


def nmi(plan: Plan, other: Plan) -> float:
    """Normalised mutual information of two plans as clusterings (scikit-learn, arithmetic mean), 0..1.

    Two plans of one single group each have no information and agree: 1.
    """
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(*_labels(plan, other)))


def ami(plan: Plan, other: Plan) -> float:
    """Adjusted mutual information (scikit-learn; Vinh et al. 2010): NMI less what chance gives; 1 if equal."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(*_labels(plan, other)))


def ari(plan: Plan, other: Plan) -> float:
    """Adjusted Rand index (scikit-learn): the share of pairs of triples treated alike, less what chance gives."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_labels(plan, other)))


def kendall_tau(plan: Plan, other: Plan) -> float:
    """Kendall's tau-b of the positions of the facts (SciPy), -1..1; NaN if either plan is a single group."""
    from scipy.stats import kendalltau

    return float(kendalltau(*_labels(plan, other)).statistic)
