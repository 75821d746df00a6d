"""Results of inference: candidate plans, generated texts, plans with probabilities, aligned texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agggen.display import PrettyPrinted, groups, html, plain
from agggen.planning import ScoredPlan
from agggen.records import Plan

PlanSearch = Literal["exact", "beam", "two-stage", "sample", "given", "random-order", "no-aggregation", "plain"]
"""The search that found a plan. exact: proven to be the most probable plans; beam: more probable plans may exist;
given: no search, since a human wrote the plan; the other values as in `InferenceConfig`."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The distinct plans of a record for which texts are generated, in indices of ``record.predicates``."""

    plans: tuple[ScoredPlan, ...]
    search: PlanSearch


@dataclass(frozen=True, slots=True)
class WrittenFact:
    """A segment ``text[start:end]`` of a generated text and the predicates of its group."""

    start: int
    end: int
    predicates: tuple[str, ...]
    missing: tuple[str, ...]  # predicates of the group whose values the segment does not express completely
    fallback: bool = False  # a training sentence or a plain clause, since no hypothesis passed the check

    def as_dict(self, text: str) -> dict[str, object]:
        """The JSON form; `text` is the complete text."""
        return {
            "start": self.start,
            "end": self.end,
            "text": text[self.start : self.end],
            "predicates": list(self.predicates),
            **({"missing": list(self.missing)} if self.missing else {}),
        }


@dataclass(frozen=True, slots=True)
class Generation(PrettyPrinted):
    """A generated text of a record, with natural log-probabilities."""

    id: str
    text: str
    plan: Plan
    plan_log_probability: float | None  # log p(z | x), None as in `PlannedRecord`
    plan_search: PlanSearch
    text_log_probability: float  # log p(y | z, x) of the generated words; -1 per word of a fallback
    score: float  # the joint score of text and plan (paper, equation 9)
    facts: tuple[WrittenFact, ...]
    faults: tuple[str, ...] = ()  # messages of the strict check of the complete text (`agggen.verification.check`)
    unknown_predicates: tuple[str, ...] = ()  # unknown from training; they are expressed in separate sentences
    copied: tuple[tuple[int, int], ...] = ()  # spans of words that the vocabulary lacks, copied from the record

    @property
    def fulfilled(self) -> bool:
        """Whether each fact expresses its values completely and the strict check finds no fault in the text."""
        return not self.faults and not any(fact.missing for fact in self.facts)

    @property
    def _shown(self) -> tuple[str, list[tuple[str, str]], tuple[str, ...]]:
        """What is displayed with plan and text: the plan's log-probability, the facts, the result of the check."""
        probability = self.plan_log_probability
        head = "" if probability is None else f"log p(plan) = {probability:.2f}"
        pieces = [self.text[fact.start : fact.end] for fact in self.facts]
        missing = [f"{name} is not said whole" for fact in self.facts for name in fact.missing]
        fallbacks = sum(fact.fallback for fact in self.facts)
        check = "; ".join(self.faults or missing) or "every value whole, no fault found"
        if fallbacks:
            check += f" ({fallbacks} of {len(self.facts)} facts in the corpus's own wording or as plain clauses)"
        facts = list(zip(groups([fact.predicates for fact in self.facts]), pieces, strict=True))
        return head, facts, (f"check: {check}",)

    def __str__(self) -> str:
        head, facts, remarks = self._shown
        return plain(f"{self.plan}   {head}".rstrip(), self.text, facts, remarks)

    def _repr_html_(self) -> str:
        return html(*self._shown)

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
            **({"copied": [list(span) for span in self.copied]} if self.copied else {}),
            "facts": [fact.as_dict(self.text) | ({"fallback": True} if fact.fallback else {}) for fact in self.facts],
        }


@dataclass(frozen=True, slots=True)
class PlannedRecord(PrettyPrinted):
    """A plan of a record with log p(z | x) over the plans that the settings allow.

    The log-probability is None if there are too many plans to sum over, or if the settings do not allow the plan: one
    of its groups is larger than the model's L or the level.
    """

    plan: Plan
    log_probability: float | None
    search: PlanSearch

    def __str__(self) -> str:
        return str(self.plan) + ("" if self.log_probability is None else f"   log p = {self.log_probability:.2f}")

    def as_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"plan": str(self.plan), "log_probability": self.log_probability, "search": self.search}


@dataclass(frozen=True, slots=True)
class AlignedText(PrettyPrinted):
    """The most likely group of each fact of a text, with its posterior probability."""

    id: str
    facts: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    posteriors: tuple[float, ...]
    log_likelihood: float  # log p(y | x), over all plans

    @property
    def _shown(self) -> tuple[str, list[tuple[str, str]], tuple[str, ...]]:
        facts = list(zip(groups(self.states), self.facts, strict=True))
        posteriors = "  ".join(f"{posterior:.2f}" for posterior in self.posteriors)
        return f"log p(text) = {self.log_likelihood:.2f}", facts, (f"posteriors: {posteriors}",)

    def __str__(self) -> str:
        head, facts, remarks = self._shown
        return plain(f"{' '.join(groups(self.states))}   {head}", "".join(self.facts), facts, remarks)

    def _repr_html_(self) -> str:
        return html(*self._shown)

    def as_dict(self) -> dict[str, object]:
        """The JSON form."""
        facts = [
            {"text": text, "predicates": list(group), "posterior": round(posterior, 6)}
            for text, group, posterior in zip(self.facts, self.states, self.posteriors, strict=True)
        ]
        return {"id": self.id, "facts": facts, "log_likelihood": self.log_likelihood}
