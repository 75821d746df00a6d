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
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from agggen.errors import AggGenError, PlanError
from agggen.evaluation import Score
from agggen.records import Plan

Predicates = Sequence[Collection[str]]
"""The predicates of each input's record, of which a plan may leave some out."""


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


def agreement(
    plans: Sequence[Plan], references: Sequence[Sequence[Plan]], predicates: Predicates | None = None
) -> PlanAgreement:
    """Each plan against the reference plans of the same input, by the paper's conventions.

    For tau, inputs whose plan is a single group are left out (it ranks nothing), and so are references that are a
    single group.

    Raises:
        AggGenError: different numbers of inputs, or none, or an input without references.
        PlanError: two plans of one input name different predicates, or one that is not among `predicates`.
    """
    _check(plans, references, predicates)
    pairs = [[(plan, other) for other in others] for plan, others in zip(plans, references, strict=True)]
    return _agreement(pairs, pairs, plans, references, predicates)


def reference_agreement(
    references: Sequence[Sequence[Plan]],
    plans: Sequence[Plan] | None = None,
    inputs_for_max: int = 3,
    predicates: Predicates | None = None,
) -> PlanAgreement:
    """How well the references of an input agree with each other: the human row of the paper's table.

    Args:
        plans: the system's plans; inputs for which they are a single group are left out for tau, as in the paper.
        inputs_for_max: only inputs with this many references count for `nmi_max` (the paper: 3).

    Raises:
        AggGenError: no input has two references.
        PlanError: two plans of one input name different predicates, or one that is not among `predicates`.
    """
    if plans is not None:
        _check(plans, references, predicates)
    pairs = [list(combinations(others, 2)) for others in references]
    if not any(pairs):
        raise AggGenError("no input has two reference plans to compare")
    best = [pair if len(others) >= inputs_for_max else [] for pair, others in zip(pairs, references, strict=True)]
    return _agreement(pairs, best, plans, references, predicates)


def exact_match(plans: Sequence[Plan], references: Sequence[Sequence[Plan]], ordered: bool = True) -> Score:
    """The share of inputs, 0..1, whose plan is one of the reference plans; the order inside a group does not matter.

    Args:
        ordered: the groups must also come in the same order; else only the same predicates must share a group.

    Raises:
        AggGenError: different numbers of inputs, or none, or an input without references.
    """
    _check(plans, references)
    shape = tuple if ordered else frozenset

    def groups(plan: Plan) -> Collection[frozenset[str]]:
        return shape(frozenset(state) for state in plan.states)

    same = [groups(plan) in [groups(other) for other in others] for plan, others in zip(plans, references, strict=True)]
    order = "of groups" if ordered else "none"
    return Score(_mean(same), f"plans|equal to a reference|order:{order}|inputs:{len(plans)}")


def placed(plans: Sequence[Plan], predicates: Predicates) -> Score:
    """The share of all predicates, 0..1, that the plans place in a group.

    Raises:
        AggGenError: different numbers of inputs, or none.
    """
    if len(plans) != len(predicates) or not plans:
        raise AggGenError(f"{len(plans)} plans but predicates of {len(predicates)} inputs; there must be as many")
    wanted = sum(map(len, predicates))
    found = sum(len(set(plan.predicates) & set(names)) for plan, names in zip(plans, predicates, strict=True))
    return Score(found / wanted, f"plans|predicates placed|predicates:{wanted}")


def plan_scores(
    plans: Sequence[Plan], references: Sequence[Sequence[Plan]], predicates: Predicates | None = None
) -> dict[str, Score]:
    """All measures by name, 0..1 but for tau (-1..1) and groups (a number); NaN where no input allows a measure.

    ``human_...`` says how well the references agree with each other, where an input has two of them.

    Args:
        predicates: those of each input's record, by default all that its references name.

    Raises:
        AggGenError: different numbers of inputs, or none, or an input without references.
        PlanError: a plan names a predicate that its record does not have.
    """
    if predicates is None:
        predicates = [dict.fromkeys(name for plan in others for name in plan.predicates) for others in references]
    ours = agreement(plans, references, predicates)
    counts = f"|inputs:{ours.inputs}|pairs:{ours.pairs}"
    scores = {key: Score(getattr(ours, key), signature + counts) for key, signature in _SIGNATURES.items()}
    scores["exact_match"] = exact_match(plans, references)
    scores["exact_partition"] = exact_match(plans, references, ordered=False)
    scores["coverage"] = placed(plans, predicates)
    most = max(map(len, references))
    if most > 1:
        inputs_for_max = min(most, 3)
        humans = reference_agreement(references, plans, inputs_for_max, predicates)
        for key in ("nmi_max", "nmi_avg", "tau_max", "tau_avg", "ami", "ari"):
            among = f"|among references|pairs:{humans.pairs}"
            among += f"|inputs:{inputs_for_max}+ references" if key == "nmi_max" else ""
            scores[f"human_{key}"] = Score(getattr(humans, key), _SIGNATURES[key] + among)
    return scores


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


