"""Inference (paper, section 3.4): generates texts with plans from records, and aligns texts."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor

from agggen.encoding import Encoder
from agggen.generation.config import InferenceConfig
from agggen.generation.consensus import cost
from agggen.generation.constraints import Constraint
from agggen.generation.decoding import FALLBACK_WORD_LOG_P, FAULT_COST
from agggen.generation.fallbacks import fallback_sentences
from agggen.generation.hypotheses import Hypothesis, PlanPrefix
from agggen.generation.planner import Planner, check_size, unknown_groups
from agggen.generation.record_constraints import RecordConstraints, RestrictedWords, drop_unfinished
from agggen.generation.requests import Request, batches_of, facts_before_sentences
from agggen.generation.results import AlignedText, Candidates, Generation, PlannedRecord, PlanSearch, WrittenFact
from agggen.generation.search import BeamSearch, Task
from agggen.model.batch import collate
from agggen.model.hmm import log_likelihood, posterior, viterbi
from agggen.model.joint import JointModel
from agggen.planning import ScoredPlan, named_plan, resolve_plan
from agggen.records import Plan, Record
from agggen.text import detokenise_with_offsets
from agggen.text.linearise import ROLE_OBJECT, ROLE_SUBJECT
from agggen.text.tokenise import JOINER, tokenise
from agggen.verification.check import Checker
from agggen.verification.lexicon import Lexicon
from agggen.verification.normal import words
from agggen.verification.values import FUNCTION_WORDS

__all__ = ["AlignedText", "Candidates", "Generation", "Generator", "InferenceConfig", "PlannedRecord"]

_ALIGN_BATCH = 16
_FULL_STOP = f"{JOINER}."
_Segment = tuple[tuple[int, ...], list[str], bool]  # a fact's triple indices, its tokens, and whether it is a fallback


class Generator:
    """Generates and aligns texts with one model. Not thread-safe: one call at a time.

    `config` has the default settings; without a lexicon, the strict check matches values by rule only.
    """

    def __init__(
        self, model: JointModel, encoder: Encoder, config: InferenceConfig | None = None, lexicon: Lexicon | None = None
    ) -> None:
        self.model = model.eval()
        self.encoder = encoder
        self.checker = Checker(lexicon)
        self.config = config or InferenceConfig()
        self.planner = Planner(self.model.transitions, encoder, self.config)
        self.device = next(model.parameters()).device

    @cached_property
    def restricted(self) -> RestrictedWords:
        """The words that a fact may contain only if one of its triples licenses them."""
        return RestrictedWords(self.encoder.vocabulary, self.checker)

    def generate(
        self,
        records: Sequence[Record],
        plans: Sequence[Plan | None] | None = None,
        complete: bool = False,
        n_best: int = 1,
        config: InferenceConfig | None = None,
    ) -> list[list[Generation]]:
        """At most `n_best` different texts of each record, best first; plan and text are chosen jointly.

        Args:
            plans: the plan that each text must follow; None: plans are searched.
            complete: whether the model adds the predicates that a given plan omits; otherwise, omissions are errors.

        Raises:
            PlanError: a given plan does not fit its record, or the level exceeds the model's L.
            RecordError: a record has too many triples.
        """
        config, n = config or self.config, len(records)
        candidates = self.planner.candidates(records, plans, complete, config)
        return self.write(records, candidates, [n_best] * n, [config] * n)

    def write(
        self,
        records: Sequence[Record],
        candidates: Sequence[Candidates],
        counts: Sequence[int],
        configs: Sequence[InferenceConfig],
    ) -> list[list[Generation]]:
        """At most `counts` texts of each record, under its plans from `Planner.candidates`, best first.

        Facts without a hypothesis that passes the check, and predicates unknown from training, get a fallback: a
        sentence of the training texts or a plain clause. If all facts of the best text are fallbacks and no plan is
        given, they are grouped by subject (`unknown_groups`). Results do not depend on batch composition, up to
        floating-point rounding.
        """
        items = [self._request(*arguments) for arguments in zip(records, candidates, counts, configs, strict=True)]
        requests = [item for item in items if isinstance(item, Request)]
        for batch in batches_of(requests):
            self._write_batch(batch)
        insufficient = [request for request in requests if request.needs_constraints]
        for request in insufficient:
            request.restart()
        for batch in batches_of(insufficient):
            self._write_batch(batch)
        return [self._best_texts(item) if isinstance(item, Request) else [item] for item in items]

    def _request(
        self, record: Record, candidates: Candidates, count: int, config: InferenceConfig
    ) -> Request | Generation:
        """The request for a record, or its text if all its predicates are unknown."""
        strict = config.verify == "strict"
        ids = self.encoder.predicate_ids(record)
        known_indices = tuple(index for index, predicate_id in enumerate(ids) if predicate_id or not strict)
        if not known_indices:
            return self._fallback_text(record, candidates.plans[0], candidates.search)
        known_record = Record(record.id, tuple(record.triples[index] for index in known_indices))
        source, extras = self.encoder.source(known_record)
        constraints = None
        if strict:
            sentence_final_facts = frozenset[int]()
            if candidates.search == "given":
                sentence_final_facts = facts_before_sentences(candidates.plans[0].states, known_indices)
            constraints = RecordConstraints(self.restricted, known_record, extras, sentence_final_facts)
        plans, search = sorted(candidates.plans, key=lambda plan: -plan.score), candidates.search
        return Request(record, known_record, known_indices, source, extras, constraints, plans, search, config, count)

    def _best_texts(self, request: Request) -> list[Generation]:
        texts = request.best_texts()
        is_searched = request.config.ablation == "none" and request.search != "given"
        if texts and is_searched and all(fact.fallback for fact in texts[0].facts):
            size = request.config.level or self.planner.transitions.max_group_size
            (distribution,) = self.planner.distributions([request.record], [request.config])
            plan = distribution.scored(tuple(chain(*unknown_groups(request.record, (), size))))
            by_subject = replace(self._fallback_text(request.record, plan, request.search), score=texts[0].score)
            texts = [by_subject, *(text for text in texts if text.text != by_subject.text)]
        return texts[: request.count]

    def _fallback_text(self, record: Record, plan: ScoredPlan, search: PlanSearch) -> Generation:
        segments = [segment for group in plan.states for segment in self._fallback_segments(record, group)]
        log_probability = FALLBACK_WORD_LOG_P * sum(len(tokens) for _, tokens, _ in segments)
        return self._generation(record, plan, search, log_probability, 0.0, segments)

    def _write_batch(self, batch: Sequence[Request]) -> None:
        """Decodes the first plan of each request, then the other plans of requests that need more texts."""
        ranks = range(max(len(request.plans) for request in batch))
        for round_ranks in (ranks[:1], ranks[1:]):
            unfinished = [(i, request.plans) for i, request in enumerate(batch) if not request.has_enough]
            tasks = [(i, plans[rank]) for rank in round_ranks for i, plans in unfinished if rank < len(plans)]
            if tasks:
                self._write_plans(batch, tasks)

    def _write_plans(self, batch: Sequence[Request], tasks: Sequence[tuple[int, ScoredPlan]]) -> None:
        """Decodes the texts of `tasks`, pairs of request index and plan, and adds them to the requests."""
        config = batch[0].config

        def required_score(task: int) -> float:
            i, plan = tasks[task]
            return batch[i].required_score(plan)

        def constrain(prefix: PlanPrefix) -> Constraint:
            constraints = batch[prefix.record].constraints
            assert constraints is not None
            return constraints(prefix)

        must_pass_records = {
            i for i, request in enumerate(batch) if request.first_hypothesis and request.needs_constraints
        }

        def must_pass(prefix: PlanPrefix) -> Constraint | None:
            return constrain(prefix) if prefix.record in must_pass_records else None

        with torch.no_grad():
            memory = self.model.encode(collate([request.source for request in batch]).to(self.device))
        constraints = (constrain, None) if batch[0].constrained else (None, must_pass)
        search = BeamSearch(self.model, memory, config.beam, self._repeatable_words(batch), *constraints)
        max_facts = max(config.rows // config.beam.beam, 1)
        search_tasks = [Task(i, batch[i].groups(plan.states), batch[i].expected(plan)) for i, plan in tasks]
        for task, hypotheses in search.write(search_tasks, max_facts, required_score):
            i, plan = tasks[task]
            batch[i].first_hypothesis = batch[i].first_hypothesis or hypotheses[0]
            self._add_texts(batch[i], plan, hypotheses)

    def _add_texts(self, request: Request, plan: ScoredPlan, hypotheses: Sequence[Hypothesis]) -> None:
        """Adds the texts of `plan` that reach the required score, with their joint scores (paper, equation 9)."""
        for hypothesis in sorted(hypotheses, key=lambda hypothesis: -hypothesis.score):
            if hypothesis.score < request.required_score(plan):
                break
            text = self._text_of(request, plan, hypothesis)
            if request.constrained:
                request.add(replace(text, score=text.score - FAULT_COST * cost(text)), plan, True)
            else:
                request.add(text, plan, request.accepts(text, plan, hypothesis))

    def _text_of(self, request: Request, plan: ScoredPlan, hypothesis: Hypothesis) -> Generation:
        """The text of a hypothesis, with sentences for unknown predicates inserted at their places in the plan."""
        record, groups = request.record, request.groups(plan.states)
        generated = iter(zip(groups, hypothesis.facts, strict=True))
        segments: list[_Segment] = []
        for group in plan.states:
            known_indices = tuple(i for i in group if i in request.known_indices)
            if known_indices:
                known_group, fact_words = next(generated)
                constraints = request.constraints
                is_fallback = constraints is not None and constraints.ends_with_fallback(known_group, fact_words)
                tokens = self.encoder.vocabulary.decode(fact_words, request.extras, record)
                if is_fallback and segments and tokens[0] == _FULL_STOP:
                    previous = segments[-1][1]
                    drop_unfinished(previous)
                    previous.append(tokens.pop(0))
                segments.append((known_indices, tokens, is_fallback))
            segments += self._fallback_segments(record, [i for i in group if i not in known_indices])
        score = hypothesis.score + request.config.plan_weight * plan.score
        return self._generation(record, plan, request.search, hypothesis.log_probability, score, segments)

    def _fallback_segments(self, record: Record, group: Sequence[int]) -> list[_Segment]:
        """One segment for each of the `fallback_sentences` of triples with unknown predicates."""
        return [
            (tuple(group[i] for i in positions), [token.text for token in tokenise(text)], True)
            for positions, text in fallback_sentences(self.checker, [record.triples[index] for index in group])
        ]

    def _generation(
        self,
        record: Record,
        plan: ScoredPlan,
        search: PlanSearch,
        log_probability: float,
        score: float,
        segments: Sequence[_Segment],
    ) -> Generation:
        """Joins `segments` to a text; the spans of its facts cover the text without overlap."""
        tokens = [(token, fallback) for _, segment, fallback in segments for token in segment]
        text, spans = detokenise_with_offsets([token for token, _ in tokens])
        copied = [
            span
            for (token, fallback), span in zip(tokens, spans, strict=True)
            if not (fallback or self.encoder.vocabulary.can_generate(token)) and span[0] < span[1]
        ]
        facts, n_tokens, start = [], 0, 0
        for number, (group, segment, fallback) in enumerate(segments):
            n_tokens += len(segment)
            end = spans[n_tokens][0] if number + 1 < len(segments) and n_tokens < len(spans) else len(text)
            checks = dict(zip(sorted(group), self.checker.values(record, text[start:end], group), strict=True))
            missing = tuple(record.predicates[i] for i in group if not checks[i].whole)
            facts.append(WrittenFact(start, end, tuple(record.predicates[i] for i in group), missing, fallback))
            start = end
        return Generation(
            record.id,
            text,
            named_plan(record, plan.states),
            plan.log_probability,
            search,
            log_probability,
            score,
            tuple(facts),
            self.checker.check(record, text).faults,
            self.encoder.unknown_predicates(record),
            tuple(copied),
        )

    def _repeatable_words(self, batch: Sequence[Request]) -> Tensor:
        """(records, ids) True for words whose n-grams may be repeated: content words of subjects and objects."""
        vocabulary = self.encoder.vocabulary
        width = len(vocabulary) + max(len(request.extras) for request in batch)
        repeatable = torch.zeros(len(batch), width, dtype=torch.bool)
        for row, request in enumerate(batch):
            for word, role in zip(request.source.source, request.source.role, strict=True):
                if role in (ROLE_SUBJECT, ROLE_OBJECT):
                    tokens = vocabulary.decode([word], request.extras)
                    forms = (token_word.form for token in tokens for token_word in words(token.strip(JOINER)))
                    repeatable[row, word] |= any(form not in FUNCTION_WORDS for form in forms)
        return repeatable.to(self.device)

    def accepts(self, record: Record, text: Generation) -> bool:
        """Whether the constrained search could return `text`: no fact has a fault, and all predicates are known."""
        if not text.fulfilled or self.encoder.unknown_predicates(record):
            return False
        example = self.encoder.example(record, [text.text[fact.start : fact.end] for fact in text.facts])
        groups = resolve_plan(record, text.plan)
        has_unknown_word = any(self.encoder.vocabulary.UNK in fact for fact in example.facts)
        if has_unknown_word or len(example.facts) != len(groups):
            return False
        return RecordConstraints(self.restricted, record, self.encoder.source(record)[1]).accepts(groups, example.facts)

    @torch.no_grad()
    def align(self, records: Sequence[Record], facts: Sequence[Sequence[str]]) -> list[AlignedText]:
        """Viterbi alignment: the most likely group of each of the facts, the text's segments (paper, section 5.3); the
        empty group for a fact in which no word begins. Raises RecordError if a record has too many triples, or a text
        contains no words.
        """
        for record in records:
            check_size(record)
        texts = list(zip(records, facts, strict=True))
        aligned: list[AlignedText] = []
        for start in range(0, len(texts), _ALIGN_BATCH):
            batch_texts = texts[start : start + _ALIGN_BATCH]
            examples = [self.encoder.example(record, text_facts) for record, text_facts in batch_texts]
            batch = collate(examples).to(self.device)
            potentials, lattice = self.model.potentials(batch)
            _, best_states = viterbi(potentials, lattice)
            marginals = posterior(potentials, lattice)
            likelihood = log_likelihood(potentials, lattice)
            for row, (record, text_facts) in enumerate(batch_texts):
                groups: list[tuple[str, ...]] = [()] * len(text_facts)
                posteriors = [1.0] * len(text_facts)
                for t, fact in enumerate(examples[row].kept):
                    state = int(best_states[row, t])
                    groups[fact] = tuple(record.predicates[i] for i in lattice.states[state])
                    posteriors[fact] = float(marginals[row, t, state])
                log_p = float(likelihood[row])
                aligned.append(AlignedText(record.id, tuple(text_facts), tuple(groups), tuple(posteriors), log_p))
        return aligned
