"""Records in, texts with their plans out: the whole inference of paper section 3.4 behind one object.

`Generator.plan` searches plans, `Generator.generate` writes a text for each and picks jointly, `Generator.align` finds
the plan behind a given text. `generate` has two halves, which may run in different places: `candidates` plans, `write`
writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from agggen.encoding import Encoder
from agggen.errors import PlanError
from agggen.generation.config import BeamConfig, InferenceConfig
from agggen.generation.hypotheses import Hypothesis
from agggen.generation.planner import MAX_TRIPLES, Planner, check_size, each
from agggen.generation.results import AlignedText, Candidates, Generation, PlannedRecord, WrittenFact
from agggen.generation.search import BeamSearch, Task
from agggen.model.batch import Example, collate
from agggen.model.hmm import log_likelihood, posterior, viterbi
from agggen.model.joint import JointModel, Memory
from agggen.planning import IndexPlan, PlanScores, named_plan
from agggen.planning.scores import check_indices
from agggen.records import Plan, Record
from agggen.text import detokenise_with_offsets
from agggen.verification.lenient import invented, mentioned, misreadable

__all__ = [
    "MAX_TRIPLES",
    "AlignedText",
    "Candidates",
    "Generation",
    "Generator",
    "InferenceConfig",
    "PlannedRecord",
    "WrittenFact",
]


Scored = tuple[IndexPlan, float | None]
"""A plan with its log-probability; None: it is no plan of the model's."""


@dataclass
class _Wanted:
    """A record to write about."""

    record: Record
    source: Example
    extras: list[str]
    plans: list[Scored]  # the likeliest first
    config: InferenceConfig
    count: int  # of texts
    best: list[Generation]  # that were found, best first

    def needs(self, prior: float | None, best: Sequence[Generation] | None = None) -> float:
        """The score of its own below which a text of a plan of this log-probability is not among the `count` best."""
        best = self.best if best is None else best
        least = best[self.count - 1].score if self.count <= len(best) else -math.inf
        return least - self.config.plan_weight * (prior or 0.0)


