"""State of the beam search: texts at a fact's end, hypotheses within a fact, and the decoder's caches.

Shapes as in `agggen.generation.search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from agggen.model.batch import FACT, LAST, PAD
from agggen.model.joint import Memory
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache, move

Number = TypeVar("Number", float, Tensor)


@dataclass(frozen=True)
class Hypothesis:
    """A text as word ids, fact by fact, with its log-probability given the plan (natural logarithm)."""

    facts: tuple[tuple[int, ...], ...]
    log_probability: float
    score: float  # log-probability with length penalty, by which the beam ranks

    @property
    def length(self) -> int:
        """Words and marks; each fact begins with a mark."""
        return sum(len(fact) + 1 for fact in self.facts)


def penalised(log_p: Tensor, length: Tensor, exponent: float) -> Tensor:
    """Scores of texts of `length` marks and words: Wu et al. 2016, equation 14, without the coverage term."""
    score = log_p / penalty(length.to(log_p.dtype), exponent)
    return torch.where(log_p > IMPOSSIBLE / 2, score, IMPOSSIBLE)


def penalty(length: Number, exponent: float) -> Number:
    """The length penalty, which divides the log-probability of texts of `length` marks and words."""
    return ((5.0 + length) / 6.0) ** exponent


@dataclass(frozen=True)
class PlanPrefix:
    """The first facts of a plan as sets of triples; `last` if the prefix is the whole plan."""

    record: int
    groups: tuple[frozenset[int], ...]
    last: bool = True

    @classmethod
    def of(cls, record: int, groups: Sequence[Sequence[int]]) -> PlanPrefix:
        """A whole plan."""
        return cls(record, tuple(map(frozenset, groups)))

    def proper_prefixes(self) -> list[PlanPrefix]:
        """All proper prefixes, shortest first."""
        return [self.first(fact) for fact in range(1, len(self.groups))]

    def parent(self) -> PlanPrefix:
        """The prefix without its last fact."""
        return self.first(len(self.groups) - 1)

    def first(self, fact: int) -> PlanPrefix:
        """The prefix with this number of facts."""
        return PlanPrefix(self.record, self.groups[:fact], self.last and fact == len(self.groups))


@dataclass
class History:
    """The decoder's caches of n texts with K hypotheses each."""

    caches: list[Cache]  # per layer, n rows; the positions that any hypothesis of a row has read
    seen: Tensor  # (n, K, Q) which of these positions a hypothesis sees

    @staticmethod
    def gathered(parts: Sequence[tuple[History, Tensor]], room: int = 0) -> History:
        """Copies the given rows of each into one history, without positions that no hypothesis sees."""
        seen, slots = [], []
        for history, index in parts:
            of_part = history.seen[index]
            used = of_part.any(1)  # others belong to pruned hypotheses
            positions = (~used).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(used.sum(1).amax())]
            seen.append(of_part.gather(2, positions[:, None].expand(-1, of_part.shape[1], -1)))
            slots.append(positions)
        layers = zip(*(history.caches for history, _ in parts), strict=True)
        indices = [index for _, index in parts]
        caches = [Cache.gathered(list(zip(layer, indices, slots, strict=True)), room) for layer in layers]
        return History(caches, torch.cat(padded(seen)))


@dataclass(frozen=True)
class Texts:
    """The texts of n plans up to the end of a fact, K hypotheses each."""

    log_p: Tensor  # (n, K); IMPOSSIBLE for an empty slot
    text: Tensor  # (n, K, P) marks and words, PAD in holes
    length: Tensor  # (n, K) marks and words
    last: int  # position in `text` of the last fact's mark

    def rows(self, index: Tensor) -> Texts:
        """The rows `index`."""
        return Texts(self.log_p[index], self.text[index], self.length[index], self.last)

    def hypotheses(self, row: int, exponent: float) -> list[Hypothesis]:
        """The finished texts of a row, best first."""
        scores = penalised(self.log_p[row], self.length[row], exponent)
        order = scores.argsort(descending=True, stable=True).tolist()
        log_p, text = self.log_p[row].tolist(), self.text[row].tolist()
        valid = [beam for beam in order if log_p[beam] > IMPOSSIBLE / 2] or order[:1]
        return [Hypothesis(_split(text[beam]), log_p[beam], float(scores[beam])) for beam in valid]


