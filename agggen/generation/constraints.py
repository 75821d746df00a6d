"""Lexical constraints on the words of a fact, for the beam search.

As in Hokamp and Liu (2017) and Post and Vilar (2018), the output must contain certain phrases: the values of the
record. Words that the triples of the fact do not license are forbidden. A partially generated value must be completed
(``Jöns`` by ``Jacob``, then ``Berzelius``); an automaton over the spellings of the values determines the next words. A
fact can only end if every value that is not ``paraphrasable`` has occurred and ``Constraint.judge`` accepts the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from agggen.model.batch import FACT, LAST, PAD

Spelling = tuple[int, ...]
"""A spelling of a value as word ids."""
Fallback = Callable[[], Spelling]
"""Returns the words of a fact for which no hypothesis passes the judge."""
State = tuple[frozenset[tuple[int, int, int]], frozenset[int]]
"""Partial spellings (index of the value, index of the spelling, number of words), and indices of complete values."""
START: State = (frozenset(), frozenset())
Judge = Callable[[Sequence[int], Sequence[int]], bool]
"""Whether a fact with these word ids may end; the second argument is the preceding text, with the marks of facts."""


@dataclass
class Constraint:
    """The constraint on the last fact of a plan prefix."""

    forbidden: frozenset[int]  # ids of forbidden words
    values: tuple[tuple[Spelling, ...], ...]  # by required value, its spellings; at least one of them must occur
    paraphrasable: frozenset[int]  # indices of values with other wordings, which only the judge recognises
    value_only: frozenset[int]  # ids of words that occur only in values: a spelling begun with one must be completed
    judge: Judge
    fallback: Fallback
    full_stop: int | None = None  # inserted before the fallback if the text does not end with one of `sentence_ends`
    can_end_sentence: Callable[[Sequence[int]], bool] = lambda words: True  # whether a full stop may follow the words
    sentence_ends: frozenset[int] = frozenset()  # ids of words that end a sentence

    def __post_init__(self) -> None:
        self.step, self.allowed_next = cache(self._step), cache(self._allowed_next)

    def has_all_values(self, state: State) -> bool:
        """Whether each value that is not paraphrasable has occurred."""
        return len(state[1] | self.paraphrasable) == len(self.values)

    def fallback_after(self, texts: Iterable[Sequence[int]]) -> tuple[int | None, list[int]]:
        """The index of the text to which the fallback is appended, and the words to append.

        The text is the first whose last sentence has ended, or can end with a full stop, which is then prepended to the
        fallback; the index is None if there is no such text.

        Args:
            texts: ids of marks and words; each text ends with the fact's mark.
        """
        full_stop = [] if self.full_stop is None else [self.full_stop]
        for index, text in enumerate(texts):
            words = [word for word in text if word not in (PAD, FACT, LAST)]
            if not words or words[-1] in self.sentence_ends:
                return index, list(self.fallback())
            if not full_stop or self.can_end_sentence(words):
                return index, [*full_stop, *self.fallback()]
        return None, [*full_stop, *self.fallback()]

    def _step(self, state: State, word: int) -> State:
        """The state of the automaton after another word; the initial state is `START`."""
        partial, complete = state
        continued, completed = set(), set()
        starts = (
            (value, spelling, 0)
            for value, value_spellings in enumerate(self.values)
            for spelling in range(len(value_spellings))
        )
        for value, spelling, length in (*partial, *starts):
            words = self.values[value][spelling]
            if length < len(words) and words[length] == word:
                continued.add((value, spelling, length + 1))
                if length + 1 == len(words):
                    completed.add(value)
        return frozenset(continued), complete | completed

    def _allowed_next(self, state: State) -> frozenset[int]:
        """The ids of the allowed next words; empty if any word is allowed."""
        partial, complete = state
        allowed: set[int] = set()
        for value, spelling, length in partial:
            words = self.values[value][spelling]
            if length == len(words):
                return frozenset()  # one spelling is complete, so any word may follow
            if value not in complete and any(word in self.value_only for word in words[:length]):
                allowed.add(words[length])
        return frozenset(allowed)
