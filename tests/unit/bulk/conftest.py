"""What unit tests of bulk generation share."""

from __future__ import annotations

import pytest

from agggen_platform.bulk.model import Model, open_model
from tests.unit.serve.conftest import save_tiny_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A tiny bundle with random weights, which no test may change."""
    return open_model(str(save_tiny_model(tmp_path_factory.mktemp("model") / "bundle")))
