"""Settings of inference."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from agggen.errors import ConfigError, check_minima


@dataclass(frozen=True)
class BeamConfig:
    """Settings of the beam search. Defaults are those of the original code (METHOD 6 in agggen/README.md), except for
    the minimum length, which depends on the corpus. Raises ConfigError if a number is out of range.
    """

    beam: int = 5
    length_penalty: float = 0.9  # Wu et al. 2016: log p / ((5 + n) / 6)^penalty
    min_tokens_per_triple: int = 0  # minimum number of tokens of a fact, per triple of its group; at least one word
    max_fact_tokens: int = 120  # maximum number of tokens of a fact; a larger minimum is lowered to it
    # no n-gram of this size is repeated, except those of earlier facts with a word of a subject or object; 0: no limit
    block_ngrams: int = 3

    def __post_init__(self) -> None:
        check_minima(self, {"beam": 1, "max_fact_tokens": 1, "min_tokens_per_triple": 0, "block_ngrams": 0})
        if not 0 <= self.length_penalty < math.inf:
            raise ConfigError(f"length_penalty must be a number of 0 or more, not {self.length_penalty}")


@dataclass(frozen=True)
class InferenceConfig:
    """How plans are searched and texts are generated and chosen. Raises ConfigError if a number is out of range."""

    # exact: the most probable plans; two-stage: the paper's search; sample: drawn from p(z | x), for diverse texts
    planner: Literal["exact", "two-stage", "sample"] = "exact"
    plans: int = 5  # plans per record for which texts are generated
    top_p: float = 0.9  # sample: groups are drawn from the most probable ones, up to this cumulative probability
    order_beam: int = 3  # two-stage: number of orders (paper section 3.4, k)
    aggregations: int = 2  # two-stage: number of aggregations per order (n)
    level: int = 0  # aggregation level: maximum number of triples in a group; 0: the model's limit L, 1: no aggregation
    # ablations of the paper: random-order is -OD, no-aggregation is -AG, plain is the Transformer
    ablation: Literal["none", "random-order", "no-aggregation", "plain"] = "none"
    group_reward: float = 0.0  # added to a plan's log-probability for each group, before normalisation
    plan_weight: float = 0.3  # weight of log p(z | x) in the joint score; the weight of the text's score is 1
    # consensus: of the texts with the fewest faults, the one most similar to the probable texts; first: the same, of
    # the most probable plan if one of its texts is accepted; score: the text with the highest joint score
    choice: Literal["score", "consensus", "first"] = "consensus"
    # strict: facts must pass the strict check, and predicates unknown from training get separate sentences; off: texts
    # are not constrained or rejected, but their faults are reported, and affect the choice by consensus
    verify: Literal["strict", "off"] = "strict"
    beam: BeamConfig = field(default_factory=BeamConfig)
    rows: int = 320  # maximum number of hypotheses that are decoded in one batch
    seed: int = 0  # of the planner `sample` and the ablation `random-order`

    def __post_init__(self) -> None:
        check_minima(self, {"plans": 1, "order_beam": 1, "aggregations": 1, "rows": 1, "level": 0, "seed": 0})
        if not 0 <= self.plan_weight < math.inf:
            raise ConfigError(f"plan_weight must be a number of 0 or more, not {self.plan_weight}")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.verify not in ("strict", "off"):
            raise ConfigError(f"verify must be strict or off, not {self.verify!r}")
        if not math.isfinite(self.group_reward):
            raise ConfigError(f"group_reward must be a finite number, not {self.group_reward}")
