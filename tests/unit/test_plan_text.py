"""Human plans: their notation, resolution to indices; unique names of predicates."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import PlanError
from agggen.planning import named_plan, resolve_plan
from agggen.records import Plan, Record, Triple, unique_predicates


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


NAMES = ("eatType", "near", "customer rating", "food", "area")
RECORD = Record("r7", tuple(Triple("The Mill", name, "x") for name in NAMES))


def test_a_human_plan_is_resolved_and_named() -> None:
    plan, indices = '[food] [near "customer rating" eatType] [area]', ((3,), (1, 2, 0), (4,))
    assert resolve_plan(RECORD, Plan.parse(plan)) == indices
    assert str(named_plan(RECORD, indices)) == plan


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("[eatType] [naer food]", r"record 'r7': the record has no predicate 'naer'; did you mean near(\?| or)"),
        ("[EATTYPE]", r"no predicate 'EATTYPE'; did you mean eatType\?"),
        ("[population]", "no predicate 'population'; it has eatType, near, customer rating, food, area"),
    ],
)
def test_an_unknown_predicate_is_refused_with_similar_names(plan: str, message: str, partial: bool) -> None:
    with pytest.raises(PlanError, match=message):
        resolve_plan(RECORD, Plan.parse(plan), partial)


def test_omitted_predicates_are_an_error_unless_the_plan_is_partial() -> None:
    plan = Plan.parse("[eatType] [near food]")
    with pytest.raises(PlanError, match="record 'r7' omits customer rating, area; add"):
        resolve_plan(RECORD, plan)
    assert resolve_plan(RECORD, plan, partial=True) == ((0,), (1, 3))
