"""What tests of the search share."""

import math

import pytest


@pytest.fixture
def improbable_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constrained facts may end at any probability, as those of untrained models are improbable."""
    monkeypatch.setattr("agggen.generation.words.LOWEST_WORD_LOG_P", -math.inf)
