"""What all tests share: the real corpora, where the machine has them, and patience on a busy machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A shared machine stalls now and then; a stall is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder of real corpora; a test that asks for it is skipped where there is none."""
    folder = os.environ.get("AGGGEN_DATA_HOME")
    if not folder:
        pytest.skip("AGGGEN_DATA_HOME is not set: no real corpora here")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"AGGGEN_DATA_HOME={folder} is no folder")
    return path
