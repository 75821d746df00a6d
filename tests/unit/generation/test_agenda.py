"""In which order facts come: the first plans first, each beginning once, nothing of plans that are done."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from agggen.generation.agenda import Agenda
from agggen.generation.hypotheses import PlanPrefix


def plan(*groups: str, record: int = 0) -> PlanPrefix:
    return PlanPrefix.of(record, [[int(digit) for digit in group] for group in groups])


def test_the_facts_of_the_first_plans_come_first() -> None:
    first, second, other = plan("0", "12"), plan("01", "2"), plan("0", "12", record=1)
    agenda = Agenda([first, second, other])
    assert [agenda.next(), agenda.next()] == [first.first(1), second.first(1)]
    agenda.written(second.first(1))
    agenda.written(first.first(1))
    assert [agenda.next() for _ in range(4)] == [first, second, other.first(1), None]


def test_what_plans_share_is_given_once_and_serves_all() -> None:
    plans = [plan("0", "1", "2"), plan("0", "1", "2"), plan("0", "2", "1"), plan("0", "12")]
    agenda = Agenda(plans)
    start = plans[0].first(1)
    assert (agenda.next(), agenda.next()) == (start, None)
    assert agenda.of(start) == [0, 1, 2, 3]
    assert agenda.written(start) == [plans[0].first(2), plans[2].first(2), plans[3]]


def test_a_whole_plan_is_not_the_beginning_of_a_longer_one() -> None:
    """Its last fact begins with another mark."""
    agenda = Agenda([plan("0"), plan("0", "1")])
    assert [agenda.next(), agenda.next(), agenda.next()] == [plan("0"), plan("0", "1").first(1), None]


def test_nothing_comes_of_plans_that_are_finished() -> None:
    plans = [plan("0", "1"), plan("0", "2"), plan("3")]
    agenda = Agenda(plans)
    agenda.finish(2)
    assert (agenda.next(), agenda.next()) == (plans[0].first(1), None)
    agenda.finish(0)
    assert agenda.written(plans[0].first(1)) == [plans[1]]
    agenda.finish(1)
    assert agenda.next() is None
    assert agenda.of(plans[1]) == []


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), max_size=8), st.data())
def test_every_plan_is_written_however_facts_are_settled(orders: list[list[int]], data: st.DataObject) -> None:
    plans = [PlanPrefix.of(0, [[i] for i in order]) for order in orders]
    agenda, begun, open_, whole = Agenda(plans), list[PlanPrefix](), deque[PlanPrefix](), set[PlanPrefix]()
    while (node := agenda.next()) or open_:
        if node:
            begun.append(node)
            open_.append(node)
        if open_ and (not node or data.draw(st.booleans())):
            open_.rotate(data.draw(st.integers(0, 3)))
            done = open_.popleft()
            whole |= {done} if done.last else set()
            if not done.last:
                agenda.written(done)
            for number in agenda.of(done) if done.last else ():
                agenda.finish(number)
    assert whole == set(plans)
    assert len(begun) == len(set(begun))
