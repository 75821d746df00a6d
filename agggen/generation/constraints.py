"""Lexical constraints on the words of a fact, for the beam search (cf. Hokamp and Liu 2017, Post and Vilar 2018).

Words that the triples of the fact do not license are forbidden. A partially generated value must be completed
(``Jöns`` by ``Jacob``, then ``Berzelius``). A fact can only end if every value that is not ``paraphrasable`` has
occurred and ``Constraint.judge`` accepts the words.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from agggen.model.batch import FACT, LAST, PAD

Spelling = tuple[int, ...]  # a spelling of a value as word ids


@dataclass
class Constraint:
    """The constraint on the last fact of a plan prefix."""

    forbidden: frozenset[int]  # ids of forbidden words
    values: tuple[tuple[Spelling, ...], ...]  # by required value, its spellings; at least one of them must occur
    paraphrasable: frozenset[int]  # indices of values with other wordings, which only the judge recognises
    value_only: frozenset[int]  # ids of words that occur only in values: a spelling begun with one must be completed
    judge: Callable[[Sequence[int], Sequence[int]], bool]  # whether a fact may end; (its words, the text before it)
    fallback: Callable[[], Spelling]  # returns the words of a fact for which no hypothesis passes the judge
    full_stop: int | None = None  # inserted before the fallback if the text does not end with one of `sentence_ends`
    can_end_sentence: Callable[[Sequence[int]], bool] = lambda words: True  # whether a full stop may follow the words
    sentence_ends: frozenset[int] = frozenset()  # ids of words that end a sentence

    def has_all_values(self, words: Spelling) -> bool:
        """Whether each value that is not paraphrasable occurs in the words of a fact."""
        return all(
            number in self.paraphrasable or _has_value(words, spellings) for number, spellings in enumerate(self.values)
        )

    def allowed_next(self, words: Spelling) -> set[int]:
        """The words that may follow if the last words are an incomplete value; empty if any word may follow."""
        allowed: set[int] = set()
        if not words or words[-1] not in self._value_words:
            return allowed
        for spellings in self.values:
            for spelling in spellings:
                for length in range(1, min(len(spelling), len(words)) + 1):
                    if words[-length:] != spelling[:length]:
                        continue
                    if length == len(spelling):
                        return set()  # one spelling is complete, so any word may follow
                    if not self.value_only.isdisjoint(spelling[:length]) and not _has_value(words, spellings):
                        allowed.add(spelling[length])
        return allowed

    @cached_property
    def _value_words(self) -> frozenset[int]:
        return frozenset(word for spellings in self.values for spelling in spellings for word in spelling)

    def fallback_after(self, texts: Iterable[Sequence[int]]) -> tuple[int | None, list[int]]:
        """The index of the text (ids of marks and words) to which the fallback is appended, and the appended words: the
        first text, if any, whose last sentence has ended or can end with a full stop, which precedes the fallback.
        """
        full_stop = [] if self.full_stop is None else [self.full_stop]
        for index, text in enumerate(texts):
            words = [word for word in text if word not in (PAD, FACT, LAST)]
            if not words or words[-1] in self.sentence_ends:
                return index, list(self.fallback())
            if not full_stop or self.can_end_sentence(words):
                return index, [*full_stop, *self.fallback()]
        return None, [*full_stop, *self.fallback()]


def _has_value(words: Spelling, spellings: Sequence[Spelling]) -> bool:
    """Whether one of the spellings occurs in the words."""
    return any(
        words[begin : begin + len(spelling)] == spelling for spelling in spellings for begin in range(len(words))
    )
