"""Invalid input of the segmentation job, rejects, and a damaged cache of facts."""

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
from agggen.records import Record
from agggen_platform.segmentation.job import segment
from agggen_platform.sharded.config import JobError
from tests.integration.segment_jobs import HERE, Counting, by_clauses, elements, expected, use, write_corpus


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
        segment(str(tmp_path / name), str(tmp_path / "out"), HERE)
    assert not (tmp_path / "out").exists()


# --- rejects ---------------------------------------------------------------------------------------------------------


def rejected(out: Path) -> list[dict[str, Any]]:
    lines = [line for file in sorted((out / "rejects").iterdir()) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def with_bad_rows(path: Path) -> list[Record]:
    """A corpus whose rows 1, 3 and 4 are invalid and one of whose texts is blank."""
    good = elements("dev")[:6]
    write_records(path, good, "x", "dev")
    rows = pq.read_table(path).to_pylist()
    rows[1]["id"] = ""
    rows[3]["triples"] = []
    rows[4]["triples"][0]["object"] = "bell \x07"
    rows[5]["references"][0]["text"] = " "
    pq.write_table(pa.Table.from_pylist(rows, schema()), path)
    return good


def test_bad_rows_and_texts_are_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = with_bad_rows(tmp_path / "dev.parquet")
    out = tmp_path / "out"
    with pytest.raises(JobError, match=r"4 of 12 texts were rejected \(33.3%, at most 1.0% allowed"):
        segment(str(tmp_path / "dev.parquet"), str(out), HERE)
    assert not (out / "manifest.json").exists()
    rejects, cut = rejected(out), Counting()
    use(monkeypatch, cut)
    report = segment(str(tmp_path / "dev.parquet"), str(out), by_clauses(max_reject_share=0.5))
    assert (rejected(out), cut.seen) == (rejects, [])  # nothing is segmented again
    ids = [(reject["line"], reject["id"]) for reject in rejects]
    assert ids == [(1, ""), *((row, good[row].id) for row in (3, 4, 5))]
    assert [reject["file"] for reject in rejects] == [f"{tmp_path}/dev.parquet"] * 4
    reasons = ["id is empty", "no triples", "control character", "reference 1: a reference"]
    for reject, reason in zip(rejects, reasons, strict=True):
        assert reason in reject["reason"]
    records = read_records(out / "dev")
    assert [record.id for record in records] == [good[0].id, good[2].id, good[5].id]
    assert len(records[-1].references) == len(good[5].references) - 1
    assert report.splits["dev"].rejects == 4


def test_a_record_with_a_duplicate_id_is_a_reject(corpus: Path, tmp_path: Path) -> None:
    records = read_records(corpus / "dev.parquet")
    records[3] = renamed(records[3], records[1].id)  # in the same shard
    records[50] = renamed(records[50], f" {records[1].id} ")  # in another shard; white space is not part of an id
    records[60] = renamed(records[60], records[59].id)
    write_records(tmp_path / "dev.parquet", records, "x", "dev")
    report = segment(str(tmp_path / "dev.parquet"), str(tmp_path / "out"), by_clauses(max_reject_share=0.1))
    good = [record for number, record in enumerate(records) if number not in (3, 50, 60)]
    assert read_records(tmp_path / "out" / "dev") == expected(good)
    rejects = rejected(tmp_path / "out")
    assert [(reject["line"], reject["reason"]) for reject in rejects] == [
        (3, f"the id {records[1].id!r} occurs a second time, first in row 1"),
        (50, f"the id {records[1].id!r} occurs a second time, first in row 1"),
        (60, f"the id {records[59].id!r} occurs a second time, first in row 59"),
    ]
    assert (report.splits["dev"].rows, report.splits["dev"].records, report.splits["dev"].rejects) == (72, 69, 3)


def renamed(record: Record, identifier: str) -> Record:
    return Record(identifier, record.triples, record.references, record.category)


def test_one_text_on_which_the_segmenter_fails_is_one_reject(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = read_records(corpus / "dev.parquet")
    bad = records[7].references[1].text
    use(monkeypatch, Counting(bad))
    report = segment(str(corpus), str(tmp_path), HERE, splits=["dev"])
    hit = sum(reference.text == bad for record in records for reference in record.references)
    assert report.splits["dev"].rejects == hit
    reasons = {reject["reason"] for reject in rejected(tmp_path)}
    assert "reference 2: RuntimeError: cannot segment this text" in reasons
    left = [reference for record in expected(records) for reference in record.references if reference.text != bad]
    assert [reference for r in read_records(tmp_path / "dev") for reference in r.references] == left


def test_a_segmenter_that_always_fails_ends_the_job(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shortening(ClauseSegmenter):
        def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
            return [(text[:-1],) for text in texts]

    use(monkeypatch, Shortening())
    with pytest.raises(JobError, match=r"fails on every one of 5\d texts; on the first with .*not concatenate"):
        segment(str(corpus), str(tmp_path), HERE, splits=["dev"])
    assert not (tmp_path / "manifest.json").exists()


def test_texts_on_which_the_segmenter_failed_are_retried(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = read_records(corpus / "dev.parquet")[7].references[1].text
    strict = by_clauses(max_reject_share=0)
    use(monkeypatch, Counting(bad))
    with pytest.raises(JobError, match="of 216 texts were rejected"):
        segment(str(corpus), str(tmp_path), strict, splits=["dev"])
    cut = Counting()
    use(monkeypatch, cut)
    report = segment(str(corpus), str(tmp_path), strict, splits=["dev"])
    assert report.progress is not None
    assert (report.progress.reused, report.progress.total) == (3, 4)
    assert bad in cut.seen
    assert read_records(tmp_path / "dev") == expected(read_records(corpus / "dev.parquet"))


# --- the cache -------------------------------------------------------------------------------------------------------


def test_a_damaged_cache_does_no_harm(corpus: Path, tmp_path: Path) -> None:
    config = by_clauses(cache="on", cache_dir=str(tmp_path / "cache"))
    good = segment(str(corpus), str(tmp_path / "first"), config)
    (file,) = (tmp_path / "cache").iterdir()  # and no journal file
    file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    report = segment(str(corpus), str(tmp_path / "second"), config)
    assert report.splits == good.splits
    assert report.progress is not None and report.progress.counts.cache_errors > 0