@dataclass(frozen=True)
class PrefixState:
    """One row of texts with their history, from which the next fact starts."""

    texts: Texts
    history: History
    row: int

    @staticmethod
    def order(states: Sequence[PrefixState]) -> list[int]:
        """Indices of the states, grouped by the texts that they are rows of."""
        by_texts: dict[int, list[int]] = {}
        for number, state in enumerate(states):
            by_texts.setdefault(id(state.texts), []).append(number)
        return [number for numbers in by_texts.values() for number in numbers]

    @staticmethod
    def gathered(states: Sequence[PrefixState], room: int) -> tuple[Texts, History]:
        """Copies the states into one batch, in order, with `room` for more positions."""
        texts, histories = [], []
        for _, same_texts in groupby(states, key=lambda state: id(state.texts)):
            first, *others = same_texts
            index = torch.tensor([first.row, *(state.row for state in others)], device=first.texts.text.device)
            texts.append(first.texts.rows(index))
            histories.append((first.history, index))
        text = padded([rows.text for rows in texts], before=True)
        log_p, length = torch.cat([rows.log_p for rows in texts]), torch.cat([rows.length for rows in texts])
        return Texts(log_p, torch.cat(text), length, 0), History.gathered(histories, room)


@dataclass
class Beams:
    """K hypotheses within a fact for each of n plans."""

    log_p: Tensor  # (n, K) of the whole text so far; IMPOSSIBLE for an empty slot
    words: Tensor  # (n, K, W) words of this fact, PAD before them
    parent: Tensor  # (n, K) which hypothesis at the fact's beginning this one continues

    @classmethod
    def of(cls, log_p: Tensor) -> Beams:
        """Empty facts with these log-probabilities (n, K)."""
        parent = torch.arange(log_p.shape[1], device=log_p.device).repeat(len(log_p), 1)
        return cls(log_p, parent.new_empty(*log_p.shape, 0), parent)

    def beams(self, index: Tensor) -> Beams:
        """Picks beams `index` (n, K') of each plan."""
        return Beams(self.log_p.gather(1, index), along(self.words, index), self.parent.gather(1, index))

    def plans(self, index: Tensor) -> Beams:
        """Picks the plans `index`."""
        return Beams(self.log_p[index], self.words[index], self.parent[index])

    def last_words(self, n: int) -> Beams:
        """The last n word positions only."""
        return replace(self, words=self.words[..., self.words.shape[2] - n :])

    @staticmethod
    def joined(batches: Sequence[Beams]) -> Beams:
        """One batch of all plans."""
        words = padded([batch.words for batch in batches], before=True)
        log_p, parent = ([getattr(batch, name) for batch in batches] for name in ("log_p", "parent"))
        return Beams(torch.cat(log_p), torch.cat(words), torch.cat(parent))


@dataclass
class FinishedFacts:
    """Finished facts, removed from `ActiveFacts`."""

    nodes: list[PlanPrefix]
    beams: Beams
    text: Tensor  # (n, K, P), before these facts' words, by parent

    @staticmethod
    def joined(batches: Sequence[FinishedFacts]) -> FinishedFacts:
        """One batch of all."""
        text = torch.cat(padded([batch.text for batch in batches], before=True))
        return FinishedFacts(
            [node for batch in batches for node in batch.nodes], Beams.joined([batch.beams for batch in batches]), text
        )

    def texts(self) -> Texts:
        """The texts that end with these facts."""
        words = self.beams.words
        words = words.gather(2, (words == PAD).to(torch.uint8).argsort(dim=2, stable=True))  # holes last
        longest = int((words != PAD).sum(2).max())
        text = torch.cat((along(self.text, self.beams.parent), words[..., :longest]), 2)
        return Texts(self.beams.log_p, text, (text != PAD).sum(2), self.text.shape[2] - 1)


