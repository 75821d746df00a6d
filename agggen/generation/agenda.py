"""In which order facts are written, so that each beginning that plans share is written once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from agggen.generation.hypotheses import Beginning


class Agenda:
    """What is left to write of some plans.

    A fact can be begun when the one before it is written and the plan was not given up since.
    """

    def __init__(self, plans: Sequence[Beginning]) -> None:
        self._plans = plans
        self._unfinished = set(range(len(plans)))
        self._through: dict[Beginning, list[int]] = {}
        for number, plan in enumerate(plans):
            for node in (*plan.starts(), plan):
                self._through.setdefault(node, []).append(number)
        self._ready: list[tuple[int, int, Beginning]] = []  # a heap: the first plans first, then what came first
        self._count = 0
        for node in {plan.until(1): None for plan in plans}:
            self._push(node)

    def of(self, node: Beginning) -> list[int]:
        """The unfinished plans, by number, that begin so."""
        return [number for number in self._through[node] if number in self._unfinished]

    def finish(self, plan: int) -> None:
        """Nothing more is to be written of the plan of this number."""
        self._unfinished.discard(plan)

    def written(self, node: Beginning) -> list[Beginning]:
        """What can be begun now that the facts of `node` are written."""
        children = dict.fromkeys(self._plans[number].until(len(node.groups) + 1) for number in self.of(node))
        for child in children:
            self._push(child)
        return list(children)

    def next(self) -> Beginning | None:
        """The next fact to begin, that of the first plans first; each is given once."""
        while self._ready:
            node = heapq.heappop(self._ready)[2]
            if self.of(node):
                return node
        return None

    def _push(self, node: Beginning) -> None:
        heapq.heappush(self._ready, (self._through[node][0], self._count, node))
        self._count += 1
