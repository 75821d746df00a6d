"""Rejects of a bulk generation job, and input without a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen.errors import CorpusError
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import Model
from agggen_platform.sharded.config import JobError
from tests.bulk_jobs import here, numbered_records, published, rejects, write_jsonl


def test_too_many_rejects_publish_nothing_but_the_reasons(model: Model, tmp_path: Path) -> None:
    first, *more = numbered_records(9)
    path = write_jsonl(tmp_path / "in.jsonl", [first, first, *more])
    out = tmp_path / "out"
    with pytest.raises(JobError, match=r"1 of 10 records were rejected \(10.0%, at most 1.0% allowed"):
        generate(model, str(path), str(out), here(model))
    assert [reject["line"] for reject in rejects(out)] == [2]
    assert not published(out)
    report = generate(model, str(path), str(out), here(model, "max_reject_share=0.1"))
    assert report.progress is not None
    assert report.progress.reused == report.progress.total == 2  # no shard is repeated


@pytest.mark.parametrize("name", ["in.jsonl", "in.csv"])
def test_input_without_a_record_does_not_occupy_the_folder(name: str, model: Model, tmp_path: Path) -> None:
    path, out = tmp_path / name, tmp_path / "out"
    path.write_text("id,subject,predicate,object\n" if path.suffix == ".csv" else "\n")
    with pytest.raises(CorpusError, match="contains no record"):
        generate(model, str(path), str(out), here(model))
    path = write_jsonl(tmp_path / "other.jsonl", numbered_records(2))
    assert generate(model, str(path), str(out), here(model)).summary.records == 2
