"""Human control over plans: a plan written by a person, checked against its record.

What a plan omits is completed by `PlanDistribution.complete`. The other control is the aggregation level, the largest
group of a plan: 1 says every predicate alone, 2 allows pairs, and so on up to the model's L (paper section 3.5).
"""

from __future__ import annotations

from difflib import get_close_matches

from agggen.errors import PlanError
from agggen.planning.scores import IndexPlan
from agggen.records import Plan, Record


def resolve_plan(record: Record, plan: Plan | str, partial: bool = False) -> IndexPlan:
    """A human plan (``[eatType] [near food]``) in the indices of `record.predicates`, exactly as written.

    Every predicate once; where it may be `partial`, at most once. Groups may be larger than the model's L: the text
    model works for any set of triples, but such a plan has no probability.

    Raises:
        PlanError: bad notation, or a predicate that is unknown (with the nearest names), repeated or omitted; each
            names the record.
    """
    where = f"plan for record {record.id!r}"
    if isinstance(plan, str):
        try:
            plan = Plan.parse(plan)
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from error
    index_of = {name: index for index, name in enumerate(record.predicates)}
    for name in plan.predicates:
        if name not in index_of:
            lower = {known.lower(): known for known in record.predicates}
            nearest = [lower[match] for match in get_close_matches(name.lower(), lower)]
            hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"it has {', '.join(record.predicates)}"
            raise PlanError(f"{where}: the record has no predicate {name!r}; {hint}")
    omitted = [name for name in record.predicates if name not in plan.predicates]
    if omitted and not partial:
        raise PlanError(f"{where} omits {', '.join(omitted)}; add what is missing, or ask for the plan to be completed")
    return tuple(tuple(index_of[name] for name in state) for state in plan.states)


def named_plan(record: Record, plan: IndexPlan) -> Plan:
    """The plan of `record` in its predicates' names; inverse of `resolve_plan`."""
    return Plan(tuple(tuple(record.predicates[index] for index in state) for state in plan))
