"""Data structures of the beam search; `agggen.generation.search` explains marks and the letters of the shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from agggen.model.batch import FACT, LAST, PAD
from agggen.model.joint import Memory
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache, copy_rows

Number = TypeVar("Number", float, Tensor)


@dataclass(frozen=True)
class Hypothesis:
    """A decoded text."""

    facts: tuple[tuple[int, ...], ...]  # the word ids of each fact
    log_probability: float  # natural logarithm, given the plan
    score: float  # log-probability with length penalty; ranks the hypotheses of a beam

    @property
    def length(self) -> int:
        return sum(len(fact) + 1 for fact in self.facts)  # words and marks


def penalised(log_p: Tensor, length: Tensor, exponent: float) -> Tensor:
    """Log-probabilities with length penalty (Wu et al. 2016, equation 14, without the coverage term)."""
    return torch.where(log_p > IMPOSSIBLE / 2, log_p / penalty(length.to(log_p.dtype), exponent), IMPOSSIBLE)


def penalty(length: Number, exponent: float) -> Number:
    """The length penalty, the divisor of the log-probability of a text of `length` marks and words."""
    return ((5.0 + length) / 6.0) ** exponent


@dataclass(frozen=True)
class PlanPrefix:
    """The first groups of a plan, as sets of triple indices."""

    record: int  # index of the record in the batch
    groups: tuple[frozenset[int], ...]
    is_complete: bool = True  # whether the prefix is the complete plan

    @classmethod
    def of(cls, record: int, groups: Sequence[Sequence[int]]) -> PlanPrefix:
        return cls(record, tuple(map(frozenset, groups)))

    def prefixes(self) -> list[PlanPrefix]:
        """All prefixes, shortest first; the last one is the prefix itself."""
        return [self.first(length) for length in range(1, len(self.groups) + 1)]

    def parent(self) -> PlanPrefix:
        return self.first(len(self.groups) - 1)

    def first(self, length: int) -> PlanPrefix:
        return PlanPrefix(self.record, self.groups[:length], self.is_complete and length == len(self.groups))


@dataclass
class History:
    """The decoder's key-value caches for n texts with K hypotheses each."""

    caches: list[Cache]  # per layer; a row contains the positions of all K hypotheses of a text
    attended: Tensor  # (n, K, Q) True for the positions to which a hypothesis attends

    @staticmethod
    def gathered(parts: Sequence[tuple[History, Tensor]], spare: int) -> History:
        """Concatenates rows of (history, rows) without unused positions, with memory for `spare` new positions."""
        attended, slots = [], []
        for history, index in parts:
            part_attended = history.attended[index]
            used = part_attended.any(1)  # False: the position belongs only to pruned hypotheses
            positions = (~used).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(used.sum(1).amax())]
            attended.append(part_attended.gather(2, positions[:, None].expand(-1, part_attended.shape[1], -1)))
            slots.append(positions)
        layers = zip(*(history.caches for history, _ in parts), strict=True)
        indices = [index for _, index in parts]
        caches = [Cache.gather(list(zip(layer, indices, slots, strict=True)), spare) for layer in layers]
        return History(caches, torch.cat(padded(attended)))


@dataclass(frozen=True)
class Texts:
    """The decoded texts of n plan prefixes, K hypotheses each."""

    log_p: Tensor  # (n, K); IMPOSSIBLE for a missing hypothesis
    text: Tensor  # (n, K, P) marks and words, PAD at unused positions
    last_mark: int  # position of the last fact's mark in `text`

    @property
    def length(self) -> Tensor:
        return (self.text != PAD).sum(2)  # (n, K) marks and words

    def rows(self, index: Tensor) -> Texts:
        return Texts(self.log_p[index], self.text[index], self.last_mark)

    def hypotheses(self, row: int, exponent: float) -> list[Hypothesis]:
        """The hypotheses of a row, best first; if all are missing, one with log-probability IMPOSSIBLE."""
        scores = penalised(self.log_p[row], self.length[row], exponent)
        order = scores.argsort(descending=True, stable=True).tolist()
        log_p, text = self.log_p[row].tolist(), self.text[row].tolist()
        valid = [beam for beam in order if log_p[beam] > IMPOSSIBLE / 2] or order[:1]
        return [Hypothesis(_split_facts(text[beam]), log_p[beam], float(scores[beam])) for beam in valid]


