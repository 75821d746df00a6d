"""Requests to the generator: a record, its plans, and the texts so far.

With ``verify=strict`` the texts of a record are first searched without constraints. Texts that the constrained search
could have written are accepted. If no text of the first plan is, the search under the other plans is limited to such
texts. If too few are accepted, the record is searched again, with constraints: first under the plan of the best text,
and under the others only if facts fell back there. Unconstrained texts are better: constraints lead the beam to
wordings that the model would not choose.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from agggen.generation.config import BeamConfig, InferenceConfig
from agggen.generation.consensus import MARGIN, by_consensus
from agggen.generation.hypotheses import Hypothesis
from agggen.generation.results import Generation, PlanSearch
from agggen.generation.search import Expectation
from agggen.generation.truth import RecordConstraints
from agggen.model.batch import Example
from agggen.planning import IndexPlan, ScoredPlan, restricted
from agggen.records import Record

_MAX_LENGTH_RATIO = 1.25
"""Pruning assumes that further texts of a record are at most this many times as long as its first text."""
_LOG_P_RATIO = 0.5
"""Pruning assumes that the log-probability per triple of further texts is at most this multiple of the first's."""
_REJECTED_MARGIN = 1.0
"""An accepted text is not useful if its score is lower by more than this than that of a rejected text."""


@dataclass
class Request:
    """A record for which texts are generated, with its plans and its texts so far."""

    record: Record
    known: Record  # the triples whose predicates are known from training
    indices: tuple[int, ...]  # of the known triples in the record
    source: Example  # `known`, linearised
    extras: list[str]  # out-of-vocabulary words of `known`
    constraints: RecordConstraints | None  # None: the text is not constrained
    plans: list[ScoredPlan]  # by descending score
    search: PlanSearch
    config: InferenceConfig
    count: int  # number of texts to return
    constrained: bool = False  # whether the search is constrained
    accepted: list[Generation] = field(default_factory=list)  # so far, best first
    rejected: list[Generation] = field(default_factory=list)  # texts of the free search that do not pass, best first
    earlier: list[Generation] = field(default_factory=list)  # the result of the free search, during the constrained one
    samples: list[Generation] = field(default_factory=list)  # the useful texts of the free search, for the constrained
    best_plan: ScoredPlan | None = None  # of the text with the highest score
    threshold: float = -math.inf  # the lowest score of a useful text; rises with the texts
    first: Hypothesis | None = None  # the best text of the first plan that was decoded

    def add(self, text: Generation, plan: ScoredPlan, accepted: bool) -> None:
        """Adds a text of `plan`, and raises the threshold."""
        if all(text.score > texts[0].score for texts in (self.accepted, self.rejected) if texts):
            self.best_plan = plan
        texts = self.accepted if accepted else self.rejected
        texts[:] = _best_first([*texts, text])
        scores = [item.score for item in self.accepted]
        all_scores = sorted((*scores, *(item.score for item in self.rejected)), reverse=True)
        if self.count <= len(all_scores):
            self.threshold = all_scores[self.count - 1] - _REJECTED_MARGIN
        if self.count <= len(scores):
            self.threshold = max(self.threshold, scores[self.count - 1])
        if self.config.choice == "consensus":
            self.threshold -= MARGIN

    def useful(self, texts: Iterable[Generation]) -> list[Generation]:
        """The texts that are not below the threshold.

        Whether the others are decoded depends on the order of the plans, so they must not change the result.
        """
        return [text for text in texts if text.score >= self.threshold]

    @property
    def needs_constraints(self) -> bool:
        """Whether fewer than `count` texts of the unconstrained search are accepted."""
        return self.constraints is not None and len(self.useful(self.accepted)) < self.count

    @property
    def has_enough(self) -> bool:
        """Whether other plans need not be decoded: the constrained search has `count` texts without a fallback."""
        return self.constrained and sum(map(_is_complete, self.accepted)) >= self.count

    def best(self) -> list[Generation]:
        """The accepted texts, best first. The consensus is with all useful texts: for a constrained text, with those of
        the free search.
        """
        accepted = self.useful(self.accepted)
        if self.config.choice == "consensus":
            accepted = by_consensus(accepted, self.samples if self.constrained else self.useful(self.rejected))
        known = {text.text for text in self.earlier}
        return [*self.earlier, *(text for text in accepted if text.text not in known)]

    def restart(self) -> None:
        """Prepares the constrained search, which begins with the plan of the best text."""
        self.plans.sort(key=lambda plan: plan is not self.best_plan)
        self.earlier = self.best()
        self.samples = self.useful((*self.accepted, *self.rejected))
        self.constrained, self.accepted, self.rejected = True, [], []
        self.threshold, self.first = -math.inf, None

    def accepts(self, text: Generation, plan: ScoredPlan, hypothesis: Hypothesis) -> bool:
        """Whether a text is fulfilled and each fact of its hypothesis passes; always, if there are no constraints."""
        if self.constraints is None or not text.fulfilled:
            return self.constraints is None
        return self.constraints.accept(self.groups(plan.states), hypothesis.facts)

    def required_score(self, plan: ScoredPlan) -> float:
        """The lowest score, excluding the plan's score, of a useful text of `plan`."""
        return self.threshold - self.config.plan_weight * plan.score

    def expected(self, plan: ScoredPlan) -> Expectation | None:
        """Bounds on a useful text of `plan`, extrapolated from `first`; None without `first` or a required score."""
        if self.first is None or self.required_score(plan) == -math.inf:
            return None
        per_triple = _LOG_P_RATIO * self.first.log_probability / len(self.known.triples)
        return Expectation(self.required_score(plan), _MAX_LENGTH_RATIO * self.first.length, per_triple)

    def groups(self, plan: IndexPlan) -> IndexPlan:
        """The groups of `plan` as indices of `known`, without unknown triples."""
        return restricted(plan, self.indices)


def _is_complete(text: Generation) -> bool:
    """Whether the text is fulfilled and all its fallbacks are facts of unknown predicates, which every plan has."""
    fallbacks = {name for fact in text.facts if fact.fallback for name in fact.predicates}
    return text.fulfilled and fallbacks <= {*text.unknown_predicates}


def _best_first(generations: Iterable[Generation]) -> list[Generation]:
    """The generations by descending score; of duplicate texts, only the best is kept."""
    best: dict[str, Generation] = {}
    for generation in generations:
        if generation.text not in best or best[generation.text].score < generation.score:
            best[generation.text] = generation
    return sorted(best.values(), key=lambda g: (-g.score, g.text))


def before_clauses(plan: IndexPlan, indices: Collection[int]) -> frozenset[int]:
    """The numbers (from 1) of generated facts that precede a clause; `indices`: the triples of known predicates."""
    positions, facts = set(), 0
    for group in plan:
        facts += any(index in indices for index in group)
        if not all(index in indices for index in group):
            positions.add(facts)
    return frozenset(positions)


def batches_of(requests: Iterable[Request]) -> Iterable[list[Request]]:
    """Batches of requests with the same search settings and similar lengths, whose first plans fit in `rows`."""
    by_settings: dict[tuple[BeamConfig, str, int], list[Request]] = {}
    for request in requests:
        by_settings.setdefault((request.config.beam, request.config.verify, request.config.rows), []).append(request)
    for (beam, _, rows), members in by_settings.items():
        members.sort(key=lambda item: (len(item.source.predicates), len(item.source.source)))
        size = max(rows // beam.beam, 1)
        yield from (members[begin : begin + size] for begin in range(0, len(members), size))
