"""Rejects of bulk generation, and input without records."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen.errors import CorpusError
from agggen_platform.sharded.config import JobError
from tests.bulk_jobs import Bulk, numbered_records, published, rejects, write_jsonl


def test_too_many_rejects_publish_only_the_rejects(bulk: Bulk, tmp_path: Path) -> None:
    first, *later_records = numbered_records(9)
    path = write_jsonl(tmp_path / "in.jsonl", [first, first, *later_records])
    with pytest.raises(JobError, match=r"1 of 10 records were rejected \(10.0%, max_reject_share is 1.0%"):
        bulk(source=path)
    assert [reject["line"] for reject in rejects(bulk.out)] == [2]
    assert not published(bulk.out)
    progress = bulk("max_reject_share=0.1", source=path).progress
    assert progress is not None and progress.reused == progress.total == 2  # no shard is repeated


@pytest.mark.parametrize(("name", "content"), [("in.jsonl", "\n"), ("in.csv", "id,subject,predicate,object\n")])
def test_input_without_records_leaves_the_folder_free(name: str, content: str, bulk: Bulk, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(CorpusError, match="contains no record"):
        bulk(source=tmp_path / name)
    path = write_jsonl(tmp_path / "other.jsonl", numbered_records(2))
    assert bulk(source=path).summary.records == 2
