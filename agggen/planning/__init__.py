"""Planning: which predicates to say in which order and in which groups.

`scores` says what a plan is worth, `exact` finds the k best plans and their normaliser, `two_stage` is the paper's
search with its ablations, `beam` stands in for records too large to plan exactly, `control` takes plans from people.
"""

from __future__ import annotations

from agggen.planning.beam import beam_plans
from agggen.planning.control import complete_plan, named_plan, resolve_plan
from agggen.planning.exact import is_exact, k_best, log_partition
from agggen.planning.scores import (
    IndexPlan,
    PlanScores,
    ScoredPlan,
    group_limit,
    ordered_states,
    plan_score,
    rewarded,
)
from agggen.planning.two_stage import aggregations, no_aggregation, orderings, random_order, two_stage

__all__ = [
    "IndexPlan",
    "PlanScores",
    "ScoredPlan",
    "aggregations",
    "beam_plans",
    "complete_plan",
    "group_limit",
    "is_exact",
    "k_best",
    "log_partition",
    "named_plan",
    "no_aggregation",
    "ordered_states",
    "orderings",
    "plan_score",
    "random_order",
    "resolve_plan",
    "rewarded",
    "two_stage",
]
