"""The order in which facts are decoded: each prefix that plans share is decoded once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from agggen.generation.hypotheses import PlanPrefix


class Agenda:
    """The unfinished facts of several plans.

    A fact is ready when the fact before it has been decoded and one of its plans has not been pruned.
    """

    def __init__(self, plans: Sequence[PlanPrefix]) -> None:
        self._plans = plans
        self._unfinished = set(range(len(plans)))
        self._through: dict[PlanPrefix, list[int]] = {}
        for number, plan in enumerate(plans):
            for node in (*plan.proper_prefixes(), plan):
                self._through.setdefault(node, []).append(number)
        self._ready: list[tuple[int, int, PlanPrefix]] = []  # heap: by plan, then first in first out
        self._count = 0
        for node in {plan.first(1): None for plan in plans}:
            self._push(node)

    def of(self, node: PlanPrefix) -> list[int]:
        """Indices of the unfinished plans that have `node` as a prefix."""
        return [number for number in self._through[node] if number in self._unfinished]

    def finish(self, plan: int) -> None:
        """Marks the plan of this index as finished or pruned."""
        self._unfinished.discard(plan)

    def written(self, node: PlanPrefix) -> list[PlanPrefix]:
        """Marks the facts of `node` as decoded; returns the prefixes that are ready now."""
        children = dict.fromkeys(self._plans[number].first(len(node.groups) + 1) for number in self.of(node))
        for child in children:
            self._push(child)
        return list(children)

    def next(self) -> PlanPrefix | None:
        """The next prefix whose last fact is ready, by priority of its plans; None if there is none now."""
        while self._ready:
            node = heapq.heappop(self._ready)[2]
            if self.of(node):
                return node
        return None

    def _push(self, node: PlanPrefix) -> None:
        heapq.heappush(self._ready, (self._through[node][0], self._count, node))
        self._count += 1
