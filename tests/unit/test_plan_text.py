"""The notation of plans: round trip, errors with the column; unique names of predicates."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import PlanError
from agggen.records import Plan, unique_predicates


@given(st.lists(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=3), min_size=1, max_size=4))
def test_the_round_trip_of_a_plan_is_lossless(names: list[list[str]]) -> None:
    number = count()
    plan = Plan(tuple(tuple(f"{name}{next(number)}" for name in group) for group in names))
    assert Plan.parse(str(plan)) == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the plan is empty"),
        ("[a] []", "column 5 .*this group is empty"),
        ("[a", "column 1 .*never closed"),
        ("[a [b]]", "column 4 .*cannot be nested"),
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


@pytest.mark.parametrize(
    ("predicates", "names"),
    [
        ("a b a a", "a b a_2 a_3"),
        ("a a a_2 a", "a a_3 a_2 a_4"),
        ("a_2 a_2 a a", "a_2 a_2_2 a a_3"),
    ],
)
def test_repeated_predicates_get_numbers(predicates: str, names: str) -> None:
    assert unique_predicates(predicates.split()) == tuple(names.split())


def test_a_row_with_thousands_of_equal_predicates_is_named_in_linear_time() -> None:
    """Regression: cubic time; rejecting a row with a list of 20,000 values took hours."""
    assert unique_predicates(["p"] * 20_000)[-1] == "p_20000"
