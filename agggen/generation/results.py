"""What inference gives: candidate plans, texts with their plans, plans with probabilities, aligned texts."""

from __future__ import annotations

from dataclasses import dataclass

from agggen.planning import IndexPlan
from agggen.records import Plan


@dataclass(frozen=True, slots=True)
class Candidates:
    """The plans of one record that are to be written out, in indices of ``record.predicates``, each once."""

    plans: tuple[IndexPlan, ...]
    log_probabilities: tuple[float | None, ...]
    """log p(z | x) of each, normalised over all plans of the record; None if a group is larger than the model's L."""
    given: bool = False
    """Whether a human gave the plan, which is then followed whatever comes of it."""


@dataclass(frozen=True, slots=True)
class WrittenFact:
    """A piece ``text[start:end]`` of a generated text and the predicates of its state."""

    start: int
    end: int
    predicates: tuple[str, ...]
    missing: tuple[str, ...]  # predicates of the state whose values the piece does not mention


@dataclass(frozen=True, slots=True)
class Generation:
    """One text for a record. Log-probabilities are natural; None where the model assigns none (groups beyond L)."""

    id: str
    text: str
    plan: Plan
    plan_log_probability: float | None  # log p(z | x), normalised over all plans of the record
    text_log_probability: float  # log p(y | z, x)
    score: float  # what the joint choice maximises
    facts: tuple[WrittenFact, ...]

    @property
    def fulfilled(self) -> bool:
        """Whether every fact mentions the values of all triples that the plan put into it."""
        return not any(fact.missing for fact in self.facts)

    def as_dict(self) -> dict[str, object]:
        """The JSON form: one line of `agggen generate`'s output."""
        return {
            "id": self.id,
            "text": self.text,
            "plan": str(self.plan),
            "plan_log_probability": self.plan_log_probability,
            "text_log_probability": self.text_log_probability,
            "score": self.score,
            "fulfilled": self.fulfilled,
            "facts": [
                {
                    "start": fact.start,
                    "end": fact.end,
                    "text": self.text[fact.start : fact.end],
                    "predicates": list(fact.predicates),
                    **({"missing": list(fact.missing)} if fact.missing else {}),
                }
                for fact in self.facts
            ],
        }


@dataclass(frozen=True, slots=True)
class PlannedRecord:
    """A plan of a record with log p(z | x); None if a group is larger than the model's L."""

    plan: Plan
    log_probability: float | None


@dataclass(frozen=True, slots=True)
class AlignedText:
    """The most likely predicates behind each fact of a text, with the posterior of that state."""

    id: str
    facts: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    posteriors: tuple[float, ...]
    log_likelihood: float  # log p(y | x), over all plans
