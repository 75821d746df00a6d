"""Lexical constraints on the words of a fact, for the beam search.

Hokamp and Liu (2017) and Post and Vilar (2018) constrain the search to phrases of the target; here the phrases are
values of the record, which are mostly copied. First, words that no triple of the fact licenses are barred. Second, a
value that has begun must be completed: ``Jacob`` follows ``Jöns``, then ``Berzelius``; an automaton over the spellings
of the values determines the allowed words. Third, a fact can only end if a judge finds no fault in its words; it is
called when the automaton has accepted each value whose spellings are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agggen.model.batch import FACT, LAST, PAD

Spelling = tuple[int, ...]
"""A spelling of a value as word ids."""
Fallback = Callable[[], Spelling]
"""Builds the words of a fact for which no hypothesis passes."""
Judge = Callable[[Sequence[int], Sequence[int]], bool]
"""Whether a fact with these words may end; the second argument is the text before it, with the marks of facts."""


@dataclass
class Constraint:
    """The constraint of one fact, the last one of a plan prefix."""

    barred: frozenset[int]
    """Ids of forbidden words."""
    values: tuple[tuple[Spelling, ...], ...]
    """For each required value, its spellings; at least one of them must occur."""
    elastic: frozenset[int]
    """Indices of values that can also be expressed in wordings which only the judge recognises."""
    binding: frozenset[int]
    """Ids of words that occur in values only: a spelling that contains one must be completed."""
    judge: Judge
    fallback: Fallback
    """Used if no hypothesis passes the judge."""
    full_stop: int | None = None
    """Inserted before the fallback if the text does not end with one of `stops`."""
    stops: frozenset[int] = frozenset()
    _states: list[tuple[frozenset[tuple[int, int, int]], frozenset[int]]] = field(init=False)
    _steps: dict[tuple[int, int], int] = field(init=False, default_factory=dict)
    _next: list[frozenset[int]] = field(init=False)
    _numbers: dict[tuple[frozenset[tuple[int, int, int]], frozenset[int]], int] = field(init=False)

    def __post_init__(self) -> None:
        start = (frozenset[tuple[int, int, int]](), frozenset[int]())
        self._states, self._next, self._numbers = [start], [frozenset()], {start: 0}

    def step(self, state: int, word: int) -> int:
        """The automaton's next state; 0 is the initial state."""
        key = (state, word)
        if key not in self._steps:
            self._steps[key] = self._number(*self._advance(*self._states[state], word))
        return self._steps[key]

    def following(self, state: int) -> frozenset[int]:
        """The words allowed next; empty if every word is allowed."""
        return self._next[state]

    def said(self, state: int) -> bool:
        """Whether all values that are not elastic have occurred in one of their spellings."""
        return len(self._states[state][1] | self.elastic) == len(self.values)

    def instead(self, before: Sequence[int]) -> list[int]:
        """The fallback after a text of marks and words that ends with the fact's mark."""
        fact_words = [word for word in before if word not in (PAD, FACT, LAST)]
        unfinished = bool(fact_words) and fact_words[-1] not in self.stops and self.full_stop is not None
        return [*([self.full_stop] if unfinished and self.full_stop is not None else []), *self.fallback()]

    def _advance(
        self, active: frozenset[tuple[int, int, int]], mentioned: frozenset[int], word: int
    ) -> tuple[frozenset[tuple[int, int, int]], frozenset[int]]:
        """The begun spellings, as (value, spelling, words so far), and the mentioned values."""
        begun, finished = set(), set()
        starts = (
            (value, spelling, 0)
            for value, value_spellings in enumerate(self.values)
            for spelling in range(len(value_spellings))
        )
        for value, spelling, done in (*active, *starts):
            words = self.values[value][spelling]
            if done < len(words) and words[done] == word:
                begun.add((value, spelling, done + 1))
                if done + 1 == len(words):
                    finished.add(value)
        return frozenset(begun), mentioned | finished

    def _number(self, active: frozenset[tuple[int, int, int]], mentioned: frozenset[int]) -> int:
        state = active, mentioned
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
            self._next.append(self._bound(active, mentioned))
        return self._numbers[state]

    def _bound(self, active: frozenset[tuple[int, int, int]], mentioned: frozenset[int]) -> frozenset[int]:
        following: set[int] = set()
        for value, spelling, done in active:
            words = self.values[value][spelling]
            if done == len(words):
                return frozenset()  # a value is complete here
            if value not in mentioned and any(word in self.binding for word in words[:done]):
                following.add(words[done])
        return frozenset(following)
