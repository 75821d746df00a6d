"""Records in, texts with their plans out: the whole inference of paper section 3.4 behind one object.

`Generator.plan` searches plans, `Generator.generate` writes a text for each and picks jointly, `Generator.align` finds
the plan behind a given text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from agggen.encoding import Encoder
from agggen.errors import ConfigError, PlanError, RecordError
from agggen.evaluation.coverage import mentioned
from agggen.generation.search import BeamConfig, Hypothesis, Task, beam_search
from agggen.model.batch import Example, collate
from agggen.model.hmm import log_likelihood, posterior, viterbi
from agggen.model.joint import JointModel
from agggen.model.lattice import lattice
from agggen.planning import (
    IndexPlan,
    PlanScores,
    ScoredPlan,
    k_best,
    log_partition,
    named_plan,
    no_aggregation,
    ordered_states,
    plan_score,
    random_order,
    resolve_plan,
    two_stage,
)
from agggen.records import Plan, Record
from agggen.text import detokenise_with_offsets

MAX_TRIPLES = 24
"""Records with more triples are refused: the corpora end at 7, and states grow with the cube of the triples."""


@dataclass(frozen=True)
class InferenceConfig:
    """How plans are searched and texts are written and chosen."""

    planner: Literal["exact", "two-stage"] = "exact"
    plans: int = 5  # plans that are written out for each record
    order_beam: int = 3  # two-stage: orders kept (paper section 3.4, k)
    aggregations: int = 2  # two-stage: groupings kept for each order (n)
    level: int = 0  # largest number of triples in a fact; 0 means the model's L, 1 means no aggregation
    ablation: Literal["none", "random-order", "no-aggregation", "plain"] = "none"  # -OD, -AG, the plain Transformer
    plan_weight: float = 1.0  # weight of log p(z | x) against the text's score in the joint choice
    missing_penalty: float = 1.0  # taken off the joint choice's score for each value that its fact does not mention
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
        ):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("plan_weight", "missing_penalty"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a number of 0 or more, not {getattr(self, name)}")


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


class Generator:
    """Plans, writes and aligns with one model. Not thread-safe: one call at a time."""

    def __init__(self, model: JointModel, encoder: Encoder, config: InferenceConfig | None = None) -> None:
        self.model = model.eval()
        self.encoder = encoder
        self.config = config or InferenceConfig()
        self.device = next(model.parameters()).device

    # --- plans ------------------------------------------------------------------------------------------------------

    def scores(self, records: Sequence[Record]) -> list[PlanScores]:
        """The transition scores of each record, in its own predicates' order.

        Raises:
            RecordError: a record has more than MAX_TRIPLES triples.
        """
        return self._scores([self._source(record) for record in records])

    def check(self, record: Record, plan: Plan | None = None, complete: bool = False) -> None:
        """Passes if `generate` can write about the record, with this human plan where one is given.

        Raises:
            RecordError: the record has too many triples.
            PlanError: the plan does not fit the record.
        """
        self._source(record)
        if plan is not None:
            resolve_plan(record, plan, complete=complete, scores=self.scores([record])[0] if complete else None)

    def _source(self, record: Record) -> Example:
        if len(record.triples) > MAX_TRIPLES:
            raise RecordError(
                f"record {record.id!r} has {len(record.triples)} triples; at most {MAX_TRIPLES} can be planned at "
                "once, so split it into several records"
            )
        return self.encoder.source(record)[0]

    @torch.no_grad()
    def _scores(self, sources: Sequence[Example]) -> list[PlanScores]:
        found: dict[int, PlanScores] = {}
        by_size: dict[int, list[int]] = {}
        for index, source in enumerate(sources):
            by_size.setdefault(len(source.predicates), []).append(index)
        for n, indices in by_size.items():
            states = lattice(n, self.model.config.max_state)
            order = ordered_states(n, self.model.config.max_state)
            place = {state: i for i, state in enumerate(states.states)}
            columns = torch.tensor([place[state] for state in order])
            predicates = torch.tensor([sources[i].predicates for i in indices], device=self.device)
            counts = torch.full((len(indices),), n, device=self.device)
            on_device = lattice(n, self.model.config.max_state, str(predicates.device))
            start, out, inside_start, inside, within = (
                tensor.double().cpu() for tensor in self.model.transitions(predicates, counts, on_device)
            )
            for row, i in enumerate(indices):
                found[i] = PlanScores(
                    start[row].numpy(),
                    out[row].numpy(),
                    inside_start[row].numpy(),
                    inside[row].numpy(),
                    order,
                    within[row][columns].numpy(),
                )
        return [found[i] for i in range(len(sources))]

    def plan(self, records: Sequence[Record], k: int = 10, level: int = 0) -> list[list[PlannedRecord]]:
        """The k most likely plans of each record, with log p(z | x) over all plans of that level."""
        limit = level or None
        planned = []
        for record, scores in zip(records, self.scores(records), strict=True):
            norm = log_partition(scores, limit)
            planned.append(
                [
                    PlannedRecord(named_plan(record, found.states), _normalised(found.log_probability, norm))
                    for found in k_best(scores, k, limit)
                ]
            )
        return planned

    def _candidates(self, record: Record, scores: PlanScores, config: InferenceConfig) -> list[IndexPlan]:
        limit = config.level or None
        found: list[ScoredPlan]
        if config.ablation == "plain":  # the whole text is one fact
            return [(tuple(range(len(record.triples))),)]
        if config.ablation == "random-order":
            rng = np.random.default_rng([config.seed, *record.id.encode()])
            found = random_order(scores, rng, config.aggregations, limit)
        elif config.ablation == "no-aggregation":
            found = no_aggregation(scores, config.order_beam)
        elif config.planner == "two-stage":
            found = two_stage(scores, config.order_beam, config.aggregations, limit)[: config.plans]
        else:
            found = k_best(scores, config.plans, limit)
        return list(dict.fromkeys(plan.states for plan in found))

    # --- texts ------------------------------------------------------------------------------------------------------

    def generate(
        self,
        records: Sequence[Record],
        plans: Sequence[Plan | None] | None = None,
        complete: bool = False,
        n_best: int = 1,
        config: InferenceConfig | None = None,
    ) -> list[list[Generation]]:
        """The `n_best` best texts of each record, best first.

        Args:
            records: records to write about; their references are not looked at.
            plans: a human plan for each record, followed exactly; None searches.
            complete: let the model add the predicates that a human plan omits (otherwise that is an error).
            n_best: how many texts, of different plans or wordings.
            config: overrides the generator's own.

        Raises:
            PlanError: a human plan does not fit its record.
            RecordError: a record has too many triples.
        """
        config = config or self.config
        if config.level and config.level > self.model.config.max_state:
            limit = self.model.config.max_state
            raise PlanError(
                f"aggregation level {config.level} exceeds this model's largest group of {limit} predicates"
            )
        sources = [self._source(record) for record in records]
        scores = self._scores(sources)
        candidates: list[list[IndexPlan]] = []
        for i, record in enumerate(records):
            human = plans[i] if plans is not None else None
            if human is None:
                candidates.append(self._candidates(record, scores[i], config))
            else:
                candidates.append([resolve_plan(record, human, complete=complete, scores=scores[i])])
        results: dict[int, list[Generation]] = {}
        for chunk in _by_work(sources, candidates, config):
            written = self._write([sources[i] for i in chunk], [candidates[i] for i in chunk], config)
            for i, found in zip(chunk, written, strict=True):
                results[i] = self._choose(records[i], scores[i], candidates[i], found, config)[:n_best]
        return [results[i] for i in range(len(records))]

    @torch.no_grad()
    def _write(
        self, sources: Sequence[Example], candidates: Sequence[Sequence[IndexPlan]], config: InferenceConfig
    ) -> list[list[list[Hypothesis]]]:
        """For each record and each of its plans, the hypotheses of the beam."""
        memory = self.model.encode(collate(sources).to(self.device))
        tasks = [Task(i, plan) for i, plans in enumerate(candidates) for plan in plans]
        found = iter(beam_search(self.model, memory, tasks, config.beam))
        return [[next(found) for _ in plans] for plans in candidates]

    def _choose(
        self,
        record: Record,
        scores: PlanScores,
        plans: Sequence[IndexPlan],
        found: Sequence[Sequence[Hypothesis]],
        config: InferenceConfig,
    ) -> list[Generation]:
        """All texts of a record by falling joint score (paper equation 9)."""
        norm = log_partition(scores)
        _, extras = self.encoder.source(record)
        generations: dict[str, Generation] = {}
        for plan, hypotheses in zip(plans, found, strict=True):
            chain = plan_score(scores, plan)
            prior = None if chain is None else _normalised(chain, norm)
            for hypothesis in hypotheses:
                text, facts = self._spell(record, plan, hypothesis, extras)
                missing = sum(len(fact.missing) for fact in facts)
                score = hypothesis.score + config.plan_weight * (prior or 0.0) - config.missing_penalty * missing
                if text not in generations or generations[text].score < score:
                    generations[text] = Generation(
                        record.id, text, named_plan(record, plan), prior, hypothesis.log_probability, score, facts
                    )
        return sorted(generations.values(), key=lambda g: (-g.score, g.text))

    def _spell(
        self, record: Record, plan: IndexPlan, hypothesis: Hypothesis, extras: list[str]
    ) -> tuple[str, tuple[WrittenFact, ...]]:
        """The text of a hypothesis and the span of each fact; spans cover the text without overlap."""
        pieces = [self.encoder.vocabulary.decode(fact, extras) for fact in hypothesis.facts]
        text, spans = detokenise_with_offsets([token for piece in pieces for token in piece])
        facts, token, start = [], 0, 0
        for number, (group, piece) in enumerate(zip(plan, pieces, strict=True)):
            token += len(piece)
            end = len(text) if number + 1 == len(plan) else (spans[token][0] if token < len(spans) else len(text))
            missing = tuple(record.predicates[i] for i in group if not mentioned(record.triples[i], text[start:end]))
            facts.append(WrittenFact(start, end, tuple(record.predicates[i] for i in group), missing))
            start = end
        return text, tuple(facts)

    # --- alignment --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def align(
        self, records: Sequence[Record], facts: Sequence[Sequence[str]], batch_size: int = 16
    ) -> list[AlignedText]:
        """Viterbi alignment of given texts: the most likely state behind each fact (paper section 5.3).

        A fact in which no word begins gets the empty state. The search is over all states, without hard alignment.

        Raises:
            RecordError: a record has too many triples, or a text holds no words.
        """
        aligned: list[AlignedText] = []
        for begin in range(0, len(records), batch_size):
            some = list(zip(records, facts, strict=True))[begin : begin + batch_size]
            examples = []
            for record, pieces in some:
                self._source(record)
                examples.append(self.encoder.example(record, pieces))
            batch = collate(examples).to(self.device)
            potentials, states = self.model.potentials(batch, prune=False)
            _, best = viterbi(potentials, states)
            marginals = posterior(potentials, states)
            likelihood = log_likelihood(potentials, states)
            for row, (record, pieces) in enumerate(some):
                found = {fact: (t, int(best[row, t])) for t, fact in enumerate(examples[row].kept)}
                named = tuple(
                    tuple(record.predicates[i] for i in states.states[found[k][1]]) if k in found else ()
                    for k in range(len(pieces))
                )
                certainty = tuple(float(marginals[row, *found[k]]) if k in found else 1.0 for k in range(len(pieces)))
                aligned.append(AlignedText(record.id, tuple(pieces), named, certainty, float(likelihood[row])))
        return aligned


def _normalised(chain: float, norm: float | None) -> float:
    """log p(z | x); the chain's own log-probability where the sum over all plans is too large to compute."""
    return chain if norm is None else min(chain - norm, 0.0)


def _by_work(
    sources: Sequence[Example], candidates: Sequence[Sequence[IndexPlan]], config: InferenceConfig
) -> Iterable[list[int]]:
    """Indices of records of similar length whose plans fill about `config.rows` hypotheses."""
    order = sorted(range(len(sources)), key=lambda i: (len(sources[i].predicates), len(sources[i].source), i))
    chunk: list[int] = []
    rows = 0
    for i in order:
        work = len(candidates[i]) * config.beam.beam
        if chunk and rows + work > config.rows:
            yield chunk
            chunk, rows = [], 0
        chunk.append(i)
        rows += work
    if chunk:
        yield chunk
