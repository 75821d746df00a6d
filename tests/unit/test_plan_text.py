"""The notation of plans: round trip, errors with the column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import PlanError
from agggen.records import Plan


@given(st.lists(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=3), min_size=1, max_size=4))
def test_the_round_trip_of_a_plan_is_lossless(names: list[list[str]]) -> None:
    flat = [f"{name}{number}" for number, name in enumerate(name for group in names for name in group)]
    sizes = iter(flat)
    plan = Plan(tuple(tuple(next(sizes) for _ in group) for group in names))
    assert Plan.parse(str(plan)) == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the plan is empty"),
        ("[a] []", "column 5 .*this group is empty"),
        ("[a", "column 1 .*never closed"),
        ("[a [b]]", "column 4 .*do not nest"),
        ("a [b]", r"column 1 .*expected '\[', found 'a'"),
        ("[a] ]", r"column 5 .*expected '\[', found '\]'"),
        ('[a "b]', "column 4 .*must be a JSON string"),
        ('["  "]', "column 2 .*the predicate is empty"),
        (r'["\q"]', "column 2 .*must be a JSON string"),
        ("[a b] [b]", "column 8 .*'b' occurs a second time; every predicate belongs to one group"),
    ],
)
def test_an_invalid_plan_is_refused_with_its_column(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Plan.parse(text)