@dataclass(frozen=True)
class DecodedPrefix:
    """The K decoded texts of a plan prefix, which the next fact continues: one row of `texts` and `history`."""

    texts: Texts
    history: History
    row: int

    @staticmethod
    def order(prefixes: Sequence[DecodedPrefix]) -> list[int]:
        """The indices of the prefixes in an order in which prefixes with the same `texts` are adjacent."""
        first_of = {id(prefix.texts): index for index, prefix in reversed(list(enumerate(prefixes)))}
        return sorted(range(len(prefixes)), key=lambda index: first_of[id(prefixes[index].texts)])

    @staticmethod
    def gathered(prefixes: Sequence[DecodedPrefix], spare: int) -> tuple[Texts, History]:
        """Copies the prefixes into one batch, with memory for `spare` new positions."""
        texts, histories = [], []
        for _, same_texts in groupby(prefixes, key=lambda prefix: id(prefix.texts)):
            group = list(same_texts)
            index = torch.tensor([prefix.row for prefix in group], device=group[0].texts.text.device)
            texts.append(group[0].texts.rows(index))
            histories.append((group[0].history, index))
        text = torch.cat(padded([rows.text for rows in texts], before=True))
        return Texts(torch.cat([rows.log_p for rows in texts]), text, 0), History.gathered(histories, spare)


@dataclass
class Beams:
    """K hypotheses within a fact for each of n plans."""

    log_p: Tensor  # (n, K) log-probability of the whole text so far; IMPOSSIBLE for a missing hypothesis
    words: Tensor  # (n, K, W) words of this fact, left-padded
    parent: Tensor  # (n, K) index of the preceding text that the hypothesis continues

    @classmethod
    def of(cls, log_p: Tensor) -> Beams:
        """Hypotheses without words, one for each preceding text; `log_p` (n, K) is that text's log-probability."""
        parent = torch.arange(log_p.shape[1], device=log_p.device).repeat(len(log_p), 1)
        return cls(log_p, parent.new_empty(*log_p.shape, 0), parent)

    def select_beams(self, index: Tensor) -> Beams:
        """The hypotheses `index` (n, K') of each plan."""
        return Beams(self.log_p.gather(1, index), gather_beams(self.words, index), self.parent.gather(1, index))

    def select_plans(self, index: Tensor) -> Beams:
        return Beams(self.log_p[index], self.words[index], self.parent[index])

    def with_last_words(self, n: int) -> Beams:
        return replace(self, words=self.words[..., self.words.shape[2] - n :])

    @staticmethod
    def joined(batches: Sequence[Beams]) -> Beams:
        words = torch.cat(padded([batch.words for batch in batches], before=True))
        log_p, parent = torch.cat([batch.log_p for batch in batches]), torch.cat([batch.parent for batch in batches])
        return Beams(log_p, words, parent)


@dataclass
class FinishedFacts:
    """Finished facts, removed from `ActiveFacts`."""

    prefixes: list[PlanPrefix]
    beams: Beams
    text: Tensor  # (n, K, P) the preceding facts and this fact's mark, indexed by `parent`
    fallbacks: frozenset[PlanPrefix] = frozenset()  # the prefixes whose last fact is a fallback

    @staticmethod
    def joined(batches: Sequence[FinishedFacts]) -> FinishedFacts:
        text = torch.cat(padded([batch.text for batch in batches], before=True))
        prefixes = [prefix for batch in batches for prefix in batch.prefixes]
        fallbacks = frozenset[PlanPrefix]().union(*(batch.fallbacks for batch in batches))
        return FinishedFacts(prefixes, Beams.joined([batch.beams for batch in batches]), text, fallbacks)

    def words(self, row: int, beam: int) -> tuple[list[int], list[int]]:
        """The word ids of a fact's hypothesis, and the ids of the preceding text, marks included."""
        fact, before = self.beams.words[row, beam], self.text[row, self.beams.parent[row, beam]]
        return fact[fact != PAD].tolist(), before[before != PAD].tolist()

    def texts(self) -> Texts:
        words = self.beams.words
        words = words.gather(2, (words == PAD).to(torch.uint8).argsort(dim=2, stable=True))  # PAD last
        longest = int((words != PAD).sum(2).max())
        text = torch.cat((gather_beams(self.text, self.beams.parent), words[..., :longest]), 2)
        return Texts(self.beams.log_p, text, self.text.shape[2] - 1)


