"""How plans are searched and texts are written and chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

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
    block_ngrams: int = 3  # no n-gram of this size twice in the facts of a text; 0 allows all
    mention_all: bool = False  # a fact that does not mention its triples' values makes way for one that does

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("max_fact_tokens", 1), ("min_tokens_per_triple", 0), ("block_ngrams", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not 0 <= self.length_penalty < math.inf:
            raise ConfigError(f"length_penalty must be a number of 0 or more, not {self.length_penalty}")


_RETIRED: Mapping[str, object] = {"whole_values": False}  # settings that are no more, at what changed nothing


def current(beam: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings of a beam search that an earlier version wrote, without those that are no more and changed nothing.

    Args:
        beam: values by `prefix` and name; other keys pass.
        prefix: what the names of the search's settings begin with.
    """
    return {key: value for key, value in beam.items() if _RETIRED.get(key.removeprefix(prefix), ...) != value}


_A_MISTAKE = 10.0  # more than texts without mistakes cost in likelihood, by and large


@dataclass(frozen=True)
class InferenceConfig:
    """How plans are searched and texts are written and chosen."""

    planner: Literal["exact", "two-stage"] = "exact"
    plans: int = 5  # plans that are written out for each record
    order_beam: int = 3  # two-stage: orders kept (paper section 3.4, k)
    aggregations: int = 2  # two-stage: groupings kept for each order (n)
    level: int = 0  # largest number of triples in a fact; 0 means the model's L, 1 means no aggregation
    ablation: Literal["none", "random-order", "no-aggregation", "plain"] = "none"  # -OD, -AG, the plain Transformer
    group_reward: float = 0.0  # added to a plan's log-probability for each of its groups, before it is normalised
    plan_weight: float = 1.0  # weight of log p(z | x) against the text's score in the joint choice
    # Taken off the joint choice's score for each mistake: a value that its fact does not mention, and, in records of
    # E2E, one that the text says and the record does not have.
    missing_penalty: float = 1.0
    # strict: what the published count of E2E's slot errors would find is a mistake too; the verifier then shares all
    # its patterns with that measure.
    verifier: Literal["plain", "strict"] = "plain"
    # A text with a mistake is searched for again so often, each time among four times as many plans and twice as many
    # hypotheses, and with `beam.mention_all`.
    retries: int = 0
    beam: BeamConfig = field(default_factory=BeamConfig)
    rows: int = 320  # hypotheses decoded together
    seed: int = 0  # of random-order

    def __post_init__(self) -> None:
        for name, least in (
            ("plans", 1),
            ("order_beam", 1),
            ("aggregations", 1),
            ("rows", 1),
            ("level", 0),
            ("seed", 0),
            ("retries", 0),
        ):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("plan_weight", "missing_penalty"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a number of 0 or more, not {getattr(self, name)}")
        if not math.isfinite(self.group_reward):
            raise ConfigError(f"group_reward must be a finite number, not {self.group_reward}")
        if self.retries and not self.missing_penalty:
            raise ConfigError("retries look for texts with fewer mistakes, so missing_penalty must be more than 0")

    def verified(self, retries: int) -> InferenceConfig:
        """These settings, but texts with a mistake are searched for again so often, and one without is taken however
        unlikely it is.
        """
        return replace(self, retries=retries, missing_penalty=max(self.missing_penalty, _A_MISTAKE))
