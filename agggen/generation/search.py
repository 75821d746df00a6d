"""Beam search under plans, batched over records, plans and beams, with key-value caches (METHOD 3 and 6).

The search is synchronous by facts: all hypotheses of a plan finish fact t before any begins fact t + 1. Fact t is
written under the mask of its state's triples. When it is done, it is read once more under the mask of all triples and
joins the shared history, exactly as training saw it (`history="shared"`); with `history="masked"` the whole text so
far is read again under the next state's mask.

Some things make it fast, none of which changes a result. Plans that begin with the same sets of triples share the
search of these facts (an emission depends on the set alone), and hypotheses that begin with the same words share their
reading. The K hypotheses of a plan are K queries to one copy of the encoded record. Caches are never reordered: all
positions that any hypothesis of a plan ever read lie side by side, and a mask says which of them each hypothesis may
see. And what can no longer reach the score that it would need is given up.

Shapes: n plans (or beginnings of plans), K beams, Q cached positions, P marks and words of earlier facts with holes;
the rest as in `agggen.model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from agggen.generation.config import BeamConfig
from agggen.generation.hypotheses import Beginning, Hypothesis, Open, Texts, along, penalty
from agggen.generation.words import decode, write_words
from agggen.model.batch import FACT, LAST, PAD
from agggen.model.joint import JointModel, Memory
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache, full_precision

Missing = Callable[[int, frozenset[int], Sequence[int]], int]
"""How many of these triples of a record, by its row in the memory, a fact of these words does not mention."""

_ROUNDING = 1 + 1e-5  # a score that is just reached is reached, whatever its last digits


@dataclass(frozen=True)
class Task:
    """One text to write: `record` is an index into the memory, `groups` the triple indices of each fact."""

    record: int
    groups: tuple[tuple[int, ...], ...]
    least: float = -math.inf  # texts of a lower score are of no use: the task ends when no other can come of it


class BeamSearch:
    """Writes about the encoded records of `memory`, with a model in evaluation mode.

    Args:
        missing: asked if `config.mention_all`.
    """

    def __init__(self, model: JointModel, memory: Memory, config: BeamConfig, missing: Missing | None = None) -> None:
        self.model, self.memory, self.config = model, memory, config
        self.missing = missing if config.mention_all else None
        self.device = memory.ids.device
        self._cross = [Cache.of(layer) for layer in memory.cross]
        self._texts: dict[Beginning, tuple[Texts, int]] = {}  # of plans that may be asked for; with their row
        self._found: dict[Beginning, list[Hypothesis]] = {}
        self._best: dict[Beginning, tuple[float, int]] = {}  # the largest log-probability and length

    @torch.no_grad()
    def write(self, tasks: Sequence[Task], later: Sequence[Task] = ()) -> list[list[Hypothesis]]:
        """The best texts of each task, best first: at most `config.beam`, and one at least, but none if all are below
        `least` and that is certain before the last fact is written.

        A fact is settled when K versions of it are finished and no open one would score better if it ended next. Where
        nothing can be finished (its ends have no probability), the text is empty at a log-probability of IMPOSSIBLE.

        Args:
            tasks: at least one.
            later: what may be asked for next; the beginnings that it shares with these tasks are not written again.
        """
        plans = [Beginning.of(task.record, task.groups) for task in tasks]
        shared = {start for task in later for start in Beginning.of(task.record, task.groups).starts()}
        texts = self._nothing(sorted({plan.record for plan in plans}))
        hopeful = dict(enumerate(plans))
        for fact in range(max(len(plan.groups) for plan in plans)):
            present = {i: plan.until(fact + 1) for i, plan in hopeful.items() if fact < len(plan.groups)}
            known = self._texts | texts
            needed: dict[Beginning, float] = {}
            for i, node in present.items():
                if node not in known and node not in self._found:
                    needed[node] = min(needed.get(node, math.inf), self._needs(tasks[i], node.parent()))
            texts = self._extend(needed, known) if needed else {}
            self._keep({node: place for node, place in texts.items() if node in shared})
            for i, node in present.items():
                if self._best[node][0] < self._needs(tasks[i], node):
                    del hopeful[i]
        self._texts = {start: place for start, place in self._texts.items() if start in shared}
        return [list(self._found[plan]) if i in hopeful else [] for i, plan in enumerate(plans)]

    def _needs(self, task: Task, start: Beginning) -> float:
        """The log-probability below which nothing that goes on from `start` scores `least`, however long it gets: more
        words make no text likelier, and their number is limited.
        """
        left = (len(task.groups) - len(start.groups)) * (self.config.max_fact_tokens + 1)
        return task.least * penalty(self._best[start][1] + left, self.config.length_penalty) * _ROUNDING

    def _keep(self, texts: Mapping[Beginning, tuple[Texts, int]]) -> None:
        """Keeps these for later tasks, apart from the others of their batches."""
        for nodes, some in self._by_batch(texts, texts):
            apart = Texts.joined([some])
            self._texts |= {node: (apart, row) for row, node in enumerate(nodes)}

    def _by_batch(
        self, nodes: Iterable[Beginning], texts: Mapping[Beginning, tuple[Texts, int]]
    ) -> list[tuple[list[Beginning], Texts]]:
        """The nodes whose texts are in one batch, with these texts."""
        found: dict[int, list[Beginning]] = {}
        for node in nodes:
            found.setdefault(id(texts[node][0]), []).append(node)
        return [(some, texts[some[0]][0].pick(self._index([texts[n][1] for n in some]))) for some in found.values()]

    def _index(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self.device)

    # --- facts --------------------------------------------------------------------------------------------------------

    def _nothing(self, records: list[int]) -> dict[Beginning, tuple[Texts, int]]:
        """The one empty text of each record."""
        n, k = len(records), self.config.beam
        log_p = full_precision(self.memory.copy_keys.new_zeros(n, k)).fill_(IMPOSSIBLE)
        log_p[:, 0] = 0.0
        text = torch.zeros(n, k, 0, dtype=torch.long, device=self.device)
        history = [Cache.of((key[:n, :, :0], value[:n, :, :0])) for key, value in self.memory.cross]
        texts = Texts(log_p, text, text.sum(2), 0, history, self._index(range(n)), text.bool())
        starts = [Beginning(record, (), last=False) for record in records]
        self._best |= dict.fromkeys(starts, (0.0, 0))
        return {start: (texts, row) for row, start in enumerate(starts)}

    def _extend(
        self, needed: Mapping[Beginning, float], known: Mapping[Beginning, tuple[Texts, int]]
    ) -> dict[Beginning, tuple[Texts, int]]:
        """Writes the last fact of each node after what is known of those before; gives those that may go on.

        A node of a lower log-probability than it needs is given up, and not found.
        """
        batches = self._by_batch(needed, {node: known[node.parent()] for node in needed})
        nodes, before = [node for some, _ in batches for node in some], [texts for _, texts in batches]
        least = [needed[node] for node in nodes]
        texts = self._write_fact(before[0] if len(before) == 1 else Texts.joined(before), nodes, least)
        best = zip(texts.log_p.amax(1).tolist(), texts.length.amax(1).tolist(), strict=True)
        self._best |= dict(zip(nodes, best, strict=True))
        good = [row for row, node in enumerate(nodes) if self._best[node][0] >= least[row]]
        for row in good:
            if nodes[row].last:
                self._found[nodes[row]] = texts.hypotheses(row, self.config.length_penalty)
        going_on = [row for row in good if not nodes[row].last]
        if self.model.config.history == "masked":
            return {nodes[row]: (texts, row) for row in going_on}
        found: dict[Beginning, tuple[Texts, int]] = {}
        for some in _alike(texts, going_on):
            read = self._remember(texts.pick(self._index(some)), [nodes[row].record for row in some])
            found |= {nodes[row]: (read, new) for new, row in enumerate(some)}
        return found

    def _write_fact(self, texts: Texts, nodes: Sequence[Beginning], least: Sequence[float]) -> Texts:
        """Extends each row of `texts` by the last group of its node; the history is left as it was.

        Rows whose log-probability falls below `least` are not written to their end.
        """
        groups = [node.groups[-1] for node in nodes]
        marks = self._index([LAST if node.last else FACT for node in nodes])
        members = torch.zeros(len(nodes), int(self.memory.triple.max()) + 1, dtype=torch.bool, device=self.device)
        for row, group in enumerate(groups):
            members[row, list(group)] = True
        memory, cross = self._of([node.record for node in nodes])
        visible = memory.tokens_of(members)
        past, seen = texts.past(room=16 * self.config.beam)
        if self.model.config.history == "masked":
            seen = self._read(texts.text, 0, cross, visible, past, seen)
        most = self.config.max_fact_tokens
        # At least one word: no fact of the training texts is empty, so nothing is learned about when one would be.
        floor = [min(max(len(group) * self.config.min_tokens_per_triple, 1), most) for group in groups]
        opening = marks[:, None, None].expand(-1, self.config.beam, 1)
        rows = Open(memory, cross, visible, torch.cat((texts.text, opening), 2), texts.length, past, seen)
        needed = torch.tensor(least, dtype=texts.log_p.dtype, device=self.device)
        ask = None if self.missing is None else partial(_ask, self.missing, nodes)
        done = write_words(self.model, self.config, rows, texts.log_p, marks, self._index(floor), needed, ask)
        longest = int((done.words != PAD).sum(-1).max())
        added = torch.cat((opening, done.words[..., :longest]), 2)
        return Texts(
            done.log_p,
            torch.cat((along(texts.text, done.parent), added), 2),
            texts.length.gather(1, done.parent) + (added != PAD).sum(2),
            longest + 1,
            texts.history,
            texts.rows,
            along(texts.seen, done.parent),
        )

    def _of(self, records: Sequence[int]) -> tuple[Memory, list[Cache]]:
        """The memory of these records, a row for each; without and with what is attended to."""
        index = self._index(records)
        return self.memory._replace(cross=[]).rows(index), [cache.rows(index) for cache in self._cross]

    def _remember(self, texts: Texts, records: list[int]) -> Texts:
        """Reads the last fact under the mask of all triples, as the shared history of training does."""
        memory, cross = self._of(records)
        history, seen = texts.past(room=4 * texts.added)
        seen = self._read(texts.text, texts.text.shape[2] - texts.added, cross, memory.triples(), history, seen)
        return replace(texts, history=history, rows=self._index(range(len(records))), seen=seen)

    def _read(
        self, text: Tensor, start: int, cross: list[Cache], visible: Tensor, past: list[Cache], seen: Tensor
    ) -> Tensor:
        """Puts `text` (n, K, P), with PAD in holes, into the caches from place `start` on; gives what each hypothesis
        then has seen. What several hypotheses of a plan begin with is read once.
        """
        n, k, length = (*text.shape[:2], text.shape[2] - start)
        if not length:
            return seen
        slot, taken = _readings(text, start)
        words = text[..., start:] != PAD
        size = int(taken.sum(1).max())
        slots = (~taken).to(torch.uint8).argsort(dim=1, stable=True)[:, :size]  # (n, size): those taken, in order
        own = (slots[:, None] == slot.reshape(n, -1, 1)).unflatten(1, (k, length))  # (n, K, length, size)
        own = (own & words[..., None]).any(2)  # (n, K, size)
        who, where = slots // length, slots % length
        earlier = where[:, None] <= where[:, :, None]
        itself = torch.eye(size, dtype=torch.bool, device=self.device)  # a hole sees itself, lest it see nothing
        mask = torch.cat((along(seen, who), along(own, who) & earlier | itself), 2)
        tokens = text[..., start:].flatten(1).gather(1, slots)
        position = ((text != PAD).cumsum(2) - 1).clamp(min=0)[..., start:].flatten(1).gather(1, slots)
        decode(self.model, tokens, position, cross, visible, past, mask)
        return torch.cat((seen, own), 2)


def _ask(missing: Missing, nodes: Sequence[Beginning], row: int, said: Sequence[int]) -> int:
    """How many values the last fact of a node, by its row, does not mention."""
    return missing(nodes[row].record, nodes[row].groups[-1], said)


def _readings(text: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Hypotheses that begin with the same words read them once: for each place of `text` (n, K, P) from `start` on, at
    which of all K * (P - start) places its word is read (n, K, P - start), and which of these are (n, K * (P - start)).
    """
    alike = (text[:, :, None] == text[:, None]).cumprod(3)[..., start:]  # (n, K, K, P - start)
    reader = alike.argmax(2)  # the first hypothesis that reads this
    words = text[..., start:] != PAD
    slot = reader * words.shape[2] + torch.arange(words.shape[2], device=text.device)
    taken = torch.zeros_like(words).flatten(1)
    return slot, taken.scatter_(1, slot.flatten(1), words.flatten(1))  # a hole is one in all that begin alike


def _alike(texts: Texts, rows: Sequence[int], least: int = 8) -> list[list[int]]:
    """The rows in up to four parts, of `least` or more, with about as much to read in each: less is padding."""
    if not rows:
        return []
    _, taken = _readings(texts.text[rows], texts.text.shape[2] - texts.added)
    order = [rows[i] for i in taken.sum(1).argsort(stable=True).tolist()]
    size = max(-(-len(rows) // 4), least)
    return [order[begin : begin + size] for begin in range(0, len(order), size)]
