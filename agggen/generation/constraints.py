"""Lexical constraints on the words of a fact, for the beam search.

Hokamp and Liu (2017) and Post and Vilar (2018) require given phrases in the output; here these phrases are the values
of the record. First, words that the triples of the fact do not allow are forbidden. Second, a partially generated value
must be completed: ``Jöns`` by ``Jacob``, then ``Berzelius``; an automaton over the spellings of the values determines
the allowed words. Third, a fact can only end if the function ``Constraint.judge`` accepts its words; it is called once
every value that is not ``elastic`` has occurred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from agggen.model.batch import FACT, LAST, PAD

Spelling = tuple[int, ...]
"""A spelling of a value as word ids."""
Fallback = Callable[[], Spelling]
"""Builds the words of a fact if no hypothesis passes the judge."""
State = tuple[frozenset[tuple[int, int, int]], frozenset[int]]
"""The partial spellings, as (value, spelling, number of words so far), and the indices of values that have occurred."""
START: State = (frozenset(), frozenset())
Judge = Callable[[Sequence[int], Sequence[int]], bool]
"""Whether a fact with these words may end; the second argument is the preceding text, with the marks of facts."""


@dataclass
class Constraint:
    """The constraint on the last fact of a plan prefix."""

    barred: frozenset[int]  # ids of forbidden words
    values: tuple[tuple[Spelling, ...], ...]  # by required value, its spellings; at least one of them must occur
    elastic: frozenset[int]  # indices of values with further wordings, which only the judge recognises
    value_only: frozenset[int]  # words that occur only in values: a partial spelling with one must be completed
    judge: Judge
    fallback: Fallback
    full_stop: int | None = None  # inserted before the fallback if the text does not end with one of `sentence_ends`
    may_stop: Callable[[Sequence[int]], bool] = lambda words: True  # whether a full stop completes these words
    sentence_ends: frozenset[int] = frozenset()  # ids of words that end a sentence

    def __post_init__(self) -> None:
        self.step, self.following = cache(self._step), cache(self._following)

    def has_all_values(self, state: State) -> bool:
        """Whether all values that are not elastic have occurred in one of their spellings."""
        return len(state[1] | self.elastic) == len(self.values)

    def fallback_after(self, texts: Iterable[Sequence[int]]) -> tuple[int | None, list[int]]:
        """The index of the text to which the fallback is appended, and the words to append, with a full stop if needed.

        The text is the first one whose last sentence is complete or accepted by `may_stop`; None if no text qualifies.

        Args:
            texts: ids of marks and words; each text ends with the fact's mark.
        """
        full_stop = [] if self.full_stop is None else [self.full_stop]
        for number, text in enumerate(texts):
            words = [word for word in text if word not in (PAD, FACT, LAST)]
            if not words or words[-1] in self.sentence_ends:
                return number, list(self.fallback())
            if not full_stop or self.may_stop(words):
                return number, [*full_stop, *self.fallback()]
        return None, [*full_stop, *self.fallback()]

    def _step(self, state: State, word: int) -> State:
        """The automaton's next state; the initial state is `START`."""
        partial, mentioned = state
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
        return frozenset(continued), mentioned | completed

    def _following(self, state: State) -> frozenset[int]:
        """The allowed next words; empty if any word is allowed."""
        partial, mentioned = state
        following: set[int] = set()
        for value, spelling, length in partial:
            words = self.values[value][spelling]
            if length == len(words):
                return frozenset()  # one spelling is complete, so any word may follow
            if value not in mentioned and any(word in self.value_only for word in words[:length]):
                following.add(words[length])
        return frozenset(following)
