"""Fixtures for tests of the search."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from agggen.generation.search import BeamSearch, Task


@pytest.fixture
def improbable_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the lower bound of the probability of constrained facts, which untrained models do not reach."""
    monkeypatch.setattr("agggen.generation.decoding.LOWEST_WORD_LOG_P", -math.inf)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[BeamSearch, Sequence[Task], int]]:
    """Records (search, tasks, max_facts) of each call of `BeamSearch.write`."""
    calls: list[tuple[BeamSearch, Sequence[Task], int]] = []
    write = BeamSearch.write

    def recorded(search: BeamSearch, tasks: Sequence[Task], max_facts: int, *arguments: Any) -> Any:
        calls.append((search, tasks, max_facts))
        return write(search, tasks, max_facts, *arguments)

    monkeypatch.setattr(BeamSearch, "write", recorded)
    return calls
