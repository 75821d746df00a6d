"""The order in which the facts of several plans are decoded; a prefix that plans share is decoded once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from agggen.generation.hypotheses import PlanPrefix


class Agenda:
    """The undecoded facts of several plans; a fact is identified by the plan prefix that ends with it.

    A prefix is ready when its parent has been decoded and at least one of its plans is unfinished.
    """

    def __init__(self, plans: Sequence[PlanPrefix]) -> None:
        self._plans = plans
        self._unfinished = set(range(len(plans)))
        self._plans_with: dict[PlanPrefix, list[int]] = {}
        for index, plan in enumerate(plans):
            for prefix in plan.prefixes():
                self._plans_with.setdefault(prefix, []).append(index)
        self._ready: list[tuple[int, int, PlanPrefix]] = []  # heap by lowest plan index, then insertion order
        self._n_added = 0
        for prefix in {plan.first(1): None for plan in plans}:
            self._add(prefix)

    def unfinished(self, prefix: PlanPrefix) -> list[int]:
        """Indices of the unfinished plans that have `prefix` as a prefix."""
        return [index for index in self._plans_with[prefix] if index in self._unfinished]

    def finish(self, plan: int) -> None:
        """Marks the plan of this index as finished or pruned."""
        self._unfinished.discard(plan)

    def mark_decoded(self, prefix: PlanPrefix) -> list[PlanPrefix]:
        """Marks `prefix` as decoded; returns the prefixes that have become ready."""
        plans = (self._plans[index] for index in self.unfinished(prefix))
        children = dict.fromkeys(plan.first(len(prefix.groups) + 1) for plan in plans)
        for child in children:
            self._add(child)
        return list(children)

    def next(self) -> PlanPrefix | None:
        """The ready prefix of the plan with the lowest index; None if no prefix is ready."""
        while self._ready:
            prefix = heapq.heappop(self._ready)[2]
            if self.unfinished(prefix):
                return prefix
        return None

    def _add(self, prefix: PlanPrefix) -> None:
        heapq.heappush(self._ready, (self._plans_with[prefix][0], self._n_added, prefix))
        self._n_added += 1
