"""Records and texts as inputs of the critic's network.

A sequence has a mark and the words of subject, predicate and object for each triple, then a mark and the words of the
text. Words are in the normal form of ``agggen.verification.normal``. A word is embedded by its id, if it is frequent in
training, and by hashed character n-grams, so that variants of a name unseen in training have similar embeddings.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import chain

import torch
from torch import Tensor

from agggen.verification.normal import Span, words

BUCKETS = 1 << 13  # the number of hash buckets of character n-grams
LONGEST_TEXT, LONGEST_VALUE, LONGEST_PREDICATE = 250, 24, 10  # maximum numbers of words; longer ones are truncated
PUNCTUATION = frozenset((".", ","))
_MARK = "[mark]"
_WITHOUT_CONTENT = PUNCTUATION | {_MARK, ""}
_PADDING = ("", 0, 0, -1)
_KINDS = {"word": "", "ordinal": "", "number": "#", "date": "@", "unit": "~"}
_SENTENCE_END, _CAMEL = re.compile(r"[.;!?]"), re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUALIFIER = re.compile(r"\s*\([^)]*\)")

TripleText = tuple[str, str, str]  # subject, predicate and object of a triple


class Role(IntEnum):
    """The part of a sequence to which a word belongs."""

    TRIPLE = 0  # the mark of a triple
    SUBJECT = 1
    PREDICATE = 2
    OBJECT = 3
    TEXT = 4  # including the mark before the text


def text_words(text: str) -> tuple[list[str], list[Span]]:
    """The words of a text, with ``,`` and ``.`` for its punctuation, and their character spans."""
    tokens: list[tuple[str, Span]] = []
    end = 0
    for word in words(text):
        between = text[end : word.start]
        if tokens and (mark := "." if _SENTENCE_END.search(between) else "," if "," in between else ""):
            tokens.append((mark, (end, word.start)))
        tokens.append((_KINDS[word.kind] + word.form, (word.start, word.end)))
        end = word.end
    if tokens:
        tokens.append((".", (end, end)))
    return [form for form, _ in tokens], [span for _, span in tokens]


@lru_cache(maxsize=1 << 16)
def value_words(value: str, qualifier: bool = True) -> tuple[str, ...]:
    """The words of a subject or object, with or without its `qualifier`, a remark in brackets (``Nord (album)``)."""
    plain = value.replace("_", " ").strip('" ')
    if not qualifier:
        plain = _QUALIFIER.sub("", plain).strip() or plain
    forms = tuple(form for form in text_words(plain)[0] if form not in PUNCTUATION)
    return forms or (plain or "?",)


@lru_cache(maxsize=1 << 14)
def predicate_words(predicate: str) -> tuple[str, ...]:
    """The words of a predicate: ``birth place`` for ``birthPlace``, ``city`` for ``location/city``."""
    return value_words(_CAMEL.sub(" ", predicate.rsplit("/", 1)[-1]))


@lru_cache(maxsize=1 << 17)
def _grams(word: str) -> tuple[int, ...]:
    """The buckets of a word, its prefix and its trigrams; for a number, date or unit, of itself and its length."""
    if word[0] in "#@~":
        pieces = [word, f"{word[0]}{len(word)}"]
    else:
        padded = f"<{word}>"
        pieces = [padded, word[:4] + "-", *(padded[start : start + 3] for start in range(len(padded) - 2))]
    return tuple(zlib.crc32(piece.encode()) % BUCKETS for piece in dict.fromkeys(pieces[:16]))


@dataclass(frozen=True, slots=True)
class Inputs:
    """A batch of B sequences, padded to L words."""

    words: Tensor  # (B, L) ids in the vocabulary; 0 for unknown words and padding
    grams: Tensor  # (N,) buckets of all words, concatenated
    offsets: Tensor  # (B * L,) index in `grams` of each word's first bucket
    roles: Tensor  # (B, L) values of `Role`
    positions: Tensor  # (B, L) the position within the value, predicate or text
    triples: Tensor  # (B, L) the index of the triple; -1 in the text and in padding
    padding: Tensor  # (B, L) True for padding
    content: Tensor  # (B, L) 1 for words, 0 for marks, punctuation and padding

    def marks(self, row: int) -> Tensor:
        """(L,) True at the marks of triples in a sequence."""
        return (self.roles[row] == Role.TRIPLE) & ~self.padding[row]

    def text(self, row: int) -> Tensor:
        """(n,) The positions of the n words of the text in a sequence."""
        return ((self.roles[row] == Role.TEXT) & ~self.padding[row]).nonzero()[1:, 0]


def collate(items: Sequence[tuple[Sequence[TripleText], Sequence[str]]], vocabulary: Mapping[str, int]) -> Inputs:
    """The batch of `items`, pairs of a record's triples and a text's words."""
    sequences = [_sequence(triples, text) for triples, text in items]
    length = max(map(len, sequences))
    rows = [[*sequence, *[_PADDING] * (length - len(sequence))] for sequence in sequences]
    forms = [[element[0] for element in row] for row in rows]
    roles, positions, triples = (
        torch.tensor([[element[part] for element in row] for row in rows]) for part in (1, 2, 3)
    )
    ids = torch.tensor([[vocabulary.get(form, 0) for form in row] for row in forms])
    padding = torch.tensor([[not form for form in row] for row in forms])
    content = torch.tensor([[float(form not in _WITHOUT_CONTENT) for form in row] for row in forms])
    grams: list[int] = []
    offsets: list[int] = []
    for form in chain.from_iterable(forms):
        offsets.append(len(grams))
        grams.extend(_grams(form) if form else ())
    return Inputs(ids, torch.tensor(grams), torch.tensor(offsets), roles, positions, triples, padding, content)


def approximate_length(triples: Sequence[TripleText], text: Sequence[str]) -> int:
    """An estimate of a sequence's length, by which batches are formed: 12 words and marks per triple."""
    return len(text) + 12 * len(triples)


def _sequence(triples: Sequence[TripleText], text: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """(word, role, position, triple index) of each element of a sequence."""
    sequence: list[tuple[str, int, int, int]] = []
    for index, (subject, predicate, value) in enumerate(triples):
        for role, forms in (
            (Role.TRIPLE, (_MARK,)),
            (Role.SUBJECT, value_words(subject)[:LONGEST_VALUE]),
            (Role.PREDICATE, predicate_words(predicate)[:LONGEST_PREDICATE]),
            (Role.OBJECT, value_words(value)[:LONGEST_VALUE]),
        ):
            sequence += ((form, role, position, index) for position, form in enumerate(forms))
    sequence += ((form, Role.TEXT, position, -1) for position, form in enumerate((_MARK, *text[:LONGEST_TEXT])))
    return sequence
