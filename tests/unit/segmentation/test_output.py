"""What a segmentation job publishes is, to the byte, what its good records are when written as records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agggen.corpora.prepared import fingerprint, read_records, write_records, write_rows
from agggen.facts.clauses import ClauseSegmenter
from agggen.records import Fact, Plan, Record, Reference, Triple
from agggen_platform.segmentation.output import good_rows
from agggen_platform.segmentation.rows import RowSegmenter, rejected


def row(number: int, **changes: Any) -> dict[str, Any]:
    triples = [{"subject": "Aromi", "predicate": name, "object": f" {name} {number} "} for name in ("food", "near by")]
    texts = [f"Aromi has food {number}, and it lies near by {number}.", f"Café {number} 🎉 is a place."]
    references: list[Any] = [{"text": text, "facts": None, "plan": None} for text in texts]
    same = {"id": f" e2e-{number}\t", "corpus": "theirs", "split": "theirs", "category": None}
    return same | {"triples": triples, "references": references} | changes


def test_good_rows_are_good_records() -> None:
    rows = [
        row(0),
        row(1, id=""),
        row(2, triples=[]),
        row(3, category="Food", references=[]),
        row(4, references=[{"text": " "}, None, {"text": "It is good.", "plan": '[food]   [ "near by" ]'}]),
        row(5, references=[{"text": "It is good.", "plan": "[elsewhere]"}]),
        row(6, references=[{"text": "It is good.", "plan": ""}]),
    ]
    segmented = RowSegmenter(ClauseSegmenter(), alignment="normal").rows(rows, 0)
    assert [(number, reason) for number, _, reason in rejected(segmented)] == [
        (1, "the record's id is empty"),
        (2, "record 'e2e-2' has no triples; it needs at least one"),
        (4, "reference 1: a reference text is empty"),
        (4, "reference 2: the reference has no text"),
        (5, "reference 1: record 'e2e-5': a reference names 'elsewhere', which is no predicate of it"),
    ]
    found = list(good_rows(segmented, "ours", "train"))
    assert [one["id"] for one in found] == ["e2e-0", "e2e-3", "e2e-4", "e2e-5", "e2e-6"]
    assert [len(one["references"]) for one in found] == [2, 0, 1, 0, 1]
    assert found[2]["references"][0]["plan"] == '[food] ["near by"]'


def test_the_published_file_is_that_of_its_records_to_the_byte(tmp_path: Path) -> None:
    rows = [row(number) for number in range(2100)]  # more than two row groups
    rows[7] = row(7, triples=[])
    rows[1030] = row(1030, references=[{"text": "It is good.", "plan": '[food]   ["near by"]'}, None])
    for alignment in ("normal", "none"):
        segmented = RowSegmenter(ClauseSegmenter(), alignment=alignment).rows(rows, 0)
        records = [as_record(one) for one in segmented if one["error"] is None]
        assert write_records(tmp_path / "records", records, "ours", "dev") == 2099
        assert write_rows(tmp_path / "rows", good_rows(segmented, "ours", "dev"), "ours", "dev") == 2099
        assert (tmp_path / "rows").read_bytes() == (tmp_path / "records").read_bytes()
        assert read_records(tmp_path / "rows") == records


def as_record(row: dict[str, Any]) -> Record:
    references = []
    for given in row["references"]:
        if given["error"] is None:
            facts = tuple(
                Fact(fact["text"], None if fact["predicates"] is None else tuple(fact["predicates"]))
                for fact in given["facts"]
            )
            references.append(Reference(given["text"], facts, Plan.parse(given["plan"]) if given["plan"] else None))
    return Record(row["id"], tuple(Triple.of(one) for one in row["triples"]), tuple(references), row["category"])


def test_the_fingerprint_of_known_records_stays(tmp_path: Path) -> None:
    """Other formats of the same records would make every job and run that names them a new one."""
    triples = (Triple("Café", "food", "English"), Triple("Café", "food", '"x"'))
    cut = Reference("Á b.", (Fact("Á ", ("food",)), Fact("b.")), Plan((("food", "food_2"),)))
    records = [Record("1", triples, (Reference("a"), cut), "C"), Record("2", triples[:1])]
    write_records(tmp_path / "x", records, "c", "s")
    assert fingerprint(tmp_path / "x") == "5aa00203630d90d1e9659ed9f35b40582c4ffca7ff501909d305d4d34a5c0bce"
