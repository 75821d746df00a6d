"""Rel2Text: items as records, invalid items and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agggen.corpora.rejects import split_rejects
from agggen.corpora.rel2text import read_corrupted, read_rel2text
from agggen.errors import CorpusError
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


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"data": '])
def test_an_invalid_split_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "dev.json").write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=r"dev\.json is not a split of Rel2Text"):
        list(read_rel2text(tmp_path / "dev.json", "dev"))
    with pytest.raises(CorpusError, match=r"cannot read .*absent\.json"):
        list(read_rel2text(tmp_path / "absent.json", "dev"))


def test_corrupted_texts_exclude_held_out_relations(tmp_path: Path) -> None:
    path = tmp_path / "raw.tsv"
    rows = [
        "state\tresponse\thead\trelation\ttail",
        "ok\tA.\ta\tr\tb",
        "corrupted\tB.\ta\tr\tb",
        "corrupted\tC.\ta\ts\tb",
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    assert read_corrupted(path, {"s"}) == [(Triple("a", "r", "b"), "B.")]
    with pytest.raises(CorpusError, match=r"absent.tsv: No such file .* run `agggen corpora fetch rel2text`"):
        read_corrupted(tmp_path / "absent.tsv", set())
    path.write_text("head\trelation\na\tb", encoding="utf-8")
    with pytest.raises(CorpusError, match="has no column"):
        read_corrupted(path, set())
