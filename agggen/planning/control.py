"""Validates human plans against their records (paper section 3.5)."""

from difflib import get_close_matches

from agggen.errors import PlanError
from agggen.planning.scores import IndexPlan
from agggen.records import Plan, Record


def resolve_plan(record: Record, plan: Plan, partial: bool = False) -> IndexPlan:
    """A human plan as indices of `record.predicates`; groups may be larger than the model's L.

    Raises:
        PlanError: a predicate is unknown (the message names similar ones) or, unless `partial`, omitted.
    """
    label = f"plan for record {record.id!r}"
    index_of = {name: index for index, name in enumerate(record.predicates)}
    for name in plan.predicates:
        if name not in index_of:
            by_lower_case = {predicate.lower(): predicate for predicate in record.predicates}
            similar = [by_lower_case[match] for match in get_close_matches(name.lower(), by_lower_case)]
            advice = f"did you mean {' or '.join(similar)}?" if similar else f"it has {', '.join(record.predicates)}"
            raise PlanError(f"{label}: the record has no predicate {name!r}; {advice}")
    omitted = [name for name in record.predicates if name not in plan.predicates]
    if omitted and not partial:
        raise PlanError(f"{label} omits {', '.join(omitted)}; add them, or let the model complete the plan")
    return tuple(tuple(index_of[name] for name in group) for group in plan.states)


def named_plan(record: Record, plan: IndexPlan) -> Plan:
    """A plan with the record's predicate names; inverse of `resolve_plan`."""
    return Plan(tuple(tuple(record.predicates[index] for index in group) for group in plan))
