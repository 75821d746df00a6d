"""What inference gives: candidate plans, texts with their plans, plans with probabilities, aligned texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agggen.planning import ScoredPlan
from agggen.records import Plan

PlanSearch = Literal["exact", "beam", "two-stage", "sample", "given", "random-order", "no-aggregation", "plain"]
"""How plans were found. exact: they are certainly the most probable; beam: a beam search found them, and whether others
are more probable is not known; given: a human's; the others as `InferenceConfig` names them."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The plans of one record that are to be written out, in indices of ``record.predicates``, each once."""

    plans: tuple[ScoredPlan, ...]
    search: PlanSearch

    @property
    def given(self) -> bool:
        """Whether a human gave the plan, which is then followed whatever comes of it."""
        return self.search == "given"


@dataclass(frozen=True, slots=True)
class WrittenFact:
    """A piece ``text[start:end]`` of a generated text and the predicates of its state."""

    start: int
    end: int
    predicates: tuple[str, ...]
    missing: tuple[str, ...]  # predicates of the state whose values the piece does not say whole
    fallback: bool = False
    """Whether the model found no words for it that passed the check: a wording of the corpus or a plain clause."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One text for a record. Log-probabilities are natural; None where the model assigns none (groups beyond L)."""

    id: str
    text: str
    plan: Plan
    plan_log_probability: float | None  # log p(z | x) over the plans of its settings; None where it is not known
    plan_search: PlanSearch
    text_log_probability: float  # log p(y | z, x) of what the model wrote; each word of a fallback counts as e^-1
    score: float  # what the joint choice maximises
    facts: tuple[WrittenFact, ...]
    faults: tuple[str, ...] = ()
    """What the strict check finds wrong in the whole text, in words (`agggen.verification.check`)."""
    unknown_predicates: tuple[str, ...] = ()
    """Predicates of the record that training never saw; plain clauses say them."""

    @property
    def fulfilled(self) -> bool:
        """Whether every fact says the values of its triples whole, and the strict check finds no fault in the text."""
        return not self.faults and not any(fact.missing for fact in self.facts)

    def as_dict(self) -> dict[str, object]:
        """The JSON form: one line of `agggen generate`'s output."""
        return {
            "id": self.id,
            "text": self.text,
            "plan": str(self.plan),
            "plan_log_probability": self.plan_log_probability,
            "plan_search": self.plan_search,
            "text_log_probability": self.text_log_probability,
            "score": self.score,
            "fulfilled": self.fulfilled,
            **({"faults": list(self.faults)} if self.faults else {}),
            **({"unknown_predicates": list(self.unknown_predicates)} if self.unknown_predicates else {}),
            "facts": [
                {
                    "start": fact.start,
                    "end": fact.end,
                    "text": self.text[fact.start : fact.end],
                    "predicates": list(fact.predicates),
                    **({"missing": list(fact.missing)} if fact.missing else {}),
                    **({"fallback": True} if fact.fallback else {}),
                }
                for fact in self.facts
            ],
        }


@dataclass(frozen=True, slots=True)
class PlannedRecord:
    """A plan of a record with log p(z | x) over the plans of its settings.

    The log-probability is None if the sum over all plans is too large to compute, or if the plan is not among them: a
    group is larger than the model's L or the level.
    """

    plan: Plan
    log_probability: float | None
    search: PlanSearch


@dataclass(frozen=True, slots=True)
class AlignedText:
    """The most likely predicates behind each fact of a text, with the posterior of that state."""

    id: str
    facts: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    posteriors: tuple[float, ...]
    log_likelihood: float  # log p(y | x), over all plans
