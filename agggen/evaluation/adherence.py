"""Adherence: does a text follow the plan it was written from?

The text is aligned to the record, and the facts in which it says the predicates are compared with the plan: which
predicates share a fact, and which come before which. An aligner errs too: by the rules, 77 % of the paper's 274
annotated texts follow the plans that people read out of them (group .83, order .91, said .99). So compare systems under
one aligner and one segmentation of the texts, and read the numbers against that ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from agggen.alignment import align
from agggen.errors import AggGenError, PlanError
from agggen.evaluation.alignments import Positions
from agggen.evaluation.segments import SegmentStatistics, share_statistics
from agggen.records import Plan, Record


def adherence(plans: Sequence[Plan], said: Sequence[Positions], aligner: str) -> dict[str, SegmentStatistics]:
    """Compares each plan with the facts in which its text says the predicates.

    All measures are shares, 0..1, over all texts; a predicate that the text does not say counts as wrong everywhere:

    - ``said``: predicates of the plans that the texts say at all;
    - ``group``: predicates that share their fact with exactly those that share their group in the plan;
    - ``order``: pairs of predicates from different groups that the text says in the plan's order, in different facts;
      NaN where no plan has two groups;
    - ``exact``: texts that say the plan's groups, all of them, in its order; empty facts between them do not matter.

    Args:
        said: the fact of each predicate, one mapping a text; predicates that the plan does not name are not looked at.
        aligner: named in the signature.

    Raises:
        AggGenError: different numbers of plans and texts, or none.
    """
    if len(plans) != len(said):
        raise AggGenError(f"{len(plans)} plans but {len(said)} aligned texts; there must be one text a plan")
    if not plans or not any(plan.predicates for plan in plans):
        raise AggGenError("there are no plans that texts could follow")
    counts: dict[str, list[tuple[float, float]]] = {name: [] for name in ("said", "group", "order", "exact")}
    for plan, facts in zip(plans, said, strict=True):
        place = {name: facts.get(name) for name in plan.predicates}
        sharing: dict[int, set[str]] = {}
        for name, fact in place.items():
            if fact is not None:
                sharing.setdefault(fact, set()).add(name)
        groups = [set(state) for state in plan.states]
        pairs = [
            (place[first], place[second])
            for earlier, later in combinations(plan.states, 2)
            for first in earlier
            for second in later
        ]
        counts["said"].append((sum(map(len, sharing.values())), len(place)))
        counts["group"].append((sum(len(group) for group in groups if group in sharing.values()), len(place)))
        counts["order"].append((sum(a is not None and b is not None and a < b for a, b in pairs), len(pairs)))
        counts["exact"].append(([sharing[fact] for fact in sorted(sharing)] == groups, 1))
    predicates = sum(len(plan.predicates) for plan in plans)
    signature = f"adherence|aligner:{aligner}|predicates:{predicates}|texts:{len(plans)}"
    return {name: share_statistics(measure, signature) for name, measure in counts.items()}


def text_adherence(
    records: Sequence[Record], plans: Sequence[Plan], facts: Sequence[Sequence[str]]
) -> dict[str, SegmentStatistics]:
    """`adherence` of texts, given as their facts, to the plans they were written from.

    The texts are aligned by rules, for which a triple of which no fact holds a word is not said.

    Args:
        plans: one a record; may leave out predicates.

    Raises:
        AggGenError: different numbers of records, plans and texts, or none; a text without facts.
        PlanError: a plan names a predicate that its record does not have.
    """
    if not len(records) == len(plans) == len(facts):
        numbers = f"{len(records)} records, {len(plans)} plans, the facts of {len(facts)} texts"
        raise AggGenError(f"{numbers}; there must be one plan and one text a record")
    said = []
    for record, plan, pieces in zip(records, plans, facts, strict=True):
        if unknown := sorted(set(plan.predicates) - set(record.predicates)):
            raise PlanError(f"record {record.id!r}: the plan names {unknown[0]!r}, which is no predicate of it")
        said.append(dict(zip(record.predicates, align(record, pieces, complete=False).fact_of, strict=True)))
    return adherence(plans, said, "rules")
