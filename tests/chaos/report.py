"""A pytest plugin that prints, at the end of a session, what tests observed of the faults that they injected.

@pytest.mark.fault("serving: a planner is killed")
def test_it(observed: Observed) -> None:
    ...
    observed("no request failed", seconds=1.3)
"""

from __future__ import annotations

import pytest


class Observed:
    """Records what a test observed of its fault; the last words count, and the longest recovery."""

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties

    def __call__(self, what: str, seconds: float | None = None) -> None:
        """
        Args:
            what: happened, in a few words.
            seconds: from the fault to the recovery, if it was measured.
        """
        self._properties.append(("observed", what))
        if seconds is not None:
            self._properties.append(("recovery", seconds))


@pytest.fixture
def observed(request: pytest.FixtureRequest) -> Observed:
    """What a test observed of the fault that it names by its mark."""
    return Observed(request.node.user_properties)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.user_properties += [("fault", name) for mark in item.iter_markers("fault") for name in mark.args]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = []
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            words = [str(value) for name, value in report.user_properties if name == "observed"]
            recovery = [float(str(value)) for name, value in report.user_properties if name == "recovery"]
            faults = [str(value) for name, value in report.user_properties if name == "fault"]
            if words:
                seconds = f" ({max(recovery):.1f} s)" if recovery else ""
                lines += [f"{outcome}  {fault}: {words[-1]}{seconds}" for fault in faults]
    if lines:
        terminalreporter.section("faults")
        terminalreporter.write("\n".join([*lines, ""]))
