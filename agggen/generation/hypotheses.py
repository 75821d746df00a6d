"""What the beam search keeps: texts between two facts, hypotheses within a fact, and the decoder's caches.

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
    score: float  # with the length penalty; what the beam was ranked by


def penalised(log_p: Tensor, length: Tensor, exponent: float) -> Tensor:
    """What texts of `length` marks and words are ranked by: Wu et al. 2016, equation 14, without the coverage term."""
    score = log_p / penalty(length.to(log_p.dtype), exponent)
    return torch.where(log_p > IMPOSSIBLE / 2, score, IMPOSSIBLE)


def penalty(length: Number, exponent: float) -> Number:
    """What divides the log-probability of texts of `length` marks and words."""
    return ((5.0 + length) / 6.0) ** exponent


@dataclass(frozen=True)
class Beginning:
    """The first facts of a plan as sets of triples; `last` if there are no more."""

    record: int
    groups: tuple[frozenset[int], ...]
    last: bool = True

    @classmethod
    def of(cls, record: int, groups: Sequence[Sequence[int]]) -> Beginning:
        """A whole plan."""
        return cls(record, tuple(map(frozenset, groups)))

    def starts(self) -> list[Beginning]:
        """Its first facts, and more and more of them, but not all."""
        return [self.until(fact) for fact in range(1, len(self.groups))]

    def parent(self) -> Beginning:
        """All but the last fact."""
        return self.until(len(self.groups) - 1)

    def until(self, fact: int) -> Beginning:
        return Beginning(self.record, self.groups[:fact], self.last and fact == len(self.groups))


@dataclass
class History:
    """What the decoder has read of n texts, K hypotheses each."""

    caches: list[Cache]  # per layer, n rows; all that any hypothesis of a row has read
    seen: Tensor  # (n, K, Q) which positions of it are a hypothesis's own

    @staticmethod
    def gathered(parts: Sequence[tuple[History, Tensor]], room: int = 0) -> History:
        """Copies of some rows of each, behind each other: but for the positions that no hypothesis of a row has seen,
        and with room for so many more.
        """
        seen, slots = [], []
        for history, index in parts:
            of_part = history.seen[index]
            used = of_part.any(1)  # hypotheses that were left behind saw others
            some = (~used).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(used.sum(1).amax())]
            seen.append(of_part.gather(2, some[:, None].expand(-1, of_part.shape[1], -1)))
            slots.append(some)
        layers = zip(*(history.caches for history, _ in parts), strict=True)
        indices = [index for _, index in parts]
        caches = [Cache.gathered(list(zip(layer, indices, slots, strict=True)), room) for layer in layers]
        return History(caches, torch.cat(padded(seen)))


@dataclass(frozen=True)
class Texts:
    """What n plans have written until the end of a fact, K hypotheses each."""

    log_p: Tensor  # (n, K); IMPOSSIBLE for an empty slot
    text: Tensor  # (n, K, P) marks and words, PAD in holes
    length: Tensor  # (n, K) marks and words
    last: int  # the place in `text` of the last fact's mark

    def rows(self, index: Tensor) -> Texts:
        """Some rows."""
        return Texts(self.log_p[index], self.text[index], self.length[index], self.last)

    def hypotheses(self, row: int, exponent: float) -> list[Hypothesis]:
        """The finished texts of a row, best first."""
        scores = penalised(self.log_p[row], self.length[row], exponent)
        order = scores.argsort(descending=True, stable=True).tolist()
        log_p, text = self.log_p[row].tolist(), self.text[row].tolist()
        kept = [beam for beam in order if log_p[beam] > IMPOSSIBLE / 2] or order[:1]
        return [Hypothesis(_split(text[beam]), log_p[beam], float(scores[beam])) for beam in kept]


@dataclass(frozen=True)
class Place:
    """A row of finished texts, with what was read of them."""

    texts: Texts
    history: History
    row: int

    @staticmethod
    def order(places: Sequence[Place]) -> list[int]:
        """Their numbers, those in the same texts behind each other."""
        found: dict[int, list[int]] = {}
        for number, place in enumerate(places):
            found.setdefault(id(place.texts), []).append(number)
        return [number for some in found.values() for number in some]

    @staticmethod
    def gathered(places: Sequence[Place], room: int) -> tuple[Texts, History]:
        """Copies of all, in their order, with room to read more."""
        texts, histories = [], []
        for _, some in groupby(places, key=lambda place: id(place.texts)):
            first, *others = some
            index = torch.tensor([first.row, *(place.row for place in others)], device=first.texts.text.device)
            texts.append(first.texts.rows(index))
            histories.append((first.history, index))
        text = padded([each.text for each in texts], before=True)
        log_p, length = torch.cat([each.log_p for each in texts]), torch.cat([each.length for each in texts])
        return Texts(log_p, torch.cat(text), length, 0), History.gathered(histories, room)


@dataclass
class Beams:
    """K hypotheses within a fact for each of n plans."""

    log_p: Tensor  # (n, K) of the whole text so far; IMPOSSIBLE for an empty slot
    words: Tensor  # (n, K, W) words of this fact, PAD before them
    parent: Tensor  # (n, K) which hypothesis at the fact's beginning this one continues
    missing: Tensor  # (n, K) values that the finished fact does not mention, where that is looked at; else 0

    @classmethod
    def of(cls, log_p: Tensor) -> Beams:
        """Facts without a word, one for each log-probability (n, K)."""
        parent = torch.arange(log_p.shape[1], device=log_p.device).repeat(len(log_p), 1)
        return cls(log_p, parent.new_empty(*log_p.shape, 0), parent, torch.zeros_like(log_p))

    def beams(self, index: Tensor) -> Beams:
        """Picks beams `index` (n, K') of each plan."""
        rest = (each.gather(1, index) for each in (self.parent, self.missing))
        return Beams(self.log_p.gather(1, index), along(self.words, index), *rest)

    def plans(self, index: Tensor) -> Beams:
        """Picks the plans `index`."""
        return Beams(self.log_p[index], self.words[index], self.parent[index], self.missing[index])

    def last_words(self, n: int) -> Beams:
        """With places for so many words."""
        return replace(self, words=self.words[..., self.words.shape[2] - n :])

    @staticmethod
    def joined(some: Sequence[Beams]) -> Beams:
        """The plans of all behind each other."""
        words = padded([each.words for each in some], before=True)
        rest = ([getattr(each, name) for each in some] for name in ("log_p", "parent", "missing"))
        log_p, parent, missing = map(torch.cat, rest)
        return Beams(log_p, torch.cat(words), parent, missing)


@dataclass
class Written:
    """Facts that are settled, as they leave `Open`."""

    nodes: list[Beginning]
    beams: Beams
    text: Tensor  # (n, K, P), before these facts' words, by parent

    @staticmethod
    def joined(some: Sequence[Written]) -> Written:
        """All of them."""
        text = torch.cat(padded([each.text for each in some], before=True))
        return Written(
            [node for each in some for node in each.nodes], Beams.joined([each.beams for each in some]), text
        )

    def texts(self) -> Texts:
        """The texts with these facts."""
        words = self.beams.words
        words = words.gather(2, (words == PAD).to(torch.uint8).argsort(dim=2, stable=True))  # holes behind them
        longest = int((words != PAD).sum(2).max())
        text = torch.cat((along(self.text, self.beams.parent), words[..., :longest]), 2)
        return Texts(self.beams.log_p, text, (text != PAD).sum(2), self.text.shape[2] - 1)


@dataclass
class Open:
    """The facts that are being written, n of them, K hypotheses each."""

    nodes: list[Beginning]  # whose last fact it is
    memory: Memory  # but for `cross`, which is in caches of its own
    cross: list[Cache]  # per layer
    visible: Tensor  # (n, M)
    text: Tensor  # (n, K, P) of the facts before this one, and its mark, by parent; PAD in holes
    start: Tensor  # (n, K) position of this fact's mark, by parent
    past: History  # what the hypotheses within the fact have read
    live: Beams  # those that may go on
    done: Beams  # the best that are finished
    score: Tensor  # (n, K) of `done`, falling
    inputs: Tensor  # (n, K) the last mark or word of `live`, which was not read yet
    step: Tensor  # (n,) words of `live`
    floor: Tensor  # (n,) the fewest words of the fact
    least: Tensor  # (n,) the log-probability that a version must have
    waited: Tensor  # (n,) words since the fact would have ended if nothing had to be mentioned

    def leave(self, staying: Tensor) -> Written:
        """Takes out the rows for which `staying` (n,) is False. The last ones that stay move to the places of those."""
        keep, gone = staying.nonzero().flatten(), (~staying).nonzero().flatten()
        which = gone.tolist()
        nodes = [self.nodes[row] for row in which]
        written = Written(nodes, self.done.plans(gone), self.text[gone])
        n = len(keep)
        order = torch.arange(n, device=staying.device)
        places = gone[gone < n]
        order[places] = late = keep[keep >= n]
        for cache in (*self.cross, *self.past.caches):
            cache.leave(places, late, n)
        ids, triple, _, copy_keys = self.memory
        move(copy_keys, places, late)
        self.memory = Memory(ids[order], triple[order], [], copy_keys[:n])
        self.nodes = [self.nodes[row] for row in order.tolist()]
        self.past.seen = self.past.seen[order]
        self.live, self.done = self.live.plans(order), self.done.plans(order)
        for name in _BY_ROW:
            setattr(self, name, getattr(self, name)[order])
        return written

    def joined(self, other: Open, memory: Memory, cross: list[Cache], room: int) -> Open:
        """These facts, and others behind them; `memory` and `cross` are of all, and there is room to read more."""
        both = self, other
        live = Beams.joined([one.live.last_words(int(one.step.max())) for one in both])
        done = Beams.joined([one.done.last_words(int(one.step.max())) for one in both])
        past = History.gathered(
            [(one.past, torch.arange(len(one.nodes), device=one.step.device)) for one in both], room
        )
        text = padded([one.text for one in both], before=True)
        rest = {name: torch.cat([getattr(one, name) for one in both]) for name in _BY_ROW if name != "text"}
        nodes = self.nodes + other.nodes
        return Open(nodes, memory, cross, past=past, live=live, done=done, text=torch.cat(text), **rest)


_BY_ROW = ("visible", "text", "start", "score", "inputs", "step", "floor", "least", "waited")


def along(values: Tensor, index: Tensor) -> Tensor:
    """values (n, K, ...) of the beams `index` (n, K')."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def padded(some: Sequence[Tensor], before: bool = False) -> list[Tensor]:
    """The last dimension of all is that of the longest; zeros, which are PAD and False, behind or before the others."""
    longest = max(each.shape[-1] for each in some)
    more = [longest - each.shape[-1] for each in some]
    return [F.pad(each, (n, 0) if before else (0, n)) for each, n in zip(some, more, strict=True)]


def _split(text: list[int]) -> tuple[tuple[int, ...], ...]:
    """Word ids of each fact from a row of marks, words and holes."""
    facts: list[list[int]] = []
    for token in text:
        if token in (FACT, LAST):
            facts.append([])
        elif token != PAD:
            facts[-1].append(token)
    return tuple(map(tuple, facts))
