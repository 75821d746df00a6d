"""Input and output of a bulk generation job."""

from pathlib import Path

import pytest

from agggen_platform.bulk.model import Model
from tests.bulk_jobs import RECORDS, Bulk, numbered_records, published, write_jsonl


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("source") / "in.jsonl", numbered_records(RECORDS))


@pytest.fixture(scope="session")
def fault_free(model: Model, source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The output of an uninterrupted job of one process."""
    out = tmp_path_factory.mktemp("fault_free")
    Bulk(model, source, out)()
    return published(out)


@pytest.fixture
def bulk(model: Model, source: Path, tmp_path: Path) -> Bulk:
    return Bulk(model, source, tmp_path / "out")
