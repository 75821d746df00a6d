"""Beam search under plans, batched over records, plans and beams, with key-value caches (METHOD 3 and 6, README).

Fact t is decoded under the mask of its group's triples. As in training, its K finished hypotheses are then encoded
again under the mask of all triples, as the history of fact t + 1 (`history="shared"`); with `history="masked"`, the
text so far is encoded again under the mask of the next group.

Plans with a common prefix share the search for its facts, since an emission depends only on the set of triples. Facts
of different plans and records are decoded in one batch, which new facts join as others finish (continuous batching).
The K hypotheses of a plan are K queries to one copy of the encoded record. Caches are not reordered: positions stay in
place, and a mask selects those of each hypothesis. Plans whose texts cannot reach the required score are pruned.

A text is a sequence of words and marks: a mark (FACT or LAST) begins each fact. Shapes: n plan prefixes, K beams, Q
cached positions, P positions of a text, W words of the longest active fact; other letters as in `agggen.model`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from agggen.generation.config import BeamConfig
from agggen.generation.constraints import Constraint
from agggen.generation.decoding import FAULT_COST, decode, decode_facts
from agggen.generation.hypotheses import (
    ActiveFacts,
    Beams,
    DecodedPrefix,
    FinishedFacts,
    History,
    Hypothesis,
    PlanPrefix,
    Texts,
    gather_beams,
    penalty,
)
from agggen.model.batch import FACT, LAST, PAD
from agggen.model.joint import JointModel, Memory
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache
from agggen.model.transitions import full_precision

_TOLERANCE = 1 + 1e-5  # factor of the pruning bound, so that rounding errors do not prune ties


class Expectation(NamedTuple):
    """Estimated bounds on a useful text; tasks that can no longer meet them are pruned, which may change results."""

    score: float  # minimum score
    length: float  # maximum number of words and marks
    per_triple: float  # maximum log-probability of the words for a further triple


@dataclass(frozen=True)
class Task:
    """A text to generate: `record` is an index into the memory, `groups` the triple indices of each fact."""

    record: int
    groups: tuple[tuple[int, ...], ...]
    expected: Expectation | None = None


class Agenda:
    """The undecoded facts of several plans, as plan prefixes; they are ready when their parents have been decoded."""

    def __init__(self, plans: Sequence[PlanPrefix]) -> None:
        self._plans = plans
        self._unfinished = set(range(len(plans)))
        self._plans_with: dict[PlanPrefix, list[int]] = {}
        for index, plan in enumerate(plans):
            for prefix in plan.prefixes():
                self._plans_with.setdefault(prefix, []).append(index)
        self._ready = {plan.first(1) for plan in plans}

    def unfinished(self, prefix: PlanPrefix) -> list[int]:
        """Indices of the unfinished plans that have `prefix` as a prefix."""
        return [index for index in self._plans_with[prefix] if index in self._unfinished]

    def finish(self, plan: int) -> None:
        """Marks the plan of this index as finished or pruned."""
        self._unfinished.discard(plan)

    def mark_decoded(self, prefix: PlanPrefix) -> list[PlanPrefix]:
        """Marks `prefix` as decoded; returns the prefixes that have become ready."""
        plans = (self._plans[index] for index in self.unfinished(prefix))
        children = list(dict.fromkeys(plan.first(len(prefix.groups) + 1) for plan in plans))
        self._ready.update(children)
        return children

    def next(self) -> PlanPrefix | None:
        """The ready prefix of the plan with the lowest index; None if no prefix is ready."""
        while self._ready:
            prefix = min(self._ready, key=lambda ready: self._plans_with[ready][0])
            self._ready.remove(prefix)
            if self.unfinished(prefix):
                return prefix
        return None


class BeamSearch:
    """Decodes texts for the encoded records of `memory`.

    Args:
        repeatable: (records, ids) True for words whose n-grams may be repeated.
        constrain: returns the constraint of the last fact of a plan prefix. [default: unconstrained search]
        must_pass: returns the constraint (or None) of a finished fact; a plan is pruned at the first fact that fails.
    """

    def __init__(
        self,
        model: JointModel,
        memory: Memory,
        config: BeamConfig,
        repeatable: Tensor,
        constrain: Callable[[PlanPrefix], Constraint] | None = None,
        must_pass: Callable[[PlanPrefix], Constraint | None] | None = None,
    ) -> None:
        self.model, self.memory, self.config, self.repeatable = model, memory, config, repeatable
        self.constrain, self.must_pass = cache(constrain) if constrain else None, must_pass
        self.device = memory.ids.device
        self._cross = [Cache.of(layer) for layer in memory.cross]

    @torch.no_grad()
    def write(
        self, tasks: Sequence[Task], max_facts: int, required_score: Callable[[int], float]
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yields the index and the hypotheses (best first) of each task when it finishes; none if it was pruned.

        `tasks` are in order of priority; at most `max_facts` facts are in a batch. `required_score` returns the minimum
        score of a useful text by task index, which may rise during the search; each fallback of a text reduces its
        score by `FAULT_COST`. If no hypothesis can end, the only one is empty, with log-probability IMPOSSIBLE.
        """
        plans = [PlanPrefix.of(task.record, task.groups) for task in tasks]
        agenda = Agenda(plans)
        parents = self._first_parents(plans)  # the decoded parent of each ready prefix
        best_log_p = {prefix.parent(): 0.0 for prefix in parents}  # by decoded prefix, as the next two
        max_length = {prefix.parent(): 0 for prefix in parents}
        fallback_cost = {prefix.parent(): 0.0 for prefix in parents}
        facts: ActiveFacts | None = None

        def required_log_p(task: int, prefix: PlanPrefix, length: int) -> float:
            """The minimum log-probability with which a prefix of this length can reach the required score of `task`:
            further words can only lower it, and the length penalty is largest at the maximum length.
            """
            remaining, expected = tasks[task].groups[len(prefix.groups) :], tasks[task].expected
            longest = length + len(remaining) * (self.config.max_fact_tokens + 1)
            max_penalty = penalty(longest, self.config.length_penalty)
            required = (required_score(task) + fallback_cost[prefix]) * max_penalty * _TOLERANCE
            if expected is None:
                return required
            expected_log_p = expected.score * penalty(min(longest, expected.length), self.config.length_penalty)
            return max(required, expected_log_p * _TOLERANCE - expected.per_triple * sum(map(len, remaining)))

        while True:
            ready: dict[PlanPrefix, float] = {}  # by prefix: the lowest log-probability that one of its plans requires
            while len(ready) + (len(facts.prefixes) if facts else 0) < max_facts and (prefix := agenda.next()):
                parent = prefix.parent()
                for task in agenda.unfinished(prefix):
                    if best_log_p[parent] < required_log_p(task, parent, max_length[parent]):
                        agenda.finish(task)
                        yield task, []
                if unpruned := agenda.unfinished(prefix):
                    longest = max_length[parent] + self.config.max_fact_tokens + 1
                    fallback_cost[prefix] = fallback_cost[parent]
                    ready[prefix] = min(required_log_p(task, prefix, longest) for task in unpruned)
            if ready:
                facts = self._add_facts(ready, parents, facts)
            if not facts:
                return
            # Few, large batches are fastest: at least half of the facts are finished before they are encoded.
            finished = decode_facts(self.model, self.config, facts, len(facts.prefixes) // 2, self.constrain)
            failed = self._reject_failing(finished)
            texts = finished.texts()
            log_p, length = texts.log_p.amax(1).tolist(), texts.length.amax(1).tolist()
            for row, prefix in enumerate(finished.prefixes):
                best_log_p[prefix], max_length[prefix] = log_p[row], length[row]
                fallback_cost[prefix] += FAULT_COST * (prefix in finished.fallbacks)
                for task in agenda.unfinished(prefix):
                    required = required_log_p(task, prefix, max_length[prefix])
                    reachable = prefix not in failed and best_log_p[prefix] >= required
                    if prefix.is_complete or not reachable:
                        agenda.finish(task)
                        yield task, texts.hypotheses(row, self.config.length_penalty) if reachable else []
            parents_of = [parents.pop(prefix) for prefix in finished.prefixes]
            continued = [row for row, prefix in enumerate(finished.prefixes) if agenda.unfinished(prefix)]
            for similar_rows in _similar_lengths(texts, continued):
                rows = [similar_rows[i] for i in DecodedPrefix.order([parents_of[row] for row in similar_rows])]
                decoded = self._encode_finished(finished, texts, rows, [parents_of[row] for row in rows])
                for new_row, row in enumerate(rows):
                    parents |= dict.fromkeys(agenda.mark_decoded(finished.prefixes[row]), replace(decoded, row=new_row))
            if not facts.prefixes:
                facts = None

    def _reject_failing(self, finished: FinishedFacts) -> set[PlanPrefix]:
        """Makes hypotheses that fail `must_pass` IMPOSSIBLE; returns the prefixes without a passing hypothesis."""
        failed: set[PlanPrefix] = set()
        for row, prefix in enumerate(finished.prefixes):
            if constraint := self.must_pass(prefix) if self.must_pass else None:
                possible = (finished.beams.log_p[row] > IMPOSSIBLE / 2).tolist()
                passed = [
                    possible[beam] and constraint.judge(*finished.words(row, beam)) for beam in range(len(possible))
                ]
                finished.beams.log_p[row, ~torch.tensor(passed, device=self.device)] = IMPOSSIBLE
                if not any(passed):
                    failed.add(prefix)
        return failed

    def _index(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self.device)

    def _memory_of(self, records: Sequence[int]) -> tuple[Memory, list[Cache]]:
        """The encoded records with these indices, and their keys and values for the cross-attention."""
        index = self._index(records)
        return self.memory._replace(cross=[]).rows(index), [cache.rows(index) for cache in self._cross]

    def _first_parents(self, plans: Iterable[PlanPrefix]) -> dict[PlanPrefix, DecodedPrefix]:
        """By prefix of one group of each plan: its decoded parent, the empty text."""
        log_p = full_precision(self.memory.copy_keys.new_zeros(1, self.config.beam)).fill_(IMPOSSIBLE)
        log_p[:, 0] = 0.0
        text = torch.zeros(1, self.config.beam, 0, dtype=torch.long, device=self.device)
        empty = DecodedPrefix(Texts(log_p, text, 0), self._empty_history(1), 0)
        return {plan.first(1): empty for plan in plans}

    def _empty_history(self, n: int) -> History:
        layers = [
            (key[:1, :, :0].expand(n, -1, -1, -1), value[:1, :, :0].expand(n, -1, -1, -1))
            for key, value in self.memory.cross
        ]
        attended = torch.zeros(n, self.config.beam, 0, dtype=torch.bool, device=self.device)
        return History([Cache.of(layer) for layer in layers], attended)

    def _add_facts(
        self, ready: Mapping[PlanPrefix, float], parents: Mapping[PlanPrefix, DecodedPrefix], facts: ActiveFacts | None
    ) -> ActiveFacts:
        """Adds the last facts of the `ready` prefixes, with their `min_log_p`, to the active facts."""
        prefixes = list(ready)
        prefixes = [prefixes[i] for i in DecodedPrefix.order([parents[prefix] for prefix in prefixes])]
        texts, history = DecodedPrefix.gathered([parents[prefix] for prefix in prefixes], 16 * self.config.beam)
        marks = self._index([LAST if prefix.is_complete else FACT for prefix in prefixes])[:, None].expand_as(
            texts.log_p
        )
        members = torch.zeros(len(prefixes), int(self.memory.triple.max()) + 1, dtype=torch.bool, device=self.device)
        for row, prefix in enumerate(prefixes):
            members[row, list(prefix.groups[-1])] = True
        memory, cross = self._memory_of([prefix.record for prefix in prefixes])
        visible = memory.is_token_of(members)
        if self.model.config.history == "masked":
            self._encode(texts.text, 0, cross, visible, history)
        max_words, per_triple = self.config.max_fact_tokens, self.config.min_tokens_per_triple
        # At least one word, since no fact of the training texts is empty.
        min_words = [min(max(len(prefix.groups[-1]) * per_triple, 1), max_words) for prefix in prefixes]
        zeros = torch.zeros_like(marks[:, 0])
        finished = Beams.of(torch.full_like(texts.log_p, IMPOSSIBLE))
        repeatable = self.repeatable[self._index([prefix.record for prefix in prefixes])]
        forbidden = torch.zeros_like(repeatable if self.constrain else repeatable[:, :0])
        for row, prefix in enumerate(prefixes):
            if self.constrain:
                forbidden[row, list(self.constrain(prefix).forbidden)] = True
        new_facts = ActiveFacts(
            prefixes=prefixes,
            memory=memory,
            cross=cross,
            visible=visible,
            text=torch.cat((texts.text, marks[..., None]), 2),
            text_log_p=texts.log_p,
            start=texts.length,
            history=history,
            active=Beams.of(texts.log_p),
            finished=finished,
            score=finished.log_p,
            inputs=marks,
            step=zeros,
            min_words=self._index(min_words),
            min_log_p=torch.tensor([ready[prefix] for prefix in prefixes], dtype=texts.log_p.dtype, device=self.device),
            unconstrained=finished.log_p,
            extra_words=zeros,
            forbidden=forbidden,
            repeatable=repeatable,
        )
        if not facts:
            return new_facts
        all_memory, all_cross = self._memory_of([prefix.record for prefix in (*facts.prefixes, *prefixes)])
        return facts.joined(new_facts, all_memory, all_cross, spare=16 * self.config.beam)

    def _encode_finished(
        self, finished: FinishedFacts, texts: Texts, rows: list[int], parents: Sequence[DecodedPrefix]
    ) -> DecodedPrefix:
        """Encodes the last facts of `rows` under the mask of all triples; returns the prefix of the first of `rows`."""
        index = self._index(rows)
        rows_texts = texts.rows(index)
        if self.model.config.history == "masked":
            return DecodedPrefix(rows_texts, self._empty_history(len(rows)), 0)
        memory, cross = self._memory_of([finished.prefixes[row].record for row in rows])
        _, history = DecodedPrefix.gathered(parents, 4 * (rows_texts.text.shape[2] - rows_texts.last_mark))
        history.attended = gather_beams(history.attended, finished.beams.parent[index])
        self._encode(rows_texts.text, rows_texts.last_mark, cross, memory.is_triple_token(), history)
        return DecodedPrefix(rows_texts, history, 0)

    def _encode(self, text: Tensor, start: int, cross: list[Cache], visible: Tensor, history: History) -> None:
        """Encodes `text` (n, K, P) from position `start` on, shared prefixes once, and appends it to `history`."""
        n, k, length = (*text.shape[:2], text.shape[2] - start)
        if not length:
            return
        slot, used = _encoded_slots(text, start)
        words = text[..., start:] != PAD
        size = int(used.sum(1).max())
        slots = (~used).to(torch.uint8).argsort(dim=1, stable=True)[:, :size]  # (n, size): the used slots, in order
        attended = (slots[:, None] == slot.reshape(n, -1, 1)).unflatten(1, (k, length))  # (n, K, length, size)
        attended = (attended & words[..., None]).any(2)  # (n, K, size)
        hypothesis, offset = slots // length, slots % length
        earlier = offset[:, None] <= offset[:, :, None]
        # An unused position attends to itself, since the softmax over no position is NaN.
        diagonal = torch.eye(size, dtype=torch.bool, device=self.device)
        mask = torch.cat(
            (gather_beams(history.attended, hypothesis), gather_beams(attended, hypothesis) & earlier | diagonal), 2
        )
        tokens = text[..., start:].flatten(1).gather(1, slots)
        position = ((text != PAD).cumsum(2) - 1).clamp(min=0)[..., start:].flatten(1).gather(1, slots)
        decode(self.model, tokens, position, cross, visible, history.caches, mask)
        history.attended = torch.cat((history.attended, attended), 2)


def _encoded_slots(text: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """The slot of each position of `text` (n, K, P) from `start` on, shared by hypotheses with a common prefix, (n, K,
    P - start); and whether each slot is used, (n, K * (P - start)).
    """
    same_prefix = (text[:, :, None] == text[:, None]).cumprod(3)[..., start:]  # (n, K, K, P - start)
    first = same_prefix.argmax(2)  # the first hypothesis with this prefix
    words = text[..., start:] != PAD
    slot = first * words.shape[2] + torch.arange(words.shape[2], device=text.device)
    # A common prefix has the same unused positions in all its hypotheses.
    return slot, torch.zeros_like(words).flatten(1).scatter_(1, slot.flatten(1), words.flatten(1))


def _similar_lengths(texts: Texts, rows: Sequence[int], min_rows: int = 8) -> list[list[int]]:
    """Splits `rows` into at most 4 batches of similar lengths, each but the last with at least `min_rows` rows."""
    if not rows:
        return []
    _, used = _encoded_slots(texts.text[rows], texts.last_mark)
    order = [rows[i] for i in used.sum(1).argsort(stable=True).tolist()]
    size = max(-(-len(rows) // 4), min_rows)
    return [order[begin : begin + size] for begin in range(0, len(order), size)]
