"""Beam search under plans, batched over records, plans and beams, with key-value caches (METHOD 3 and 6).

Fact t is written under the mask of its state's triples. When K versions of it are settled, they are read once more
under the mask of all triples and are the history of fact t + 1, exactly as training saw it (`history="shared"`); with
`history="masked"` the whole text so far is read again under the next state's mask.

Some things make it fast, none of which changes a result. Plans that begin with the same sets of triples share the
search of these facts (an emission depends on the set alone), and hypotheses that begin with the same words share their
reading. Facts of different plans, records and places in their texts are written side by side, and as some are settled
others take their places, so that steps stay large. The K hypotheses of a plan are K queries to one copy of the encoded
record. Caches are never reordered: all positions that any hypothesis of a plan ever read lie side by side, and a mask
says which of them each hypothesis may see. And what can no longer reach the score that it would need is given up.

Shapes: n plans (or beginnings of plans), K beams, Q cached positions, P marks and words of earlier facts with holes;
the rest as in `agggen.model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agggen.generation.agenda import Agenda
from agggen.generation.config import BeamConfig
from agggen.generation.hypotheses import (
    Beams,
    Beginning,
    History,
    Hypothesis,
    Open,
    Place,
    Texts,
    Written,
    along,
    penalty,
)
from agggen.generation.words import Missing, decode, write_words
from agggen.model.batch import FACT, LAST, PAD
from agggen.model.joint import JointModel, Memory
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache, full_precision

_ROUNDING = 1 + 1e-5  # a score that is just reached is reached, whatever its last digits


@dataclass(frozen=True)
class Task:
    """One text to write: `record` is an index into the memory, `groups` the triple indices of each fact."""

    record: int
    groups: tuple[tuple[int, ...], ...]


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

    @torch.no_grad()
    def write(
        self, tasks: Sequence[Task], room: int, needs: Callable[[int], float] = lambda task: -math.inf
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The best texts of each task, best first, behind the task's number, as they are found.

        They are at most `config.beam`, and one at least, but none if all are below what the task needs and that is
        certain before the last fact is written. Where nothing can be finished (its ends have no probability), the text
        is empty at a log-probability of IMPOSSIBLE.

        Args:
            tasks: the first are begun first.
            room: how many facts are written at once.
            needs: the score below which texts of a task, by its number, are of no use; it may rise meanwhile.
        """
        plans = [Beginning.of(task.record, task.groups) for task in tasks]
        agenda = Agenda(plans)
        places = self._nothing(plans)
        best = {node.parent(): (0.0, 0) for node in places}  # the largest log-probability and length of what is written
        rows: Open | None = None

        def needed(task: int, start: Beginning) -> float:
            """The log-probability below which nothing that goes on from `start` has the score that its task needs,
            however long it gets: more words make no text likelier, and their number is limited.
            """
            left = (len(tasks[task].groups) - len(start.groups)) * (self.config.max_fact_tokens + 1)
            return needs(task) * penalty(best[start][1] + left, self.config.length_penalty) * _ROUNDING

        while True:
            fresh: dict[Beginning, float] = {}
            while len(fresh) + (len(rows.nodes) if rows else 0) < room and (node := agenda.next()):
                start = node.parent()
                for task in agenda.of(node):
                    if best[start][0] < needed(task, start):
                        agenda.finish(task)
                        yield task, []
                if hopeful := agenda.of(node):
                    fresh[node] = min(needed(task, start) for task in hopeful)
            if fresh:
                rows = self._begin(fresh, places, rows)
            if not rows:
                return
            # Small steps are slow, and so is reading a few texts at a time: between the two, half of the facts go on.
            written = write_words(self.model, self.config, rows, len(rows.nodes) // 2, self.missing)
            texts = written.texts()
            found = zip(texts.log_p.amax(1).tolist(), texts.length.amax(1).tolist(), strict=True)
            best |= dict(zip(written.nodes, found, strict=True))
            for row, node in enumerate(written.nodes):
                for task in agenda.of(node):
                    enough = best[node][0] >= needed(task, node)
                    if node.last or not enough:
                        agenda.finish(task)
                        yield task, texts.hypotheses(row, self.config.length_penalty) if enough else []
            starts = [places.pop(node) for node in written.nodes]
            going_on = [row for row, node in enumerate(written.nodes) if agenda.of(node)]
            for some in _alike(texts, going_on):
                which = [some[i] for i in Place.order([starts[row] for row in some])]
                read = self._remember(written, texts, which, [starts[row] for row in which])
                for new, row in enumerate(which):
                    places |= dict.fromkeys(agenda.written(written.nodes[row]), replace(read, row=new))
            if not rows.nodes:
                rows = None

    def _index(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self.device)

    def _of(self, records: Sequence[int]) -> tuple[Memory, list[Cache]]:
        """The memory of these records, a row for each; without and with what is attended to."""
        index = self._index(records)
        return self.memory._replace(cross=[]).rows(index), [cache.rows(index) for cache in self._cross]

    # --- facts --------------------------------------------------------------------------------------------------------

    def _nothing(self, plans: Iterable[Beginning]) -> dict[Beginning, Place]:
        """Where the first facts of plans go on from: the one empty text."""
        log_p = full_precision(self.memory.copy_keys.new_zeros(1, self.config.beam)).fill_(IMPOSSIBLE)
        log_p[:, 0] = 0.0
        text = torch.zeros(1, self.config.beam, 0, dtype=torch.long, device=self.device)
        place = Place(Texts(log_p, text, text.sum(2), 0), self._unread(1), 0)
        return {plan.until(1): place for plan in plans}

    def _unread(self, n: int) -> History:
        """That of n texts of which nothing was read."""
        none = [
            (key[:1, :, :0].expand(n, -1, -1, -1), value[:1, :, :0].expand(n, -1, -1, -1))
            for key, value in self.memory.cross
        ]
        seen = torch.zeros(n, self.config.beam, 0, dtype=torch.bool, device=self.device)
        return History([Cache.of(layer) for layer in none], seen)

    def _begin(self, fresh: Mapping[Beginning, float], places: Mapping[Beginning, Place], rows: Open | None) -> Open:
        """The open facts, and those that end these beginnings, with the log-probability that each needs."""
        nodes = list(fresh)
        nodes = [nodes[i] for i in Place.order([places[node] for node in nodes])]
        texts, past = Place.gathered([places[node] for node in nodes], 16 * self.config.beam)
        marks = self._index([LAST if node.last else FACT for node in nodes])[:, None].expand_as(texts.log_p)
        members = torch.zeros(len(nodes), int(self.memory.triple.max()) + 1, dtype=torch.bool, device=self.device)
        for row, node in enumerate(nodes):
            members[row, list(node.groups[-1])] = True
        memory, cross = self._of([node.record for node in nodes])
        visible = memory.tokens_of(members)
        if self.model.config.history == "masked":
            self._read(texts.text, 0, cross, visible, past)
        most = self.config.max_fact_tokens
        # At least one word: no fact of the training texts is empty, so nothing is learned about when one would be.
        floor = [min(max(len(node.groups[-1]) * self.config.min_tokens_per_triple, 1), most) for node in nodes]
        nothing = torch.zeros_like(marks[:, 0])
        done = Beams.of(torch.full_like(texts.log_p, IMPOSSIBLE))
        new = Open(
            nodes=nodes,
            memory=memory,
            cross=cross,
            visible=visible,
            text=torch.cat((texts.text, marks[..., None]), 2),
            start=texts.length,
            past=past,
            live=Beams.of(texts.log_p),
            done=done,
            score=done.log_p,
            inputs=marks,
            step=nothing,
            floor=self._index(floor),
            least=torch.tensor([fresh[node] for node in nodes], dtype=texts.log_p.dtype, device=self.device),
            waited=nothing,
        )
        if not rows:
            return new
        both = self._of([node.record for node in (*rows.nodes, *nodes)])
        return rows.joined(new, *both, room=16 * self.config.beam)

    def _remember(self, written: Written, texts: Texts, rows: list[int], starts: Sequence[Place]) -> Place:
        """Reads the last fact of some `rows` under the mask of all triples, as the shared history of training does.

        Gives where the first of them goes on; the others are behind it.
        """
        index = self._index(rows)
        some = texts.rows(index)
        if self.model.config.history == "masked":
            return Place(some, self._unread(len(rows)), 0)
        memory, cross = self._of([written.nodes[row].record for row in rows])
        _, history = Place.gathered(starts, 4 * (some.text.shape[2] - some.last))
        history.seen = along(history.seen, written.beams.parent[index])
        self._read(some.text, some.last, cross, memory.triples(), history)
        return Place(some, history, 0)

    def _read(self, text: Tensor, start: int, cross: list[Cache], visible: Tensor, history: History) -> None:
        """Puts `text` (n, K, P), with PAD in holes, into the history from place `start` on.

        What several hypotheses of a plan begin with is read once.
        """
        n, k, length = (*text.shape[:2], text.shape[2] - start)
        if not length:
            return
        slot, taken = _readings(text, start)
        words = text[..., start:] != PAD
        size = int(taken.sum(1).max())
        slots = (~taken).to(torch.uint8).argsort(dim=1, stable=True)[:, :size]  # (n, size): those taken, in order
        own = (slots[:, None] == slot.reshape(n, -1, 1)).unflatten(1, (k, length))  # (n, K, length, size)
        own = (own & words[..., None]).any(2)  # (n, K, size)
        who, where = slots // length, slots % length
        earlier = where[:, None] <= where[:, :, None]
        itself = torch.eye(size, dtype=torch.bool, device=self.device)  # a hole sees itself, lest it see nothing
        mask = torch.cat((along(history.seen, who), along(own, who) & earlier | itself), 2)
        tokens = text[..., start:].flatten(1).gather(1, slots)
        position = ((text != PAD).cumsum(2) - 1).clamp(min=0)[..., start:].flatten(1).gather(1, slots)
        decode(self.model, tokens, position, cross, visible, history.caches, mask)
        history.seen = torch.cat((history.seen, own), 2)


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
    _, taken = _readings(texts.text[rows], texts.last)
    order = [rows[i] for i in taken.sum(1).argsort(stable=True).tolist()]
    size = max(-(-len(rows) // 4), least)
    return [order[begin : begin + size] for begin in range(0, len(order), size)]
