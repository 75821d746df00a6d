"""Requests to the generator (METHOD 10 in agggen/README.md).

With ``verify=strict``, the first search is unconstrained. If too few texts of the first plan are accepted, the other
plans are pruned at the first fact without a passing hypothesis; otherwise, ``choice=first`` omits them. If still too
few texts are accepted, a constrained search follows: under the plan of the best text, and under the other plans if this
plan leads to fallbacks.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from agggen.generation.config import BeamConfig, InferenceConfig
from agggen.generation.consensus import MARGIN, by_consensus
from agggen.generation.hypotheses import Hypothesis
from agggen.generation.record_constraints import RecordConstraints
from agggen.generation.results import Generation, PlanSearch
from agggen.generation.search import Expectation
from agggen.model.batch import Example
from agggen.planning import IndexPlan, ScoredPlan, restricted
from agggen.records import Record

# Pruning assumes that a record's further texts have at most these multiples of the length, and of the log-probability
# per triple, of its first text.
_MAX_LENGTH_RATIO, _LOG_P_RATIO = 1.25, 0.5
_REJECTED_MARGIN = 1.0  # an accepted text is not useful if its score is this far below that of enough rejected texts


@dataclass
class Request:
    """A record for which texts are generated, with its plans and its texts so far."""

    record: Record
    known_record: Record  # only the triples whose predicates are known from training
    known_indices: tuple[int, ...]  # indices in `record` of the triples of `known_record`
    source: Example  # `known_record`, encoded
    extras: list[str]  # out-of-vocabulary words of `known_record`
    constraints: RecordConstraints | None  # None: all texts are accepted
    plans: list[ScoredPlan]  # by descending score
    search: PlanSearch
    config: InferenceConfig
    count: int  # number of texts to return
    constrained: bool = False  # whether the current search is constrained
    accepted: list[Generation] = field(default_factory=list)  # by the current search, best first
    rejected: list[Generation] = field(default_factory=list)  # by the unconstrained search, best first
    unconstrained_texts: list[Generation] = field(default_factory=list)  # result of the finished unconstrained search
    consensus_samples: list[Generation] = field(default_factory=list)  # useful texts of that search, accepted or not
    best_plan: ScoredPlan | None = None  # the plan of the text with the highest score
    threshold: float = -math.inf  # the minimum score of a useful text; rises with each added text
    first_hypothesis: Hypothesis | None = None  # the best text of the plan that was decoded first

    def add(self, text: Generation, plan: ScoredPlan, accepted: bool) -> None:
        """Adds a text of `plan`, and updates the threshold."""
        if all(text.score > texts[0].score for texts in (self.accepted, self.rejected) if texts):
            self.best_plan = plan
        texts = self.accepted if accepted else self.rejected
        texts[:] = _best_first([*texts, text])
        scores = sorted((other.score for other in (*self.accepted, *self.rejected)), reverse=True)
        if self.count <= len(scores):
            self.threshold = scores[self.count - 1] - _REJECTED_MARGIN
        if self.count <= len(self.accepted):
            self.threshold = max(self.threshold, self.accepted[self.count - 1].score)
        if self.config.choice != "score":
            self.threshold -= MARGIN

    def useful_texts(self, texts: Iterable[Generation]) -> list[Generation]:
        """The texts that are not below the threshold; the order of the plans decides whether others are decoded."""
        return [text for text in texts if text.score >= self.threshold]

    @property
    def needs_constraints(self) -> bool:
        """Whether too few texts of the unconstrained search are accepted."""
        return self.constraints is not None and len(self.useful_texts(self.accepted)) < self.count

    @property
    def has_enough(self) -> bool:
        """Whether the other plans need not be decoded: the constrained search has `count` complete texts, or, with
        ``choice=first``, `count` texts of the most probable plan are accepted.
        """
        if self.constrained:
            return sum(map(_is_complete, self.accepted)) >= self.count
        return self.config.choice == "first" and len(self.useful_texts(self.accepted)) >= self.count

    def best_texts(self) -> list[Generation]:
        accepted = self.useful_texts(self.accepted)
        if self.config.choice != "score":
            accepted = by_consensus(
                accepted, self.consensus_samples if self.constrained else self.useful_texts(self.rejected)
            )
        unconstrained = {text.text for text in self.unconstrained_texts}
        return [*self.unconstrained_texts, *(text for text in accepted if text.text not in unconstrained)]

    def restart(self) -> None:
        """Starts the constrained search, which begins with the plan of the best text."""
        self.plans.sort(key=lambda plan: plan is not self.best_plan)
        self.unconstrained_texts = self.best_texts()
        self.consensus_samples = self.useful_texts((*self.accepted, *self.rejected))
        self.constrained, self.accepted, self.rejected = True, [], []
        self.threshold, self.first_hypothesis = -math.inf, None

    def accepts(self, text: Generation, plan: ScoredPlan, hypothesis: Hypothesis) -> bool:
        """Whether a text is fulfilled and each of its facts passes its constraint; True without constraints."""
        if self.constraints is None or not text.fulfilled:
            return self.constraints is None
        return self.constraints.accepts(self.groups(plan.states), hypothesis.facts)

    def required_score(self, plan: ScoredPlan) -> float:
        """The minimum score, without the plan's part of the joint score, of a useful text of `plan`."""
        return self.threshold - self.config.plan_weight * plan.score

    def expected(self, plan: ScoredPlan) -> Expectation | None:
        """Bounds on a useful text of `plan`, extrapolated from the first hypothesis; None before it."""
        if self.first_hypothesis is None or self.required_score(plan) == -math.inf:
            return None
        per_triple = _LOG_P_RATIO * self.first_hypothesis.log_probability / len(self.known_record.triples)
        return Expectation(self.required_score(plan), _MAX_LENGTH_RATIO * self.first_hypothesis.length, per_triple)

    def groups(self, plan: IndexPlan) -> IndexPlan:
        """The groups of `plan` as indices of the triples of `known_record`."""
        return restricted(plan, self.known_indices)


def _is_complete(text: Generation) -> bool:
    """Whether the text is fulfilled and has no fallback, except for unknown predicates, which always have one."""
    fallbacks = {name for fact in text.facts if fact.fallback for name in fact.predicates}
    return text.fulfilled and fallbacks <= {*text.unknown_predicates}


def _best_first(generations: Iterable[Generation]) -> list[Generation]:
    """The generations by descending score; of equal texts, only the best."""
    best: dict[str, Generation] = {}
    for generation in sorted(generations, key=lambda generation: (-generation.score, generation.text)):
        best.setdefault(generation.text, generation)
    return list(best.values())


def facts_before_sentences(plan: IndexPlan, known_indices: Collection[int]) -> frozenset[int]:
    """The 1-based numbers of the generated facts that are followed by sentences for unknown predicates."""
    numbers, n_facts = set(), 0
    for group in plan:
        n_facts += any(index in known_indices for index in group)
        if not all(index in known_indices for index in group):
            numbers.add(n_facts)
    return frozenset(numbers)


def batches_of(requests: Iterable[Request]) -> Iterable[list[Request]]:
    """Batches of requests with equal search settings and similar lengths, for at most `rows` hypotheses each."""
    by_settings: dict[tuple[BeamConfig, str, int], list[Request]] = {}
    for request in requests:
        by_settings.setdefault((request.config.beam, request.config.verify, request.config.rows), []).append(request)
    for (beam, _, rows), members in by_settings.items():
        members.sort(key=lambda request: (len(request.source.predicates), len(request.source.source)))
        size = max(rows // beam.beam, 1)
        yield from (members[begin : begin + size] for begin in range(0, len(members), size))