@dataclass
class ActiveFacts:
    """The n facts that are being decoded, each with K active and K finished hypotheses."""

    prefixes: list[PlanPrefix]  # the prefixes that end with these facts
    memory: Memory  # the encoded record of each fact; without `cross`
    cross: list[Cache]  # per layer, keys and values of the cross-attention
    visible: Tensor  # (n, M) True for words of the record that belong to the fact's triples
    text: Tensor  # (n, K, P) preceding facts and this fact's mark, indexed by `parent`; PAD at unused positions
    text_log_p: Tensor  # (n, K) log-probability of the preceding facts, indexed by `parent`
    start: Tensor  # (n, K) position of this fact's mark, indexed by `parent`
    history: History  # of the active hypotheses
    active: Beams  # hypotheses whose fact has not ended
    finished: Beams  # the best hypotheses whose fact has ended
    score: Tensor  # (n, K) scores of `finished`, in descending order
    inputs: Tensor  # (n, K) the last mark or word of `active`, the next input of the decoder
    step: Tensor  # (n,) number of words of `active` so far
    min_words: Tensor  # (n,) minimum number of words
    min_log_p: Tensor  # (n,) a fact is finished when none of its hypotheses can reach this log-probability
    unconstrained: Tensor  # (n, K) scores of the K best hypotheses that ignore the constraints, in descending order
    extra_words: Tensor  # (n,) number of words since the unconstrained search would have ended
    forbidden: Tensor  # (n, ids) True for forbidden words; no columns without constraints
    repeatable: Tensor  # (n, ids) True for words whose n-grams may be repeated

    def active_words(self) -> list[list[tuple[int, ...]]]:
        """The words of each active hypothesis, per fact."""
        words, steps = self.active.words.tolist(), self.step.tolist()
        return [[tuple(beam[len(beam) - n :]) for beam in beams] for beams, n in zip(words, steps, strict=True)]

    def remove(self, removed: Tensor) -> FinishedFacts:
        """Removes and returns the facts where `removed` (n,) is True; the last remaining facts fill the freed rows."""
        remaining_rows, removed_rows = (~removed).nonzero().flatten(), removed.nonzero().flatten()
        prefixes = [self.prefixes[row] for row in removed_rows.tolist()]
        finished = FinishedFacts(prefixes, self.finished.select_plans(removed_rows), self.text[removed_rows])
        n = len(remaining_rows)
        order = torch.arange(n, device=removed.device)
        freed, moved = removed_rows[removed_rows < n], remaining_rows[remaining_rows >= n]
        order[freed] = moved
        for cache in (*self.cross, *self.history.caches):
            cache.compact(freed, moved, n)
        ids, triple, _, copy_keys, shares = self.memory
        copy_rows(copy_keys, freed, moved)
        self.memory = Memory(ids[order], triple[order], [], copy_keys[:n], shares[order])
        self.prefixes = [self.prefixes[row] for row in order.tolist()]
        self.history.attended = self.history.attended[order]
        self.active, self.finished = self.active.select_plans(order), self.finished.select_plans(order)
        for name in _BY_ROW:
            setattr(self, name, getattr(self, name)[order])
        return finished

    def joined(self, other: ActiveFacts, memory: Memory, cross: list[Cache], spare: int) -> ActiveFacts:
        """Concatenates two batches; `memory` and `cross` belong to the result, `spare` is as in `History.gathered`."""
        batches = self, other
        active = Beams.joined([facts.active.with_last_words(int(facts.step.max())) for facts in batches])
        finished = Beams.joined([facts.finished.with_last_words(int(facts.step.max())) for facts in batches])
        rows = [(facts.history, torch.arange(len(facts.prefixes), device=facts.step.device)) for facts in batches]
        tensors = {name: torch.cat([getattr(facts, name) for facts in batches]) for name in _BY_ROW if name != "text"}
        return ActiveFacts(
            self.prefixes + other.prefixes,
            memory,
            cross,
            history=History.gathered(rows, spare),
            active=active,
            finished=finished,
            text=torch.cat(padded([facts.text for facts in batches], before=True)),
            **tensors,
        )


_BY_ROW = tuple(field.name for field in fields(ActiveFacts) if field.type in (Tensor, "Tensor"))


def gather_beams(values: Tensor, index: Tensor) -> Tensor:
    """Selects from `values` (n, K, D) the hypotheses `index` (n, K')."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def padded(batches: Sequence[Tensor], before: bool = False) -> list[Tensor]:
    """Pads the last dimension of the tensors to the same size with zeros (PAD, False), at its end or `before` it."""
    longest = max(batch.shape[-1] for batch in batches)
    missing = [longest - batch.shape[-1] for batch in batches]
    return [F.pad(batch, (n, 0) if before else (0, n)) for batch, n in zip(batches, missing, strict=True)]


def _split_facts(text: list[int]) -> tuple[tuple[int, ...], ...]:
    """The word ids of each fact in a text of marks, words and PAD."""
    facts: list[list[int]] = []
    for token in text:
        if token in (FACT, LAST):
            facts.append([])
        elif token != PAD:
            facts[-1].append(token)
    return tuple(map(tuple, facts))
