"""Rel2Text: items as records, invalid items."""

import json
from pathlib import Path

from agggen.corpora.rejects import split_rejects
from agggen.corpora.rel2text import read_corrupted, read_rel2text
from agggen.records import Triple


def test_texts_of_one_triple_are_references_of_one_record(tmp_path: Path) -> None:
    item = "<head> Lucy's Cafe <rel> serves cuisine <tail> American cuisine"
    data = [{"in": item, "out": " A. "}, {"in": "Lucy's Cafe", "out": "B."}, 7, {"in": item, "out": ""}]
    data.append({"in": item, "out": "C."})
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": data}), encoding="utf-8")
    records, rejects = split_rejects(read_rel2text(path, "dev"))
    assert [(record.id, record.triples) for record in records] == [
        ("rel2text-dev-0001", (Triple("Lucy's Cafe", "serves cuisine", "American cuisine"),))
    ]
    assert [reference.text for reference in records[0].references] == ["A.", "C."]
    assert [reject.line for reject in rejects] == [2, 3, 4]
    assert 'item 2 has no "in" of the form' in rejects[0].reason


def test_corrupted_texts_exclude_held_out_relations(tmp_path: Path) -> None:
    path = tmp_path / "raw.tsv"
    rows = ("state response head relation tail", "ok A. a r b", "corrupted B. a r b", "corrupted C. a s b")
    path.write_text("\n".join(rows).replace(" ", "\t"), encoding="utf-8")
    assert read_corrupted(path, {"s"}) == [(Triple("a", "r", "b"), "B.")]