@dataclass
class ActiveFacts:
    """The n facts that are being decoded, K hypotheses each."""

    nodes: list[PlanPrefix]  # prefixes that end with these facts
    memory: Memory  # without `cross`, which is cached apart
    cross: list[Cache]  # per layer
    visible: Tensor  # (n, M)
    text: Tensor  # (n, K, P) of the facts before this one, and its mark, by parent; PAD in holes
    base: Tensor  # (n, K) log-probability of the text before this fact, by parent
    start: Tensor  # (n, K) position of this fact's mark, by parent
    past: History  # of the hypotheses within the fact
    live: Beams  # active hypotheses
    done: Beams  # the best finished hypotheses
    score: Tensor  # (n, K) of `done`, falling
    inputs: Tensor  # (n, K) the last mark or word of `live`, not decoded yet
    step: Tensor  # (n,) words of `live` so far
    floor: Tensor  # (n,) minimum number of words
    least: Tensor  # (n,) minimum log-probability of a hypothesis
    free: Tensor  # (n, K) the best scores of ends, falling, without constraints
    waited: Tensor  # (n,) words since the unconstrained search would have ended
    barred: Tensor  # (n, ids) forbidden words; no columns without constraints
    names: Tensor  # (n, ids) words whose n-grams may be repeated
    states: dict[PlanPrefix, list[int]]  # of the constraint's automaton, for each of `live`; empty without constraints

    def leave(self, staying: Tensor) -> FinishedFacts:
        """Removes and returns the rows where `staying` (n,) is False; the last rows move to their positions."""
        keep, leaving = staying.nonzero().flatten(), (~staying).nonzero().flatten()
        rows = leaving.tolist()
        nodes = [self.nodes[row] for row in rows]
        written = FinishedFacts(nodes, self.done.plans(leaving), self.text[leaving])
        n = len(keep)
        order = torch.arange(n, device=staying.device)
        places = leaving[leaving < n]
        order[places] = late = keep[keep >= n]
        for cache in (*self.cross, *self.past.caches):
            cache.leave(places, late, n)
        ids, triple, _, copy_keys = self.memory
        move(copy_keys, places, late)
        self.memory = Memory(ids[order], triple[order], [], copy_keys[:n])
        self.nodes = [self.nodes[row] for row in order.tolist()]
        for node in nodes:
            self.states.pop(node, None)
        self.past.seen = self.past.seen[order]
        self.live, self.done = self.live.plans(order), self.done.plans(order)
        for name in _BY_ROW:
            setattr(self, name, getattr(self, name)[order])
        return written

    def joined(self, other: ActiveFacts, memory: Memory, cross: list[Cache], room: int) -> ActiveFacts:
        """Concatenates the active facts, with `room` for more positions; `memory` and `cross` are of all facts."""
        both = self, other
        live = Beams.joined([active.live.last_words(int(active.step.max())) for active in both])
        done = Beams.joined([active.done.last_words(int(active.step.max())) for active in both])
        past = History.gathered(
            [(active.past, torch.arange(len(active.nodes), device=active.step.device)) for active in both], room
        )
        text = padded([active.text for active in both], before=True)
        tensors = {name: torch.cat([getattr(active, name) for active in both]) for name in _BY_ROW if name != "text"}
        nodes = self.nodes + other.nodes
        states = {**self.states, **other.states}
        return ActiveFacts(
            nodes, memory, cross, past=past, live=live, done=done, text=torch.cat(text), states=states, **tensors
        )


_BY_ROW = (
    "visible",
    "text",
    "base",
    "start",
    "score",
    "free",
    "inputs",
    "step",
    "floor",
    "least",
    "waited",
    "barred",
    "names",
)


def along(values: Tensor, index: Tensor) -> Tensor:
    """Gathers values (n, K, ...) of the beams `index` (n, K')."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def padded(batches: Sequence[Tensor], before: bool = False) -> list[Tensor]:
    """Pads the last dimension of all to the longest with zeros (PAD, False), at the end or `before`."""
    longest = max(batch.shape[-1] for batch in batches)
    missing = [longest - batch.shape[-1] for batch in batches]
    return [F.pad(batch, (n, 0) if before else (0, n)) for batch, n in zip(batches, missing, strict=True)]


def _split(text: list[int]) -> tuple[tuple[int, ...], ...]:
    """Word ids of each fact from a row of marks, words and holes."""
    facts: list[list[int]] = []
    for token in text:
        if token in (FACT, LAST):
            facts.append([])
        elif token != PAD:
            facts[-1].append(token)
    return tuple(map(tuple, facts))
