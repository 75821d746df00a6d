"""How plans are searched and texts are written and chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from agggen.errors import ConfigError


@dataclass(frozen=True)
class BeamConfig:
    """Defaults are the original's search (METHOD 6) but for the minimum length, which is a corpus's own.

    Raises:
        ConfigError: a number out of range.
    """

    beam: int = 5
    length_penalty: float = 0.9  # Wu et al. 2016: log p / ((5 + n) / 6)^penalty
    min_tokens_per_triple: int = 0  # a fact is no shorter than this times the triples in its group, and never empty
    max_fact_tokens: int = 120  # and never longer than this, which also bounds the minimum
    block_ngrams: int = 3  # no n-gram of this size twice in the facts of a text, but of names and values; 0 allows all

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("max_fact_tokens", 1), ("min_tokens_per_triple", 0), ("block_ngrams", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not 0 <= self.length_penalty < math.inf:
            raise ConfigError(f"length_penalty must be a number of 0 or more, not {self.length_penalty}")


@dataclass(frozen=True)
class InferenceConfig:
    """How plans are searched and texts are written and chosen."""

    # exact: the most probable plans; two-stage: the paper's search; sample: plans drawn from p(z | x), for varied texts
    planner: Literal["exact", "two-stage", "sample"] = "exact"
    plans: int = 5  # plans that are written out for each record
    top_p: float = 0.9  # sample: each group is drawn from the most probable ones, whose shares sum to this
    order_beam: int = 3  # two-stage: orders kept (paper section 3.4, k)
    aggregations: int = 2  # two-stage: groupings kept for each order (n)
    level: int = 0  # largest number of triples in a fact; 0 means the model's L, 1 means no aggregation
    ablation: Literal["none", "random-order", "no-aggregation", "plain"] = "none"  # -OD, -AG, the plain Transformer
    group_reward: float = 0.0  # added to a plan's log-probability for each of its groups, before it is normalised
    plan_weight: float = 1.0  # weight of log p(z | x) against the text's score in the joint choice
    # strict: every fact says the values of its triples whole and nothing that they do not give, predicates that
    # training never saw are not the model's to write; off: the model writes as it likes, and what is at fault is said.
    verify: Literal["strict", "off"] = "strict"
    beam: BeamConfig = field(default_factory=BeamConfig)
    rows: int = 320  # hypotheses decoded together
    seed: int = 0  # of sample and random-order

    def __post_init__(self) -> None:
        for name, least in (
            ("plans", 1),
            ("order_beam", 1),
            ("aggregations", 1),
            ("rows", 1),
            ("level", 0),
            ("seed", 0),
        ):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not 0 <= self.plan_weight < math.inf:
            raise ConfigError(f"plan_weight must be a number of 0 or more, not {self.plan_weight}")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.verify not in ("strict", "off"):
            raise ConfigError(f"verify must be strict or off, not {self.verify!r}")
        if not math.isfinite(self.group_reward):
            raise ConfigError(f"group_reward must be a finite number, not {self.group_reward}")
