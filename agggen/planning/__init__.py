"""Planning: the order and grouping of a record's predicates.

`scores` defines the score of a plan, `distribution` p(z | x) of a record. `exact` finds and samples plans by dynamic
programming; `bounded` proves the best plans of larger records, with `beam` as its fallback. `two_stage` is the paper's
search with its ablations, `control` resolves human plans.
"""

from __future__ import annotations

from agggen.planning.beam import beam_plans
from agggen.planning.bounded import search
from agggen.planning.control import named_plan, resolve_plan
from agggen.planning.distribution import PlanDistribution
from agggen.planning.exact import is_exact, k_best, log_partition, sample
from agggen.planning.scores import IndexPlan, PlanScores, ScoredPlan, check_indices, plan_score, restricted
from agggen.planning.two_stage import aggregations, no_aggregation, orderings, random_order, two_stage

__all__ = [
    "IndexPlan",
    "PlanDistribution",
    "PlanScores",
    "ScoredPlan",
    "aggregations",
    "beam_plans",
    "check_indices",
    "is_exact",
    "k_best",
    "log_partition",
    "named_plan",
    "no_aggregation",
    "orderings",
    "plan_score",
    "random_order",
    "resolve_plan",
    "restricted",
    "sample",
    "search",
    "two_stage",
]
