"""What the beam search keeps: texts between two facts, hypotheses within a fact, and the decoder's caches.

Shapes as in `agggen.generation.search`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agggen.model.batch import FACT, LAST, PAD
from agggen.model.joint import Memory
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import KeysValues


@dataclass(frozen=True)
class Hypothesis:
    """A text as word ids, fact by fact, with its log-probability given the plan (natural logarithm)."""

    facts: tuple[tuple[int, ...], ...]
    log_probability: float
    score: float  # with the length penalty; what the beam was ranked by


def penalised(log_p: Tensor, length: Tensor, exponent: float) -> Tensor:
    """What texts of `length` marks and words are ranked by: Wu et al. 2016, equation 14, without the coverage term."""
    score = log_p / ((5.0 + length.to(log_p.dtype)) / 6.0) ** exponent
    return torch.where(log_p > IMPOSSIBLE / 2, score, IMPOSSIBLE)


@dataclass(frozen=True)
class Beginning:
    """The first facts of a plan as sets of triples; `last` if there are no more."""

    record: int
    groups: tuple[frozenset[int], ...]
    last: bool = True

    def until(self, fact: int) -> Beginning:
        return Beginning(self.record, self.groups[:fact], self.last and fact == len(self.groups))


@dataclass
class Texts:
    """What n plans have written until the end of a fact, K hypotheses each."""

    log_p: Tensor  # (n, K); IMPOSSIBLE for an empty slot
    text: Tensor  # (n, K, P) marks and words, PAD in holes
    length: Tensor  # (n, K) marks and words
    last: Tensor  # (n, K, length) mark and words of the last fact alone
    history: list[KeysValues]  # per layer, read under the mask of all triples (n, H, Q, D / H)
    seen: Tensor  # (n, K, Q) which positions of `history` are a hypothesis's own

    def pick(self, rows: list[int]) -> Texts:
        index = torch.tensor(rows, dtype=torch.long, device=self.log_p.device)
        history = [(key[index], value[index]) for key, value in self.history]
        return Texts(
            self.log_p[index], self.text[index], self.length[index], self.last[index], history, self.seen[index]
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
    words: Tensor  # (n, K, most) words of this fact, PAD behind its end
    parent: Tensor  # (n, K) which hypothesis at the fact's beginning this one continues

    def beams(self, index: Tensor) -> Beams:
        """Picks beams `index` (n, K') of each plan."""
        return Beams(self.log_p.gather(1, index), along(self.words, index), self.parent.gather(1, index))

    def plans(self, index: Tensor) -> Beams:
        return Beams(self.log_p[index], self.words[index], self.parent[index])

    def put(self, index: Tensor, other: Beams) -> None:
        """Overwrites the plans `index` by `other`."""
        self.log_p[index], self.words[index], self.parent[index] = other.log_p, other.words, other.parent


@dataclass
class Open:
    """What the decoder needs for the plans whose fact is not settled."""

    memory: Memory
    visible: Tensor  # (n, M)
    text: Tensor  # (n, K, P + 1) of the facts before this one, and its mark, by parent
    start: Tensor  # (n, K) position of this fact's mark, by parent
    past: list[KeysValues]  # per layer (n, H, Q, D / H): all that any hypothesis has read
    seen: Tensor  # (n, K, Q) what of it each open hypothesis has read

    def pick(self, index: Tensor) -> Open:
        past = [(key[index], value[index]) for key, value in self.past]
        memory, visible = self.memory.rows(index), self.visible[index]
        return Open(memory, visible, self.text[index], self.start[index], past, self.seen[index])


def along(values: Tensor, index: Tensor) -> Tensor:
    """values (n, K, ...) of the beams `index` (n, K')."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _split(text: list[int]) -> tuple[tuple[int, ...], ...]:
    """Word ids of each fact from a row of marks, words and holes."""
    facts: list[list[int]] = []
    for token in text:
        if token in (FACT, LAST):
            facts.append([])
        elif token != PAD:
            facts[-1].append(token)
    return tuple(map(tuple, facts))