class Generator:
    """Plans, writes and aligns with one model. Not thread-safe: one call at a time."""

    def __init__(self, model: JointModel, encoder: Encoder, config: InferenceConfig | None = None) -> None:
        self.model = model.eval()
        self.encoder = encoder
        self.config = config or InferenceConfig()
        self.planner = Planner(self.model.transitions, encoder, self.config)
        self.device = next(model.parameters()).device

    # --- plans ------------------------------------------------------------------------------------------------------

    def scores(self, records: Sequence[Record]) -> list[PlanScores]:
        """The transition scores of each record, in its own predicates' order.

        Raises:
            RecordError: a record has more than MAX_TRIPLES triples.
        """
        return self.planner.scores(records)

    def check(self, record: Record, plan: Plan | None = None, complete: bool = False) -> None:
        """Passes if `generate` can write about the record, with this human plan where one is given.

        Raises:
            RecordError: the record has too many triples.
            PlanError: the plan does not fit the record.
        """
        self.planner.check(record, plan, complete)

    def plan(self, records: Sequence[Record], k: int = 10, level: int = 0) -> list[list[PlannedRecord]]:
        """The k most likely plans of each record, with log p(z | x) over all plans of that level."""
        return self.planner.plan(records, k, level)

    # --- texts ------------------------------------------------------------------------------------------------------

    def generate(
        self,
        records: Sequence[Record],
        plans: Sequence[Plan | None] | None = None,
        complete: bool = False,
        n_best: int = 1,
        config: InferenceConfig | None = None,
    ) -> list[list[Generation]]:
        """The `n_best` best texts of each record, best first: `write` of its `candidates`.

        Args:
            records: records to write about; their references are not looked at.
            plans: a human plan for each record, followed exactly; None searches.
            complete: let the model add the predicates that a human plan omits (otherwise that is an error).
            n_best: how many texts, of different plans or wordings.
            config: overrides the generator's own.

        Raises:
            PlanError: a human plan does not fit its record, or the level exceeds the model's L.
            RecordError: a record has too many triples.
        """
        return self.write(records, self.candidates(records, plans, complete, config), n_best, config)

    def candidates(
        self,
        records: Sequence[Record],
        plans: Sequence[Plan | None] | None = None,
        complete: bool | Sequence[bool] = False,
        config: InferenceConfig | Sequence[InferenceConfig | None] | None = None,
    ) -> list[Candidates]:
        """The planning half of `generate`: the plans of each record that are to be written out.

        Arguments and errors are those of `generate`; `complete` and `config` may also be given for each record.
        """
        return self.planner.candidates(records, plans, complete, config)

    def write(
        self,
        records: Sequence[Record],
        candidates: Sequence[Candidates],
        n_best: int | Sequence[int] = 1,
        config: InferenceConfig | Sequence[InferenceConfig | None] | None = None,
    ) -> list[list[Generation]]:
        """The writing half of `generate`: the `n_best` best texts of each record among its candidate plans, best first.

        A text with a mistake (`InferenceConfig.missing_penalty`) is searched for again, `retries` times at most, among
        more plans and hypotheses (more hypotheses only, where a human gave the plan); the best of all is chosen.

        Records whose settings of the beam search are the same are searched together, whatever else differs between
        their configurations; nothing that a record gets depends on its company but the rounding of floats.

        Args:
            records: records to write about.
            candidates: what `candidates` gave for each record.
            n_best: how many texts, for all records or for each.
            config: overrides the generator's own, for all records or for each.

        Raises:
            PlanError: a record has no candidates, or one does not use each of its predicates once.
            RecordError: a record has too many triples.
        """
        n = len(records)
        configs = [item or self.config for item in each(config, n, "config")]
        counts = each(n_best, n, "n_best")
        for record, of_record in zip(records, candidates, strict=True):
            check_size(record)
            if not of_record.plans:
                raise PlanError(f"record {record.id!r} has no candidate plans; one is needed at least")
            for plan in of_record.plans:
                check_indices(len(record.triples), plan)
        results = self._write_once(records, candidates, configs, counts, [[]] * n)
        for tried in range(1, max((config.retries for config in configs), default=0) + 1):
            failed = [
                i for i in range(n) if tried <= configs[i].retries and _mistakes(records[i], results[i][0], configs[i])
            ]
            wider = [_wider(configs[i], tried) for i in failed]
            some = [records[i] for i in failed]
            planned = self.candidates(some, config=wider)
            again = [candidates[i] if candidates[i].given else new for i, new in zip(failed, planned, strict=True)]
            wanted, before = [counts[i] for i in failed], [results[i] for i in failed]
            for i, found in zip(failed, self._write_once(some, again, wider, wanted, before), strict=True):
                results[i] = found
        return [found[:count] for found, count in zip(results, counts, strict=True)]

    def _write_once(
        self,
        records: Sequence[Record],
        candidates: Sequence[Candidates],
        configs: Sequence[InferenceConfig],
        counts: Sequence[int],
        before: Sequence[list[Generation]],
    ) -> list[list[Generation]]:
        """The texts of each record that the beam search finds for its candidate plans, and those `before`, best first.

        The likeliest plan is written first. A text's own score is never above 0, so a plan whose weighted probability
        alone is below the record's `counts`-th best score so far is left out: none of its texts would be among those.
        """
        wanted = []
        for record, found, config, count, best in zip(records, candidates, configs, counts, before, strict=True):
            source, extras = self.encoder.source(record)
            scored = sorted(zip(found.plans, found.log_probabilities, strict=True), key=lambda pair: -(pair[1] or 0.0))
            wanted.append(_Wanted(record, source, extras, scored, config, count, best))
        for some in _by_work(wanted):
            self._write_together(some)
        return [each.best for each in wanted]

    def _write_together(self, some: Sequence[_Wanted]) -> None:
        """Finds the best texts of records that are searched together."""
        config = some[0].config

        def missing(which: int, group: Iterable[int], said: Sequence[int]) -> int:
            text, _ = detokenise_with_offsets(self.encoder.vocabulary.decode(said, some[which].extras))
            return sum(not mentioned(some[which].record.triples[i], text) for i in group)

        ranks = range(max(len(each.plans) for each in some))  # all first plans, then the second ones, ...
        tasks = [(i, each.plans[rank]) for rank in ranks for i, each in enumerate(some) if rank < len(each.plans)]

        def needs(task: int) -> float:
            i, (_, prior) = tasks[task]
            return some[i].needs(prior)

        search = BeamSearch(self.model, self._encode([each.source for each in some]), config.beam, missing)
        room = max(min(each.config.rows for each in some) // config.beam.beam, 1)
        for task, hypotheses in search.write([Task(i, plan) for i, (plan, _) in tasks], room, needs):
            i, scored = tasks[task]
            some[i].best = self._choose(some[i], scored, hypotheses)

    @torch.no_grad()
    def _encode(self, sources: Sequence[Example]) -> Memory:
        return self.model.encode(collate(sources).to(self.device))

    def _choose(self, wanted: _Wanted, scored: Scored, hypotheses: Sequence[Hypothesis]) -> list[Generation]:
        """The best texts with those of another plan, by their joint scores (paper equation 9), best first.

        What cannot be among the `count` best is not spelled out: mistakes only lower a score.
        """
        record, config, best, (plan, prior) = wanted.record, wanted.config, wanted.best, scored
        for hypothesis in sorted(hypotheses, key=lambda each: -each.score):
            if hypothesis.score < wanted.needs(prior, best):
                break
            text, facts = self._spell(record, plan, hypothesis, wanted.extras)
            score = hypothesis.score + config.plan_weight * (prior or 0.0)
            new = Generation(record.id, text, named_plan(record, plan), prior, hypothesis.log_probability, score, facts)
            if config.missing_penalty:
                new = replace(new, score=score - config.missing_penalty * _mistakes(record, new, config))
            best = _best_first([*best, new])
        return best

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
                check_size(record)
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


def _best_first(generations: Iterable[Generation]) -> list[Generation]:
    """By falling score, each text once."""
    best: dict[str, Generation] = {}
    for generation in generations:
        if generation.text not in best or best[generation.text].score < generation.score:
            best[generation.text] = generation
    return sorted(best.values(), key=lambda g: (-g.score, g.text))


def _mistakes(record: Record, written: Generation, config: InferenceConfig) -> int:
    """Values that their fact does not mention, and values that the text has from nowhere."""
    found = sum(len(fact.missing) for fact in written.facts) + invented(record, written.text)
    return found + misreadable(record, written.text) if config.verifier == "strict" else found


def _wider(config: InferenceConfig, tried: int) -> InferenceConfig:
    """The search after `tried` others."""
    beam = replace(config.beam, beam=config.beam.beam * 2**tried, mention_all=True)
    return replace(config, plans=config.plans * 4**tried, beam=beam)


def _by_work(wanted: Iterable[_Wanted]) -> Iterable[list[_Wanted]]:
    """What is searched together: records of the same settings and similar length, of about `rows` hypotheses a plan."""
    by_beam: dict[BeamConfig, list[_Wanted]] = {}
    for one in wanted:
        by_beam.setdefault(one.config.beam, []).append(one)
    for beam, alike in by_beam.items():
        chunk: list[_Wanted] = []
        limit = 0
        for one in sorted(alike, key=lambda one: (len(one.source.predicates), len(one.source.source))):
            limit = min(limit or one.config.rows, one.config.rows)
            if chunk and (len(chunk) + 1) * beam.beam > limit:
                yield chunk
                chunk, limit = [], one.config.rows
            chunk.append(one)
        if chunk:
            yield chunk
