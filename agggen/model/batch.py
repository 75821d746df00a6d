"""Collates `Example`s (encoded records with a text) into padded tensors, and prunes states by alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain

import torch
from torch import Tensor

from agggen.model.lattice import Lattice

PAD, UNK, CLS, SEP, FACT, LAST, END = range(7)
"""Ids of the special tokens: FACT begins a fact, LAST the last fact of a text; END ends every fact."""


@dataclass(frozen=True, slots=True)
class Example:
    """An encoded record, for training with one of its texts."""

    id: str
    source: tuple[int, ...]  # ids of the source tokens; from the vocabulary's size on: out-of-vocabulary words
    triple: tuple[int, ...]  # per source token, the index of its triple; -1 for [CLS]
    role: tuple[int, ...]  # per source token: 0 special, 1 subject, 2 predicate, 3 object
    predicates: tuple[int, ...]  # predicate-table id of each triple
    facts: tuple[tuple[int, ...], ...] = ()  # token ids of each fact, without FACT, LAST and END
    kept: tuple[int, ...] = ()  # index of each fact in the text; facts in which no word starts are dropped
    required: tuple[int, ...] = ()  # per fact, a bit mask over triples
    forbidden: tuple[int, ...] = ()  # per fact, a bit mask over triples
    max_size: int = 99  # maximum number of triples in a group

    @property
    def n_target(self) -> int:
        """Number of scored positions of the text: its tokens and one END per fact."""
        return sum(map(len, self.facts)) + len(self.facts)


@dataclass(frozen=True, slots=True)
class Batch:
    """A padded batch; the target fields are empty tensors if the examples have no text."""

    source: Tensor  # (B, M) token ids
    triple: Tensor  # (B, M) triple index, -1 for [CLS] and padding
    role: Tensor  # (B, M) part of the triple, see `Example`
    predicates: Tensor  # (B, J) predicate ids
    n_triples: Tensor  # (B,) number of triples
    inputs: Tensor  # (B, N) decoder inputs: per fact FACT or LAST, then its tokens
    targets: Tensor  # (B, N) the token after each input: per fact its tokens, then END; PAD beyond the text
    fact_start: Tensor  # (B, T) position of the fact's FACT or LAST
    fact_length: Tensor  # (B, T) number of scored positions of the fact; 0 beyond the text's facts
    n_facts: Tensor  # (B,) number of facts
    required: Tensor  # (B, T) bit masks over triples
    forbidden: Tensor  # (B, T) bit masks over triples
    max_size: Tensor  # (B,) largest number of triples in a group
    original: Batch | None = None  # the batch on the CPU, if this is a copy on a GPU

    def __len__(self) -> int:
        return len(self.source)

    @property
    def on_cpu(self) -> Batch:
        """The same batch in main memory, where reading values does not synchronise with a GPU."""
        return self.original or self

    def to(self, device: torch.device | str) -> Batch:
        """The batch on `device`: an asynchronous copy, or the batch itself if it is already there."""
        device = torch.device(device)
        if device.type == self.source.device.type == "cpu":
            return self
        copies = {f.name: to_device(getattr(self, f.name), device) for f in fields(self) if f.name != "original"}
        return Batch(**copies, original=self.on_cpu)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor to `device` without blocking the CPU."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()  # pageable memory is copied synchronously
    return tensor.to(device, non_blocking=tensor.device.type == "cpu")


def _padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    width = max(map(len, rows), default=0)
    padded = [[*row, *[fill] * (width - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), width)


def collate(examples: Sequence[Example], single_fact: bool = False) -> Batch:
    """Pads examples into a batch; with `single_fact`, each text is a single fact, as for the plain Transformer."""
    inputs, targets, starts, lengths = [], [], [], []
    for example in examples:
        facts = list(example.facts)
        if single_fact and facts:
            facts = [tuple(chain(*facts))]
        begin_tokens = [FACT] * (len(facts) - 1) + [LAST]
        inputs.append([token for begin, fact in zip(begin_tokens, facts, strict=False) for token in (begin, *fact)])
        targets.append([token for fact in facts for token in (*fact, END)])
        lengths.append([len(fact) + 1 for fact in facts])
        starts.append([sum(lengths[-1][:index]) for index in range(len(facts))])
    required = [() if single_fact else example.required for example in examples]
    forbidden = [() if single_fact else example.forbidden for example in examples]
    no_masks = [[0] * len(fact_starts) for fact_starts in starts]
    return Batch(
        source=_padded([example.source for example in examples], PAD),
        triple=_padded([example.triple for example in examples], -1),
        role=_padded([example.role for example in examples], 0),
        predicates=_padded([example.predicates for example in examples], 0),
        n_triples=torch.tensor([len(example.predicates) for example in examples]),
        inputs=_padded(inputs, PAD),
        targets=_padded(targets, PAD),
        fact_start=_padded(starts, 0),
        fact_length=_padded(lengths, 0),
        n_facts=torch.tensor([len(fact_starts) for fact_starts in starts]),
        required=_padded([masks or zeros for masks, zeros in zip(required, no_masks, strict=True)], 0),
        forbidden=_padded([masks or zeros for masks, zeros in zip(forbidden, no_masks, strict=True)], 0),
        max_size=torch.tensor([example.max_size for example in examples]),
    )


def _missing_and_extra(batch: Batch, lattice: Lattice) -> tuple[Tensor, Tensor]:
    """Two (B, T, C): the number of a fact's required triples outside a set, and of its forbidden triples in the set."""
    triple_bits = 1 << torch.arange(lattice.n_predicates, device=lattice.set_bits.device)
    required, forbidden = ((masks[..., None] & triple_bits) != 0 for masks in (batch.required, batch.forbidden))
    members = lattice.set_members.to(torch.float32)  # (C, J)
    return (required.float() @ (1 - members).T).round().long(), (forbidden.float() @ members.T).round().long()


def alignment_violations(batch: Batch, lattice: Lattice) -> Tensor:
    """(B, T, C): the number of a fact's required triples outside a set, plus its forbidden triples in the set."""
    missing, extra = _missing_and_extra(batch, lattice)
    return missing + extra


def _in_record(batch: Batch, lattice: Lattice) -> Tensor:
    """(B, C): whether all triples of a set belong to the record."""
    absent_bits = (1 << lattice.n_predicates) - (1 << batch.n_triples)
    return (lattice.set_bits & absent_bits[:, None]) == 0


def omitted_sets(batch: Batch, lattice: Lattice) -> Tensor:
    """(B, T, C): whether the fact omits triples of a set: the set has its required triples and some forbidden ones."""
    missing, extra = _missing_and_extra(batch, lattice)
    omits = (missing == 0) & (extra > 0) & _in_record(batch, lattice)[:, None]
    return omits & (batch.fact_length > 0)[..., None]


def allowed_sets(batch: Batch, lattice: Lattice, max_violations: int = 0) -> Tensor:
    """(B, T, C): whether a set may emit a fact: it has at most `max_size` triples and violates at most `max_violations`
    of the fact's alignments; if there is none, all sets of at most `max_size` triples or, failing that, of the record.
    """
    in_record = _in_record(batch, lattice)
    is_small = in_record & (lattice.set_size <= batch.max_size[:, None])
    allowed = is_small[:, None] & (alignment_violations(batch, lattice) <= max_violations)
    for fallback in (is_small, in_record):
        allowed = torch.where(allowed.any(-1, keepdim=True), allowed, fallback[:, None])
    return allowed & (batch.fact_length > 0)[..., None]
