"""The order in which the facts of several plans are decoded; a prefix that plans share is decoded once."""

from collections.abc import Sequence

from agggen.generation.hypotheses import PlanPrefix


class Agenda:
    """The undecoded facts of several plans, as plan prefixes; they are ready when their parents have been decoded."""

    def __init__(self, plans: Sequence[PlanPrefix]) -> None:
        self._plans = plans
        self._unfinished = set(range(len(plans)))
        self._plans_with: dict[PlanPrefix, list[int]] = {}
        for index, plan in enumerate(plans):
            for prefix in plan.prefixes():
                self._plans_with.setdefault(prefix, []).append(index)
        self._ready = {plan.first(1) for plan in plans}

    def unfinished(self, prefix: PlanPrefix) -> list[int]:
        """Indices of the unfinished plans that have `prefix` as a prefix."""
        return [index for index in self._plans_with[prefix] if index in self._unfinished]

    def finish(self, plan: int) -> None:
        """Marks the plan of this index as finished or pruned."""
        self._unfinished.discard(plan)

    def mark_decoded(self, prefix: PlanPrefix) -> list[PlanPrefix]:
        """Marks `prefix` as decoded; returns the prefixes that have become ready."""
        plans = (self._plans[index] for index in self.unfinished(prefix))
        children = list(dict.fromkeys(plan.first(len(prefix.groups) + 1) for plan in plans))
        self._ready.update(children)
        return children

    def next(self) -> PlanPrefix | None:
        """The ready prefix of the plan with the lowest index; None if no prefix is ready."""
        while self._ready:
            prefix = min(self._ready, key=lambda ready: self._plans_with[ready][0])
            self._ready.remove(prefix)
            if self.unfinished(prefix):
                return prefix
        return None
