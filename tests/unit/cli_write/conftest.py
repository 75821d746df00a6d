"""A bundle and a file of records for the commands."""

from pathlib import Path

import pytest

from agggen.records import Record
from tests.tiny_models import save_tiny_bundle
from tests.unit.cli_write.examples import RESTAURANTS, json_lines


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "bundle"
    records = [Record.of(record) for record in RESTAURANTS]
    return save_tiny_bundle(path, records, metrics={"joint.dev_loss": 1.5}, sources={"toy/train": "ab12"})


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return json_lines(tmp_path / "records.jsonl", RESTAURANTS)
