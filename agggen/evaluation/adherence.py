"""Adherence: whether a text follows the plan that it was generated from.

The text is aligned to the record, and the facts of its predicates are compared with the plan: which predicates share a
fact, and in which order. The aligner makes errors, too: by the rule-based aligner, 77 % of the paper's 274 annotated
texts follow their annotated plans (group .83, order .91, said .99). Compare systems with the same aligner and
segmentation only, and take these numbers as the ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from agggen.alignment import align
from agggen.evaluation.alignments import Positions
from agggen.evaluation.segments import SegmentStatistics, share_statistics
from agggen.records import Plan, Record


def adherence(plans: Sequence[Plan], fact_positions: Sequence[Positions], aligner: str) -> dict[str, SegmentStatistics]:
    """Compares each plan with the facts to which its predicates are aligned.

    All measures are fractions in [0, 1] over all texts. A predicate without a fact counts as wrong in each of them:

    - ``said``: predicates of the plans that are aligned to a fact;
    - ``group``: predicates that share their fact with exactly the predicates of their group;
    - ``order``: pairs of predicates of different groups whose facts are in the plan's order; NaN if no plan has two
      groups;
    - ``exact``: texts whose non-empty facts are exactly the plan's groups, in its order.

    Args:
        fact_positions: the fact of each predicate, one mapping per text; other predicates than the plan's are ignored.
    """
    counts: dict[str, list[tuple[float, float]]] = {name: [] for name in ("said", "group", "order", "exact")}
    for plan, positions in zip(plans, fact_positions, strict=True):
        fact_of = {predicate: positions.get(predicate) for predicate in plan.predicates}
        sharing: dict[int, set[str]] = {}
        for predicate, fact in fact_of.items():
            if fact is not None:
                sharing.setdefault(fact, set()).add(predicate)
        groups = [set(state) for state in plan.states]
        pairs = [
            (fact_of[first], fact_of[second])
            for earlier, later in combinations(plan.states, 2)
            for first in earlier
            for second in later
        ]
        counts["said"].append((sum(map(len, sharing.values())), len(fact_of)))
        counts["group"].append((sum(len(group) for group in groups if group in sharing.values()), len(fact_of)))
        counts["order"].append((sum(a is not None and b is not None and a < b for a, b in pairs), len(pairs)))
        counts["exact"].append(([sharing[fact] for fact in sorted(sharing)] == groups, 1))
    predicates = sum(len(plan.predicates) for plan in plans)
    signature = f"adherence|aligner:{aligner}|predicates:{predicates}|texts:{len(plans)}"
    return {name: share_statistics(measure, signature) for name, measure in counts.items()}


def text_adherence(
    records: Sequence[Record], plans: Sequence[Plan], facts: Sequence[Sequence[str]]
) -> dict[str, SegmentStatistics]:
    """`adherence` of segmented texts to their plans, with the rule-based aligner.

    Args:
        plans: one per record; may omit predicates.
        facts: the facts of each text. A triple that shares no word with any of them has no fact.

    Raises:
        AggGenError: a text has no facts.
    """
    fact_positions = []
    for record, text_facts in zip(records, facts, strict=True):
        alignment = align(record, text_facts, complete=False)
        fact_positions.append(dict(zip(record.predicates, alignment.fact_of, strict=True)))
    return adherence(plans, fact_positions, "rules")
