"""Successive halving: where trials are judged, and which of them go on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen_platform.sweep.config import AshaConfig
from agggen_platform.sweep.halving import falls_behind, is_rung


def test_rungs_are_powers_of_the_factor_from_the_grace_on_and_before_the_end() -> None:
    asha = AshaConfig(grace=2, factor=3)
    assert [position for position in range(1, 60) if is_rung(position, asha, 54)] == [2, 6, 18]
    assert [position for position in range(1, 60) if is_rung(position, asha, 55)] == [2, 6, 18, 54]


@pytest.mark.parametrize(
    ("value", "others", "behind"),
    [
        (9.0, [], False),  # the first always goes on
        (2.0, [1.0], True),  # of two, the better one
        (0.5, [1.0], False),
        (1.0, [1.0], False),  # equals go on together
        (2.0, [1.0, 3.0, 4.0, 5.0], True),  # one of five
        (2.0, [1.0, 3.0, 4.0, 5.0, 6.0], False),  # two of six
    ],
)
def test_the_best_one_in_three_goes_on(value: float, others: list[float], behind: bool) -> None:
    assert falls_behind(value, others, 3) is behind


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30, unique=True), st.integers(2, 5))
def test_of_all_that_reach_a_rung_one_in_factor_is_not_behind(values: list[float], factor: int) -> None:
    on = [v for i, v in enumerate(values) if not falls_behind(v, values[:i] + values[i + 1 :], factor)]
    assert sorted(on) == sorted(values)[: max(1, len(values) // factor)]
