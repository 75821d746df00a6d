"""Beam search under plans, batched over records, plans and beams, with key-value caches (METHOD 3 and 6).

Fact t is decoded under the mask of its state's triples. Its K finished hypotheses are then encoded once more under the
mask of all triples and become the history of fact t + 1, exactly as in training (`history="shared"`); with
`history="masked"` the whole text so far is encoded again under the next state's mask.

The following optimisations do not change results. Plans with a common prefix of triple sets share the search of these
facts (an emission depends on the set only), and hypotheses with a common prefix of words share its encoding. Facts of
different plans and records are decoded in one batch, which new facts join as others finish (continuous batching). The K
hypotheses of a plan are K queries to one copy of the encoded record. Caches are not reordered: positions stay in place,
and a mask selects those of each hypothesis. Plans whose texts cannot reach the required score are pruned. An
`Expectation` prunes more: plans whose texts are unlikely to reach it.

Shapes: n plans (or plan prefixes), K beams, Q cached positions, P marks and words of earlier facts, with PAD in holes;
the rest as in `agggen.model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from agggen.generation.agenda import Agenda
from agggen.generation.config import BeamConfig
from agggen.generation.constraints import Constraint
from agggen.generation.hypotheses import (
    ActiveFacts,
    Beams,
    FinishedFacts,
    History,
    Hypothesis,
    PlanPrefix,
    PrefixState,
    Texts,
    along,
    penalty,
)
from agggen.generation.words import decode, write_words
from agggen.model.batch import FACT, LAST, PAD
from agggen.model.joint import JointModel, Memory
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache, full_precision

_ROUNDING = 1 + 1e-5  # tolerance of the pruning bound, so that rounding never prunes a tie


class Expectation(NamedTuple):
    """Bounds on a useful text; a task that can no longer meet them is pruned."""

    score: float  # the lowest useful score
    length: float  # the largest number of words and marks
    per_triple: float  # the highest log-probability of the words of a triple, for those not expressed yet


@dataclass(frozen=True)
class Task:
    """A text to generate: `record` is an index into the memory, `groups` the triple indices of each fact."""

    record: int
    groups: tuple[tuple[int, ...], ...]
    expected: Expectation | None = None


class BeamSearch:
    """Decodes texts for the encoded records of `memory`, with a model in evaluation mode.

    Args:
        constrain: returns the constraint of the last fact of a plan prefix; None: unconstrained search.
        names: (records, ids), the words of each record's subjects and objects, whose n-grams may be repeated.
    """

    def __init__(
        self,
        model: JointModel,
        memory: Memory,
        config: BeamConfig,
        constrain: Callable[[PlanPrefix], Constraint] | None = None,
        names: Tensor | None = None,
    ) -> None:
        self.model, self.memory, self.config = model, memory, config
        self.constrain = constrain
        self.device = memory.ids.device
        if names is None:
            names = memory.ids.new_zeros(
                len(memory.ids), max(int(memory.ids.max()) + 1, model.n_output), dtype=torch.bool
            )
        self.names = names
        self._cross = [Cache.of(layer) for layer in memory.cross]

    @torch.no_grad()
    def write(
        self, tasks: Sequence[Task], room: int, needs: Callable[[int], float] = lambda task: -math.inf
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yields (task index, hypotheses, best first) as each task finishes.

        A task has 1 to `config.beam` hypotheses, or none if it was pruned because it cannot reach the required score or
        meet its expectation. If no hypothesis can end (all ends are impossible), the text is empty with log-probability
        IMPOSSIBLE.

        Args:
            tasks: in order of priority.
            room: the number of facts that are decoded together.
            needs: the lowest useful score for a task, by index; it may increase during the search.
        """
        plans = [PlanPrefix.of(task.record, task.groups) for task in tasks]
        agenda = Agenda(plans)
        states = self._nothing(plans)
        best = {node.parent(): (0.0, 0) for node in states}  # best log-probability and length so far
        rows: ActiveFacts | None = None

        def needed(task: int, prefix: PlanPrefix, length: int) -> float:
            """The lowest log-probability of a prefix of this length that can still reach the score which `task` needs.

            Further words only lower the log-probability, and their number, hence the length penalty, is bounded.
            """
            rest, expected = tasks[task].groups[len(prefix.groups) :], tasks[task].expected
            longest = length + len(rest) * (self.config.max_fact_tokens + 1)
            needed = needs(task) * penalty(longest, self.config.length_penalty) * _ROUNDING
            if expected is None:
                return needed
            least = expected.score * penalty(min(longest, expected.length), self.config.length_penalty) * _ROUNDING
            return max(needed, least - expected.per_triple * sum(map(len, rest)))

        while True:
            fresh: dict[PlanPrefix, float] = {}
            while len(fresh) + (len(rows.nodes) if rows else 0) < room and (node := agenda.next()):
                start = node.parent()
                for task in agenda.of(node):
                    if best[start][0] < needed(task, start, best[start][1]):
                        agenda.finish(task)
                        yield task, []
                if unpruned := agenda.of(node):
                    longest = best[start][1] + self.config.max_fact_tokens + 1
                    fresh[node] = min(needed(task, node, longest) for task in unpruned)
            if fresh:
                rows = self._begin(fresh, states, rows)
            if not rows:
                return
            # Small batches are slow to decode and to encode, so decode until half of the facts are finished.
            written = write_words(self.model, self.config, rows, len(rows.nodes) // 2, self.constrain)
            texts = written.texts()
            reached = zip(texts.log_p.amax(1).tolist(), texts.length.amax(1).tolist(), strict=True)
            best |= dict(zip(written.nodes, reached, strict=True))
            for row, node in enumerate(written.nodes):
                for task in agenda.of(node):
                    enough = best[node][0] >= needed(task, node, best[node][1])
                    if node.last or not enough:
                        agenda.finish(task)
                        yield task, texts.hypotheses(row, self.config.length_penalty) if enough else []
            starts = [states.pop(node) for node in written.nodes]
            going_on = [row for row, node in enumerate(written.nodes) if agenda.of(node)]
            for batch in _similar_lengths(texts, going_on):
                rows_of_batch = [batch[i] for i in PrefixState.order([starts[row] for row in batch])]
                read = self._read_finished(written, texts, rows_of_batch, [starts[row] for row in rows_of_batch])
                for new, row in enumerate(rows_of_batch):
                    states |= dict.fromkeys(agenda.written(written.nodes[row]), replace(read, row=new))
            if not rows.nodes:
                rows = None

    def _index(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self.device)

    def _of(self, records: Sequence[int]) -> tuple[Memory, list[Cache]]:
        """The memory of these records, one row per record, and the caches of its cross-attention."""
        index = self._index(records)
        return self.memory._replace(cross=[]).rows(index), [cache.rows(index) for cache in self._cross]

    # --- facts --------------------------------------------------------------------------------------------------------

    def _nothing(self, plans: Iterable[PlanPrefix]) -> dict[PlanPrefix, PrefixState]:
        """The state of the first facts: one empty text."""
        log_p = full_precision(self.memory.copy_keys.new_zeros(1, self.config.beam)).fill_(IMPOSSIBLE)
        log_p[:, 0] = 0.0
        text = torch.zeros(1, self.config.beam, 0, dtype=torch.long, device=self.device)
        state = PrefixState(Texts(log_p, text, text.sum(2), 0), self._unread(1), 0)
        return {plan.first(1): state for plan in plans}

    def _unread(self, n: int) -> History:
        """The empty history of n texts."""
        none = [
            (key[:1, :, :0].expand(n, -1, -1, -1), value[:1, :, :0].expand(n, -1, -1, -1))
            for key, value in self.memory.cross
        ]
        seen = torch.zeros(n, self.config.beam, 0, dtype=torch.bool, device=self.device)
        return History([Cache.of(layer) for layer in none], seen)

    def _begin(
        self, fresh: Mapping[PlanPrefix, float], states: Mapping[PlanPrefix, PrefixState], rows: ActiveFacts | None
    ) -> ActiveFacts:
        """Adds the last facts of prefixes, with the log-probabilities that they need, to the active facts."""
        nodes = list(fresh)
        nodes = [nodes[i] for i in PrefixState.order([states[node] for node in nodes])]
        texts, past = PrefixState.gathered([states[node] for node in nodes], 16 * self.config.beam)
        marks = self._index([LAST if node.last else FACT for node in nodes])[:, None].expand_as(texts.log_p)
        members = torch.zeros(len(nodes), int(self.memory.triple.max()) + 1, dtype=torch.bool, device=self.device)
        for row, node in enumerate(nodes):
            members[row, list(node.groups[-1])] = True
        memory, cross = self._of([node.record for node in nodes])
        visible = memory.tokens_of(members)
        if self.model.config.history == "masked":
            self._read(texts.text, 0, cross, visible, past)
        max_words = self.config.max_fact_tokens
        # At least one word, since no fact of the training texts is empty.
        floor = [min(max(len(node.groups[-1]) * self.config.min_tokens_per_triple, 1), max_words) for node in nodes]
        zeros = torch.zeros_like(marks[:, 0])
        done = Beams.of(torch.full_like(texts.log_p, IMPOSSIBLE))
        width = self.names.shape[1] if self.constrain else 0
        barred = torch.zeros(len(nodes), width, dtype=torch.bool, device=self.device)
        if self.constrain:
            for row, node in enumerate(nodes):
                barred[row, list(self.constrain(node).barred)] = True
        new = ActiveFacts(
            nodes=nodes,
            memory=memory,
            cross=cross,
            visible=visible,
            text=torch.cat((texts.text, marks[..., None]), 2),
            base=texts.log_p,
            start=texts.length,
            past=past,
            live=Beams.of(texts.log_p),
            done=done,
            score=done.log_p,
            inputs=marks,
            step=zeros,
            floor=self._index(floor),
            least=torch.tensor([fresh[node] for node in nodes], dtype=texts.log_p.dtype, device=self.device),
            free=done.log_p,
            waited=zeros,
            barred=barred,
            names=self.names[self._index([node.record for node in nodes])],
            states={node: [0] * self.config.beam for node in nodes} if self.constrain else {},
        )
        if not rows:
            return new
        both = self._of([node.record for node in (*rows.nodes, *nodes)])
        return rows.joined(new, *both, room=16 * self.config.beam)

    def _read_finished(
        self, written: FinishedFacts, texts: Texts, rows: list[int], starts: Sequence[PrefixState]
    ) -> PrefixState:
        """Encodes the last fact of `rows` under the mask of all triples, as in training (``history=shared``).

        Returns the state of the first row; the others have the next row numbers.
        """
        index = self._index(rows)
        rows_texts = texts.rows(index)
        if self.model.config.history == "masked":
            return PrefixState(rows_texts, self._unread(len(rows)), 0)
        memory, cross = self._of([written.nodes[row].record for row in rows])
        _, history = PrefixState.gathered(starts, 4 * (rows_texts.text.shape[2] - rows_texts.last))
        history.seen = along(history.seen, written.beams.parent[index])
        self._read(rows_texts.text, rows_texts.last, cross, memory.triples(), history)
        return PrefixState(rows_texts, history, 0)

    def _read(self, text: Tensor, start: int, cross: list[Cache], visible: Tensor, history: History) -> None:
        """Appends `text` (n, K, P), PAD in holes, from position `start` on to the history.

        Common prefixes of a plan's hypotheses are encoded once.
        """
        n, k, length = (*text.shape[:2], text.shape[2] - start)
        if not length:
            return
        slot, taken = _readings(text, start)
        words = text[..., start:] != PAD
        size = int(taken.sum(1).max())
        slots = (~taken).to(torch.uint8).argsort(dim=1, stable=True)[:, :size]  # (n, size): those taken, in order
        reads = (slots[:, None] == slot.reshape(n, -1, 1)).unflatten(1, (k, length))  # (n, K, length, size)
        reads = (reads & words[..., None]).any(2)  # (n, K, size)
        who, where = slots // length, slots % length
        earlier = where[:, None] <= where[:, :, None]
        itself = torch.eye(
            size, dtype=torch.bool, device=self.device
        )  # a hole attends to itself: a softmax over nothing is NaN
        mask = torch.cat((along(history.seen, who), along(reads, who) & earlier | itself), 2)
        tokens = text[..., start:].flatten(1).gather(1, slots)
        position = ((text != PAD).cumsum(2) - 1).clamp(min=0)[..., start:].flatten(1).gather(1, slots)
        decode(self.model, tokens, position, cross, visible, history.caches, mask)
        history.seen = torch.cat((history.seen, reads), 2)


def _readings(text: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """The positions of `text` (n, K, P) from `start` on that are encoded, with common prefixes encoded once.

    Returns the slot of each position, of K * (P - start), as (n, K, P - start), and which slots are used, as
    (n, K * (P - start)).
    """
    alike = (text[:, :, None] == text[:, None]).cumprod(3)[..., start:]  # (n, K, K, P - start)
    reader = alike.argmax(2)  # the first hypothesis with this prefix
    words = text[..., start:] != PAD
    slot = reader * words.shape[2] + torch.arange(words.shape[2], device=text.device)
    taken = torch.zeros_like(words).flatten(1)
    return slot, taken.scatter_(
        1, slot.flatten(1), words.flatten(1)
    )  # holes agree among hypotheses with a common prefix


def _similar_lengths(texts: Texts, rows: Sequence[int], min_rows: int = 8) -> list[list[int]]:
    """The rows in up to four batches of at least `min_rows` rows with similar lengths to encode, for less padding."""
    if not rows:
        return []
    _, taken = _readings(texts.text[rows], texts.last)
    order = [rows[i] for i in taken.sum(1).argsort(stable=True).tolist()]
    size = max(-(-len(rows) // 4), min_rows)
    return [order[begin : begin + size] for begin in range(0, len(order), size)]