def _check(plans: Sequence[Plan], references: Sequence[Sequence[Plan]], predicates: Predicates | None = None) -> None:
    if len(plans) != len(references):
        raise AggGenError(f"{len(plans)} plans but references for {len(references)} inputs; there must be as many")
    if not plans:
        raise AggGenError("there are no plans to compare")
    for number, others in enumerate(references, start=1):
        if not others:
            raise AggGenError(f"input {number} has no reference plan")
    if predicates is not None and len(predicates) != len(plans):
        raise AggGenError(f"{len(plans)} plans but predicates of {len(predicates)} inputs; there must be as many")


def _agreement(
    pairs: Sequence[Sequence[tuple[Plan, Plan]]],
    pairs_for_max: Sequence[Sequence[tuple[Plan, Plan]]],
    plans: Sequence[Plan] | None,
    references: Sequence[Sequence[Plan]],
    predicates: Predicates | None,
) -> PlanAgreement:
    def each(measure: Measure, groups: Sequence[Sequence[tuple[Plan, Plan]]]) -> list[list[float]]:
        return [
            [measure(*pair, None if predicates is None else predicates[i]) for pair in group]
            for i, group in enumerate(groups)
        ]

    ranked = [group if plans is None or len(plans[i].states) > 1 else [] for i, group in enumerate(pairs)]
    taus = [[tau for tau in group if not math.isnan(tau)] for group in each(kendall_tau, ranked)]
    all_pairs = [pair for group in pairs for pair in group]
    reference_sizes = [len(plan.states) for others in references for plan in others]
    return PlanAgreement(
        nmi_max=_mean([max(group) for group in each(nmi, pairs_for_max) if group]),
        nmi_avg=_mean(list(chain(*each(nmi, pairs)))),
        tau_max=_mean([max(group) for group in taus if group]),
        tau_avg=_mean(list(chain(*taus))),
        ami=_mean(list(chain(*each(ami, pairs)))),
        ari=_mean(list(chain(*each(ari, pairs)))),
        groups=_mean([len(plan.states) for plan in plans]) if plans is not None else _mean(reference_sizes),
        reference_groups=_mean(reference_sizes),
        inputs=len(references),
        pairs=len(all_pairs),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


Measure = Callable[[Plan, Plan, Collection[str] | None], float]
"""Of two plans for one record, whose predicates may be given."""


def _labels(plan: Plan, other: Plan, predicates: Collection[str] | None) -> list[tuple[int | None, int | None]]:
    """The group number in either plan of each predicate; None where a plan leaves it out."""
    first = {predicate: number for number, state in enumerate(plan.states) for predicate in state}
    second = {predicate: number for number, state in enumerate(other.states) for predicate in state}
    if predicates is None and first.keys() != second.keys():
        odd = min(first.keys() ^ second.keys())
        raise PlanError(f"{plan} and {other} are no plans of one record: only one of them names {odd!r}")
    if predicates is not None and (unknown := (first.keys() | second.keys()) - set(predicates)):
        raise PlanError(f"{plan} or {other} names {min(unknown)!r}, which is no predicate of the record")
    return [(first.get(name), second.get(name)) for name in (first if predicates is None else predicates)]


def _clusters(plan: Plan, other: Plan, predicates: Collection[str] | None) -> tuple[list[int], list[int]]:
    """Cluster labels for scikit-learn, the plan's and the other's; what is left out is alone in a cluster."""
    pairs = _labels(plan, other, predicates)
    alone = [-1 - index for index in range(len(pairs))]
    first = [new if label is None else label for (label, _), new in zip(pairs, alone, strict=True)]
    second = [new if label is None else label for (_, label), new in zip(pairs, alone, strict=True)]
    return first, second


def nmi(plan: Plan, other: Plan, predicates: Collection[str] | None = None) -> float:
    """Normalised mutual information of two plans as clusterings (scikit-learn, arithmetic mean), 0..1.

    Two plans of one single group each have no information and agree: 1.
    """
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(*_clusters(plan, other, predicates)))


def ami(plan: Plan, other: Plan, predicates: Collection[str] | None = None) -> float:
    """Adjusted mutual information (scikit-learn; Vinh et al. 2010): NMI less what chance gives; 1 if equal."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(*_clusters(plan, other, predicates)))


def ari(plan: Plan, other: Plan, predicates: Collection[str] | None = None) -> float:
    """Adjusted Rand index (scikit-learn): the share of pairs of triples treated alike, less what chance gives."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_clusters(plan, other, predicates)))


def kendall_tau(plan: Plan, other: Plan, predicates: Collection[str] | None = None) -> float:
    """Kendall's tau-b of the positions of the facts (SciPy), -1..1; NaN if either plan is a single group."""
    from scipy.stats import kendalltau

    both = [pair for pair in _labels(plan, other, predicates) if None not in pair]
    if len(both) < 2:
        return math.nan
    first, second = zip(*both, strict=True)
    return float(kendalltau(first, second).statistic)
