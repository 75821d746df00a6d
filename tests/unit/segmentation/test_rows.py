"""Rows become records with facts, or rejects with reasons."""

from typing import Any

from agggen.corpora.rejects import Reject
from agggen.facts.clauses import ClauseSegmenter
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.rows import RowSegmenter
from agggen_platform.sharded.shards import Shard

SHARD = Shard(0, "", "in.parquet", "dev/0.parquet", (0,), 0, 10, 7, "in.parquet")


def row(number: int, **changes: Any) -> dict[str, Any]:
    triples = [{"subject": "Aromi", "predicate": name, "object": f" {name} {number} "} for name in ("food", "near by")]
    texts = [f"Aromi has food {number}, and it lies near by {number}.", f"Café {number} 🎉 is a place."]
    references: list[Any] = [{"text": text, "facts": None, "plan": None} for text in texts]
    same = {"id": f" e2e-{number}\t", "corpus": "theirs", "split": "theirs", "category": None}
    return same | {"triples": triples, "references": references} | changes


def test_bad_rows_and_references_are_rejects() -> None:
    rows = [
        row(0),
        row(1, id=""),
        row(2, triples=[]),
        row(3, category="Food", references=[]),
        row(4, references=[{"text": " "}, None, {"text": "It is good.", "plan": '[food]   [ "near by" ]'}]),
        row(5, references=[{"text": "It is good.", "plan": "[elsewhere]"}]),
        row(6, references=[{"text": "It is good.", "plan": ""}]),
    ]
    segmenter = RowSegmenter(ClauseSegmenter(), SegmentConfig(), SHARD)
    records = segmenter.records(rows, 10)
    assert [(reject.line, reject.reason) for reject in segmenter.rejects] == [
        (11, "the record's id is empty"),
        (12, "record 'e2e-2' has no triples; it needs at least one"),
        (14, "reference 1: a reference text is empty"),
        (14, "reference 2: the reference has no text"),
        (15, "reference 1: record 'e2e-5': a reference names 'elsewhere', which is not one of its predicates"),
    ]
    assert segmenter.rejects[0] == Reject("in.parquet", 11, "", "the record's id is empty")
    assert [record.id for record in records] == ["e2e-0", "e2e-3", "e2e-4", "e2e-5", "e2e-6"]
    assert [record.category for record in records] == [None, "Food", None, None, None]
    assert [len(record.references) for record in records] == [2, 0, 1, 0, 1]
    assert str(records[2].references[0].plan) == '[food] ["near by"]'
    counts = segmenter.counts
    assert (counts.records, counts.references, counts.rejects) == (5, 4, 5)
    assert counts.facts == sum(len(reference.facts or ()) for record in records for reference in record.references)
