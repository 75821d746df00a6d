"""What the words of a fact must hold and may not hold, as the beam search asks for it.

The search is constrained in three ways (Hokamp and Liu 2017 and Post and Vilar 2018 constrain it to phrases of the
target; here the phrases are values of the record, most of them copied). Words that no triple of the fact gives are
barred. A value that was begun is finished: behind ``Jöns`` comes ``Jacob``, then ``Berzelius``; an automaton over the
spellings of the values knows what may follow. And a fact ends only when a judge finds no fault in its words; the judge
is asked when the automaton has seen every value, or may not know the value's wording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agggen.model.batch import FACT, LAST, PAD

Spelling = tuple[int, ...]
"""A wording of a value as word ids."""
Judge = Callable[[Sequence[int], Sequence[int]], bool]
"""Whether a fact may end with the first argument's words; the second is the text before it, with the marks of facts."""


@dataclass
class Constraint:
    """The constraint of one fact, the last one of a plan prefix."""

    barred: frozenset[int]
    """Ids that are never written."""
    values: tuple[tuple[Spelling, ...], ...]
    """The spellings of each value that must be said; any of them says it."""
    elastic: frozenset[int]
    """Values, by number, that may be said in words beyond their spellings: the judge alone decides about these."""
    binding: frozenset[int]
    """Ids of words that occur in values only: a spelling that began with one goes on to its end."""
    judge: Judge
    fallback: Spelling
    """Written when no hypothesis passes the judge."""
    full_stop: int | None = None
    """Put before the fallback where the text so far ends with none of `stops`."""
    stops: frozenset[int] = frozenset()
    _states: list[tuple[frozenset[tuple[int, int, int]], frozenset[int]]] = field(init=False)
    _steps: dict[tuple[int, int], int] = field(init=False, default_factory=dict)
    _next: list[frozenset[int]] = field(init=False)
    _numbers: dict[tuple[frozenset[tuple[int, int, int]], frozenset[int]], int] = field(init=False)

    def __post_init__(self) -> None:
        start = (frozenset[tuple[int, int, int]](), frozenset[int]())
        self._states, self._next, self._numbers = [start], [frozenset()], {start: 0}

    def step(self, state: int, word: int) -> int:
        """The automaton's state behind one more word; 0 is the first state."""
        key = (state, word)
        if key not in self._steps:
            self._steps[key] = self._number(*self._advance(*self._states[state], word))
        return self._steps[key]

    def following(self, state: int) -> frozenset[int]:
        """The words of which one must follow; empty where any may."""
        return self._next[state]

    def said(self, state: int) -> bool:
        """Whether every value was said that must be said in one of its spellings."""
        return len(self._states[state][1] | self.elastic) == len(self.values)

    def instead(self, before: Sequence[int]) -> list[int]:
        """The fallback behind a text of these marks and words; the fact's own mark is the last."""
        said = [word for word in before if word not in (PAD, FACT, LAST)]
        unfinished = bool(said) and said[-1] not in self.stops and self.full_stop is not None
        return [*([self.full_stop] if unfinished and self.full_stop is not None else []), *self.fallback]

    def _advance(
        self, active: frozenset[tuple[int, int, int]], said: frozenset[int], word: int
    ) -> tuple[frozenset[tuple[int, int, int]], frozenset[int]]:
        """Spellings that were begun, as (value, spelling, words so far), and the values that were said."""
        begun, finished = set(), set()
        starts = ((value, spelling, 0) for value, all_ in enumerate(self.values) for spelling in range(len(all_)))
        for value, spelling, done in (*active, *starts):
            words = self.values[value][spelling]
            if done < len(words) and words[done] == word:
                begun.add((value, spelling, done + 1))
                if done + 1 == len(words):
                    finished.add(value)
        return frozenset(begun), said | finished

    def _number(self, active: frozenset[tuple[int, int, int]], said: frozenset[int]) -> int:
        found = active, said
        if found not in self._numbers:
            self._numbers[found] = len(self._states)
            self._states.append(found)
            self._next.append(self._bound(active, said))
        return self._numbers[found]

    def _bound(self, active: frozenset[tuple[int, int, int]], said: frozenset[int]) -> frozenset[int]:
        following: set[int] = set()
        for value, spelling, done in active:
            words = self.values[value][spelling]
            if done == len(words):
                return frozenset()  # something is whole here
            if value not in said and any(word in self.binding for word in words[:done]):
                following.add(words[done])
        return frozenset(following)
