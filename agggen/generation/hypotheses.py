"""What the beam search keeps: texts between two facts, hypotheses within a fact, and the decoder's caches.

Shapes as in `agggen.generation.search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
class Texts:
    """What n plans have written until the end of a fact, K hypotheses each."""

    log_p: Tensor  # (n, K); IMPOSSIBLE for an empty slot
    text: Tensor  # (n, K, P) marks and words, PAD in holes
    length: Tensor  # (n, K) marks and words
    added: int  # how many places at the end of `text` are the last fact's
    history: list[Cache]  # per layer, read under the mask of all triples; others may use them too
    rows: Tensor  # (n,) which row of `history` is a plan's
    seen: Tensor  # (n, K, Q) which positions of it are a hypothesis's own

    def pick(self, index: Tensor) -> Texts:
        """The plans `index`, with the history of all."""
        picked = (self.log_p[index], self.text[index], self.length[index])
        return Texts(*picked, self.added, self.history, self.rows[index], self.seen[index])

    def past(self, room: int = 0) -> tuple[list[Cache], Tensor]:
        """A copy of the history with a row for each plan, and `seen` of it: but for the positions that no hypothesis of
        a plan has seen, and with room for so many more.
        """
        used = self.seen.any(1)  # hypotheses that were left behind saw others
        slots = (~used).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(used.sum(1).max())]
        seen = self.seen.gather(2, slots[:, None].expand(-1, self.seen.shape[1], -1))
        return [cache.positions(self.rows, slots, room) for cache in self.history], seen

    @staticmethod
    def joined(some: Sequence[Texts]) -> Texts:
        """The plans of all behind each other, with copies of their histories; `added` is not told apart any more."""
        pasts, seen = zip(*(each.past() for each in some), strict=True)
        return Texts(
            torch.cat([each.log_p for each in some]),
            torch.cat(_padded([each.text for each in some])),
            torch.cat([each.length for each in some]),
            0,
            [Cache.joined(layer) for layer in zip(*pasts, strict=True)],
            torch.arange(sum(len(each.rows) for each in some), device=some[0].rows.device),
            torch.cat(_padded(seen)),
        )

    def hypotheses(self, row: int, exponent: float) -> list[Hypothesis]:
        """The finished texts of a row, best first."""
        scores = penalised(self.log_p[row], self.length[row], exponent)
        order = scores.argsort(descending=True, stable=True).tolist()
        log_p, text = self.log_p[row].tolist(), self.text[row].tolist()
        kept = [beam for beam in order if log_p[beam] > IMPOSSIBLE / 2] or order[:1]
        return [Hypothesis(_split(text[beam]), log_p[beam], float(scores[beam])) for beam in kept]


@dataclass
class Beams:
    """K hypotheses within a fact for each of n plans."""

    log_p: Tensor  # (n, K) of the whole text so far; IMPOSSIBLE for an empty slot
    words: Tensor  # (n, K, any) words of this fact, PAD behind its end
    parent: Tensor  # (n, K) which hypothesis at the fact's beginning this one continues
    missing: Tensor  # (n, K) values that the finished fact does not mention, where that is looked at; else 0

    @classmethod
    def of(cls, log_p: Tensor, room: int) -> Beams:
        """Facts of `room` places without a word, one for each log-probability (n, K)."""
        parent = torch.arange(log_p.shape[1], device=log_p.device).repeat(len(log_p), 1)
        return cls(log_p, parent.new_full((*log_p.shape, room), PAD), parent, torch.zeros_like(log_p))

    def beams(self, index: Tensor) -> Beams:
        """Picks beams `index` (n, K') of each plan."""
        rest = (each.gather(1, index) for each in (self.parent, self.missing))
        return Beams(self.log_p.gather(1, index), along(self.words, index), *rest)

    def plans(self, index: Tensor) -> Beams:
        """Picks the plans `index`."""
        return Beams(self.log_p[index], self.words[index], self.parent[index], self.missing[index])

    def put(self, index: Tensor, other: Beams) -> None:
        """Overwrites the plans `index` by `other`."""
        self.log_p[index], self.parent[index], self.missing[index] = other.log_p, other.parent, other.missing
        self.words[index, :, : other.words.shape[2]] = other.words


@dataclass
class Open:
    """What the decoder needs for the n plans whose fact is not settled."""

    memory: Memory  # but for `cross`, which is in caches of its own
    cross: list[Cache]  # per layer
    visible: Tensor  # (n, M)
    text: Tensor  # (n, K, P + 1) of the facts before this one, and its mark, by parent
    start: Tensor  # (n, K) position of this fact's mark, by parent
    past: list[Cache]  # per layer, all that any hypothesis has read
    seen: Tensor  # (n, K, Q) what of it each open hypothesis has read

    def stay(self, staying: Tensor) -> Tensor:
        """Leaves but the plans `staying`, in the order that is returned: the last take the places of those that go."""
        n = len(staying)
        order = torch.arange(n, device=staying.device)
        gone = torch.ones_like(order, dtype=torch.bool).index_fill_(0, staying[staying < n], False).nonzero().flatten()
        order[gone] = late = staying[staying >= n]
        for cache in (*self.cross, *self.past):
            cache.leave(gone, late, n)
        ids, triple, _, copy_keys = self.memory
        move(copy_keys, gone, late)
        self.memory = Memory(ids[order], triple[order], [], copy_keys[:n])
        self.visible, self.text = self.visible[order], self.text[order]
        self.start, self.seen = self.start[order], self.seen[order]
        return order


def along(values: Tensor, index: Tensor) -> Tensor:
    """values (n, K, ...) of the beams `index` (n, K')."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _padded(some: Sequence[Tensor]) -> list[Tensor]:
    """The last dimension of all is that of the longest; zeros, which are PAD and False, behind the others."""
    longest = max(each.shape[-1] for each in some)
    return [F.pad(each, (0, longest - each.shape[-1])) for each in some]


def _split(text: list[int]) -> tuple[tuple[int, ...], ...]:
    """Word ids of each fact from a row of marks, words and holes."""
    facts: list[list[int]] = []
    for token in text:
        if token in (FACT, LAST):
            facts.append([])
        elif token != PAD:
            facts[-1].append(token)
    return tuple(map(tuple, facts))
