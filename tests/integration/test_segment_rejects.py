"""The segmentation job: invalid input, rejects, and a damaged cache of facts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agggen.corpora.prepared import read_records, schema, write_records
from agggen.errors import CorpusError
from agggen.facts.clauses import ClauseSegmenter
from agggen_platform.segmentation.job import segment
from agggen_platform.sharded.config import JobError
from tests.integration.segment_jobs import (
    LOCAL,
    Recorder,
    clause_config,
    elements,
    segmented,
    use_segmenter,
    write_corpus,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.parquet", None, "does not exist"),
        ("typed.parquet", pa.table({"id": [1], "triples": [[]], "references": [[]]}), "'id' is int64, it should be"),
        ("folder", None, "contains no SPLIT.parquet"),
    ],
)
def test_input_that_is_not_a_corpus_is_refused(
    name: str, content: pa.Table | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        pq.write_table(content, tmp_path / name)
    with pytest.raises(CorpusError, match=message):
        segment(str(tmp_path / name), str(tmp_path / "out"), LOCAL)
    assert not (tmp_path / "out").exists()


# --- rejects ---------------------------------------------------------------------------------------------------------


def read_rejects(out: Path) -> list[dict[str, Any]]:
    lines = [line for file in sorted((out / "rejects").iterdir()) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_bad_rows_and_texts_are_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out, undamaged = tmp_path / "dev.parquet", tmp_path / "out", elements("dev")[:6]
    write_records(path, undamaged, "x", "dev")
    rows = pq.read_table(path).to_pylist()
    rows[1]["id"] = ""
    rows[3]["id"] = f" {undamaged[2].id} "  # the id of a record in another shard
    rows[4]["triples"][0]["object"] = "bell \x07"
    rows[5]["references"][0]["text"] = " "
    pq.write_table(pa.Table.from_pylist(rows, schema()), path)
    with pytest.raises(JobError, match=r"4 of 12 texts were rejected \(33.3%, max_reject_share is 1.0%"):
        segment(str(path), str(out), clause_config(shard_rows=3))
    assert not (out / "manifest.json").exists()
    rejects, recorder = read_rejects(out), Recorder()
    use_segmenter(monkeypatch, recorder)
    report = segment(str(path), str(out), clause_config(shard_rows=3, max_reject_share=0.5))
    assert (read_rejects(out), recorder.texts_seen) == (rejects, [])  # nothing is segmented again
    reasons = ["id is empty", "occurs a second time, first in row 2", "control character", "reference 1: a reference"]
    for reject, row, reason in zip(rejects, (1, 3, 4, 5), reasons, strict=True):
        assert (reject["file"], reject["line"], reject["id"]) == (str(path), row, rows[row]["id"])
        assert reason in reject["reason"]
    records = read_records(out / "dev")
    assert [record.id for record in records] == [undamaged[0].id, undamaged[2].id, undamaged[5].id]
    assert len(records[-1].references) == len(undamaged[5].references) - 1
    split_report = report.splits["dev"]
    assert (split_report.rows, split_report.records, split_report.rejects) == (6, 3, 4)


def test_a_text_on_which_the_segmenter_fails_is_a_reject_that_is_retried(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = read_records(corpus / "dev.parquet")
    bad_text = records[7].references[1].text
    use_segmenter(monkeypatch, Recorder(bad_text))
    assert segment(str(corpus), str(tmp_path / "loose"), LOCAL, splits=["dev"]).splits["dev"].rejects == 1
    (reject,) = read_rejects(tmp_path / "loose")
    assert (reject["line"], reject["reason"]) == (7, "reference 2: RuntimeError: cannot segment this text")
    remaining = [
        reference for record in segmented(records) for reference in record.references if reference.text != bad_text
    ]
    assert [reference for r in read_records(tmp_path / "loose/dev") for reference in r.references] == remaining

    strict, out = clause_config(max_reject_share=0), tmp_path / "strict"
    with pytest.raises(JobError, match="1 of 216 texts were rejected"):
        segment(str(corpus), str(out), strict, splits=["dev"])
    recorder = Recorder()
    use_segmenter(monkeypatch, recorder)
    progress = segment(str(corpus), str(out), strict, splits=["dev"]).progress
    assert progress is not None and (progress.reused, progress.total) == (3, 4)
    assert bad_text in recorder.texts_seen
    assert read_records(out / "dev") == segmented(records)


def test_a_segmenter_that_always_fails_ends_the_job(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shortening(ClauseSegmenter):
        def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
            return [(text[:-1],) for text in texts]

    use_segmenter(monkeypatch, Shortening())
    with pytest.raises(JobError, match=r"failed on all 5\d texts of a batch; on the first: .*not concatenate"):
        segment(str(corpus), str(tmp_path), LOCAL, splits=["dev"])
    assert not (tmp_path / "manifest.json").exists()


# --- the cache -------------------------------------------------------------------------------------------------------


def test_a_damaged_cache_does_not_change_the_output(corpus: Path, tmp_path: Path) -> None:
    config = clause_config(cache="on", cache_dir=str(tmp_path / "cache"))
    undamaged = segment(str(corpus), str(tmp_path / "first"), config)
    (file,) = (tmp_path / "cache").iterdir()  # no journal file
    file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    report = segment(str(corpus), str(tmp_path / "second"), config)
    assert report.splits == undamaged.splits
    assert report.progress is not None and report.progress.counts.cache_errors > 0
