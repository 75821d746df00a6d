"""Planning: the order and grouping of a record's predicates.

`scores` defines the score of a plan, `distribution` the distribution p(z | x) over a record's plans. `exact` finds and
samples plans by dynamic programming, `bounded` uses a beam search for larger records. `two_stage` is the paper's search
with its ablations.
"""

from agggen.planning.distribution import PlanDistribution as PlanDistribution
from agggen.planning.scores import IndexPlan as IndexPlan
from agggen.planning.scores import PlanScores as PlanScores
from agggen.planning.scores import ScoredPlan as ScoredPlan
from agggen.planning.scores import named_plan as named_plan
from agggen.planning.scores import resolve_plan as resolve_plan
from agggen.planning.scores import restricted as restricted
