"""Waits between attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen_platform.client import Retry
from agggen_platform.client.retry import retry_after


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("3", 3.0), (" 120 ", 120.0), ("soon", None), ("-1", None), ("1.5", None), ("9" * 400, 999999999.0)],
)
def test_retry_after_is_a_number_of_seconds(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


@given(st.integers(1, 10_000), st.none() | st.floats(0, 1000), st.floats(0, 1))
def test_waits_grow_to_a_bound_and_are_never_shorter_than_asked(attempt: int, asked: float | None, draw: float) -> None:
    retry = Retry(first_wait=0.25, longest_wait=10)
    wait = retry.wait(attempt, asked, draw)
    assert wait >= (asked or 0)
    assert 0.125 <= wait <= max(10, (asked or 0) + 0.25)
    assert retry.wait(attempt + 1, asked, draw) >= wait


def test_waits_double_and_are_drawn_from_the_upper_half() -> None:
    retry = Retry(first_wait=1, longest_wait=5)
    assert [retry.wait(n, None, 1) for n in range(1, 5)] == [1, 2, 4, 5]
    assert [retry.wait(n, None, 0) for n in range(1, 5)] == [0.5, 1, 2, 2.5]


@pytest.mark.parametrize("settings", [{"attempts": 0}, {"first_wait": -1}, {"first_wait": 3, "longest_wait": 1}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        Retry(**settings)  # type: ignore[arg-type]
