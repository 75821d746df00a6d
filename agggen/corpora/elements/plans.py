"""Which order and grouping a writer chooses: plans with the soft regularities that people show.

What the element is comes first, its place in the periodic table and its look follow, then its discovery, and last its
name. Facts of one topic are told together; who discovered an element, when and where nearly always share a clause; a
color likes to stand before the category ("a silvery-white metal"). All of this holds most of the time, never always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agggen.corpora.elements.dice import Dice
from agggen.corpora.elements.phrases import DISCOVERY, POSITION, forms
from agggen.records import Plan, State

IDENTITY = ("category", "symbol", "atomicNumber", "standardAtomicWeight")
LOOK = ("color", "stateAtRoomTemperature", "meltingPoint")
MAX_STATE = 3
"""The greatest number of predicates in one state."""


def sample_plan(values: Mapping[str, str], dice: Dice) -> Plan:
    """A plan for all predicates of `values`, each of its states expressible in one clause.

    Args:
        values: predicate -> object; the predicates are those of the corpus.
    """
    have = set(values)
    identity = _ordered(IDENTITY, have, dice, noise=0.65)
    position = _ordered(POSITION, have, dice, noise=0.8)
    look = _ordered(LOOK, have, dice, noise=0.75)
    discovery = _ordered(DISCOVERY, have, dice, noise=1.2)

    head: list[State] = []
    if "category" in identity and "color" in look and dice.chance(0.35):
        identity.remove("category")
        look.remove("color")
        taken = identity[: dice.pick((0, 1))]
        head, identity = [("color", "category", *taken)], identity[len(taken) :]
    elif "category" in identity and 0 < len(position) < MAX_STATE and dice.chance(0.35):
        identity.remove("category")
        head, position = [("category", *position)], []

    topics: list[tuple[float, list[State]]] = [
        (dice.uniform(-0.8, 0.2), head + _split(identity, values, dice, together=0.75)),
        (dice.uniform(0.2, 2.2), _split(position, values, dice, together=0.85)),
        (dice.uniform(1.2, 3.2), _split(look, values, dice, together=0.7)),
        (dice.uniform(2.2, 4.2), _split(discovery, values, dice, together=0.93)),
        (dice.uniform(3.2, 5.2), [("namedAfter",)] if "namedAfter" in have else []),
    ]
    if dice.chance(0.15):  # some writers open with the history of the element
        rank, states = topics[-2] if topics[-2][1] else topics[-1]
        topics.remove((rank, states))
        topics.append((-1.0, states))
    topics.sort(key=lambda topic: topic[0])
    return Plan(tuple(state for _, states in topics for state in states))


def _ordered(topic: Sequence[str], have: set[str], dice: Dice, noise: float) -> list[str]:
    """The predicates of `topic` at hand, in its usual order; a greater `noise` swaps neighbours more often."""
    ranks = {predicate: rank + dice.uniform(-noise, noise) for rank, predicate in enumerate(topic) if predicate in have}
    return sorted(ranks, key=lambda predicate: ranks[predicate])


def _split(predicates: list[str], values: Mapping[str, str], dice: Dice, together: float) -> list[State]:
    """Cuts `predicates` into states; two neighbours share one with probability `together`, if a clause can say it."""
    states: list[State] = []
    for predicate in predicates:
        joined = (*states[-1], predicate) if states else ()
        if 1 < len(joined) <= MAX_STATE and dice.chance(together) and forms(joined, values, dice):
            states[-1] = joined
        else:
            states.append((predicate,))
    return states
