"""Adherence: does a text follow the plan it was written from?

The text is aligned, by rules or by a model's Viterbi path, and what it is found to say in which fact is compared with
the plan: who shares a fact with whom, and what comes before what. An aligner errs too: the rules find that the paper's
274 annotated texts follow the plans that people read out of them in 77 % (group .83, order .91, said .99). So compare
systems under one aligner and one segmentation of the texts, and read the numbers against that ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from agggen.alignment import align
from agggen.errors import AggGenError, PlanError
from agggen.evaluation import Score
from agggen.evaluation.alignments import Positions, positions
from agggen.records import Plan, Record

if TYPE_CHECKING:
    from agggen.generation.generator import Generator


@dataclass(frozen=True, slots=True)
class Adherence:
    """Shares, 0..1, over all texts; a predicate that the text does not say counts as wrong everywhere."""

    said: float
    """Predicates of the plans that the texts say at all."""
    group: float
    """Predicates that share their fact with exactly those that share their group in the plan."""
    order: float
    """Pairs of predicates from different groups that the text says in the plan's order, in different facts.

    1 where no plan has two groups.
    """
    exact: float
    """Texts that say the plan's groups, all of them, in its order; empty facts between them do not matter."""
    texts: int
    signature: str

    def scores(self) -> dict[str, Score]:
        """The four measures by name (``adherence_said``, ...)."""
        names = ("said", "group", "order", "exact")
        return {f"adherence_{name}": Score(getattr(self, name), self.signature) for name in names}


def adherence(plans: Sequence[Plan], said: Sequence[Positions], aligner: str) -> Adherence:
    """Compares each plan with the facts in which its text says the predicates.

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
    found = predicates = grouped = ordered = pairs = exact = 0
    for plan, facts in zip(plans, said, strict=True):
        place = {name: facts.get(name) for name in plan.predicates}
        sharing: dict[int, set[str]] = {}
        for name, fact in place.items():
            if fact is not None:
                sharing.setdefault(fact, set()).add(name)
        wanted = [set(state) for state in plan.states]
        predicates += len(place)
        found += sum(map(len, sharing.values()))
        grouped += sum(len(group) for group in wanted if group in sharing.values())
        exact += [sharing[fact] for fact in sorted(sharing)] == wanted
        for earlier, later in combinations(plan.states, 2):
            spots = [(place[first], place[second]) for first in earlier for second in later]
            pairs += len(spots)
            ordered += sum(a is not None and b is not None and a < b for a, b in spots)
    return Adherence(
        said=found / predicates,
        group=grouped / predicates,
        order=ordered / pairs if pairs else 1.0,
        exact=exact / len(plans),
        texts=len(plans),
        signature=f"adherence|aligner:{aligner}|predicates:{predicates}|texts:{len(plans)}",
    )


def text_adherence(
    records: Sequence[Record],
    plans: Sequence[Plan],
    facts: Sequence[Sequence[str]],
    generator: Generator | None = None,
) -> Adherence:
    """`adherence` of texts, given as their facts, to the plans they were written from.

    Args:
        plans: one a record; may leave out predicates.
        generator: aligns by its model's Viterbi path (of several facts that say one triple the last counts). The model
            that wrote a text is no neutral judge of it: prefer another one's, or the rules. None: the rule-based
            aligner, for which a triple of which no fact holds a word is not said.

    Raises:
        AggGenError: different numbers of records, plans and texts, or none; a text without facts.
        PlanError: a plan names a predicate that its record does not have.
    """
    if not len(records) == len(plans) == len(facts):
        numbers = f"{len(records)} records, {len(plans)} plans, the facts of {len(facts)} texts"
        raise AggGenError(f"{numbers}; there must be one plan and one text a record")
    for record, plan in zip(records, plans, strict=True):
        if unknown := sorted(set(plan.predicates) - set(record.predicates)):
            raise PlanError(f"record {record.id!r}: the plan names {unknown[0]!r}, which is no predicate of it")
    if generator is not None:
        return adherence(plans, [positions(found.states) for found in generator.align(records, facts)], "viterbi")
    return adherence(plans, [_by_rules(*pair) for pair in zip(records, facts, strict=True)], "rules")


def _by_rules(record: Record, facts: Sequence[str]) -> Positions:
    return dict(zip(record.predicates, align(record, facts, complete=False).fact_of, strict=True))
