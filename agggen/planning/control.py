"""Human control over plans: a plan written by a person, checked against its record, and completed on request.

The other control, the aggregation level, is the `max_size` of the searches: 1 says every predicate alone, 2 allows
pairs, and so on up to the model's L (paper section 3.5).
"""

from __future__ import annotations

from difflib import get_close_matches

from agggen.errors import PlanError
from agggen.planning.exact import k_best
from agggen.planning.scores import IndexPlan, PlanScores
from agggen.records import Plan, Record


def resolve_plan(
    record: Record,
    plan: Plan | str,
    complete: bool = False,
    max_size: int | None = None,
    scores: PlanScores | None = None,
) -> IndexPlan:
    """A human plan (``[eatType] [near food]``) in the indices of `record.predicates`, exactly as written.

    Strict: every predicate once. With `complete`, omitted predicates follow in further groups, by the best completion
    under `scores`. Groups may be larger than the model's L (the emission works for any set; `plan_score` is then
    None) unless `max_size` limits them; the completion itself always stays within L.

    Raises:
        PlanError: bad notation, a predicate that is unknown (with the nearest names), repeated or omitted, or a group
            of more than `max_size`; each names the record.
        ValueError: `complete` without the `scores` of this record.
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
    for state in plan.states:
        if max_size is not None and len(state) > max_size:
            raise PlanError(
                f"{where}: group [{' '.join(state)}] holds {len(state)} predicates; at most {max_size} are allowed"
            )
    indices = tuple(tuple(index_of[name] for name in state) for state in plan.states)
    omitted = [name for name in record.predicates if name not in plan.predicates]
    if not omitted:
        return indices
    if not complete:
        raise PlanError(f"{where} omits {', '.join(omitted)}; add what is missing, or ask for the plan to be completed")
    if scores is None or scores.n_predicates != len(record.predicates):
        raise ValueError(f"to complete a plan, pass the scores of record {record.id!r} ({len(index_of)} predicates)")
    return complete_plan(scores, indices, max_size)


def complete_plan(scores: PlanScores, prefix: IndexPlan, max_size: int | None = None) -> IndexPlan:
    """`prefix` and then the most probable further groups, of at most `max_size` (default: L), for what it omits.

    Exact within the limits of `exact.is_exact`, by beam search above. The prefix's own groups may be of any size.

    Raises:
        PlanError: the prefix repeats or invents a predicate, or `max_size` is out of range.
    """
    return k_best(scores, 1, max_size, prefix)[0].states


def named_plan(record: Record, plan: IndexPlan) -> Plan:
    """The plan of `record` in its predicates' names; inverse of `resolve_plan`."""
    return Plan(tuple(tuple(record.predicates[index] for index in state) for state in plan))
