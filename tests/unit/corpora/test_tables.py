"""Users' rows as records: long, wide and nested forms, named columns, invalid rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agggen.corpora.rejects import Reject
from agggen.corpora.tables import Columns, Table, read_table, record_of_row, text_of
from agggen.datasets import read_file
from agggen.errors import CorpusError, RecordError
from agggen.records import Record


def read(*rows: Mapping[str, Any], **columns: Any) -> Table:
    return read_table(enumerate(rows, start=1), "t", Columns(**columns))


def only(table: Table) -> Record:
    ((record,),) = table.records.values()
    assert not table.rejects
    return record


def triples(record: Record) -> list[str]:
    return [str(triple) for triple in record.triples]


def texts(record: Record) -> list[str]:
    return [reference.text for reference in record.references]


class NotComparable:
    """Compares like pandas.NA: the result has no truth value."""

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


# --- one record a row ---


def test_a_column_is_a_predicate_and_the_title_the_subject() -> None:
    row = {"id": 7, "title": "Alien", "release year": 1979.0, "director": " Scott ", "seen": True, "text": "Alien."}
    record = only(read(row))
    assert (record.id, texts(record)) == ("7", ["Alien."])
    assert triples(record) == ["Alien | release_year | 1979", "Alien | director | Scott", "Alien | seen | yes"]


def test_empty_cells_are_skipped() -> None:
    row = {"name": "Alien", "a": "", "b": None, "c": float("nan"), "d": " ", "": "index", "e": 0}
    assert triples(only(read(row))) == ["Alien | e | 0"]


def test_options_name_the_columns() -> None:
    row = {"film": "Alien", "key": "x1", "made": 1979, "plot": "A.", "pitch": "B.", "kind": "sf", "url": "http://"}
    columns = {"id": "key", "subject": "film", "text": ("plot", "pitch"), "category": "kind", "ignore": ("url",)}
    record = only(read(row, **columns, rename={"made": "year"}))
    assert (record.id, record.category, texts(record)) == ("x1", "sf", ["A.", "B."])
    assert triples(record) == ["Alien | year | 1979"]


def test_a_single_column_may_be_a_string() -> None:
    record = only(read({"name": "Alien", "plot": "A.", "url": "u", "year": 1}, text="plot", ignore="url"))
    assert (triples(record), texts(record)) == (["Alien | year | 1"], ["A."])


def test_a_named_column_that_is_absent_raises_an_error() -> None:
    with pytest.raises(CorpusError, match="t has no column 'plott'; it has plot, title"):
        read({"title": "Alien", "plot": "A."}, text=("plott",))


def test_nested_objects_and_lists_are_flattened() -> None:
    row = {"name": "Alien", "director": {"name": "Scott", "born": {"year": 1937}}, "star": ["Weaver", "Hurt"]}
    assert triples(only(read(row))) == [
        "Alien | director_name | Scott",
        "Alien | director_born_year | 1937",
        "Alien | star | Weaver",
        "Alien | star | Hurt",
    ]


def test_a_misspelt_triples_key_is_not_a_predicate() -> None:
    (reject,) = read({"id": "1", "tripels": [["Aromi", "food", "English"]]}).rejects
    assert reject.reason == "'tripels' has a list in a list, which is not a value; triples belong under 'triples'"


def test_a_row_without_values_is_rejected() -> None:
    table = read({"title": "Alien", "year": "1979"}, {"title": "Nothing", "year": ""}, {"title": "", "year": " "})
    assert [reject.reason for reject in table.rejects] == [
        "the row has no value besides 'title'",
        "the row has no value",
    ]


def test_rows_of_one_record_give_several_references() -> None:
    rows = [{"name": "Alien", "year": 1979, "text": text} for text in ("A.", "B.", "A.")]
    record = only(read(*rows))
    assert (record.id, texts(record)) == ("1", ["A.", "B."])
    assert texts(only(read({"name": "X", "p": "q", "text": "A.", "text2": "B.", "reference 3": "C."}))) == [
        "A.",
        "B.",
        "C.",
    ]
    assert texts(only(read({"name": "X", "p": "q", "texts": ["A.", "B."]}))) == ["A.", "B."]


def test_the_same_id_with_other_values_is_rejected() -> None:
    table = read({"id": 1, "name": "A", "p": "x"}, {"id": 1, "name": "A", "p": "y"}, {"id": 1, "name": "A", "p": "x"})
    assert [len(result) for result in table.records.values()] == [1]
    assert table.rejects == [Reject("t", 2, "1", "row 1 has the same id and other values")]


def test_rows_of_one_record_may_have_their_keys_in_another_order() -> None:
    rows = [{"name": "A", "p": "x", "q": "y", "text": "A."}, {"q": "y", "text": "B.", "name": "A", "p": "x"}]
    for same in (rows, [{"id": 1} | row for row in rows]):
        record = only(read(*same))
        assert (triples(record), texts(record)) == (["A | p | x", "A | q | y"], ["A.", "B."])
    lists = read({"id": 1, "name": "A", "p": ["x", "y"]}, {"id": 1, "name": "A", "p": ["y", "x"]})
    assert [reject.reason for reject in lists.rejects] == ["row 1 has the same id and other values"]


def test_splits_are_read_from_a_column() -> None:
    rows = [{"name": "A", "p": "x", "split": name} for name in ("train", "Validation", "test", "held-out")]
    assert list(read(*rows).records) == ["train", "dev", "test", "held-out"]


# --- one triple a row, and records in JSON ---


def test_rows_with_subject_predicate_object_form_records() -> None:
    rows = [("Alien", "year", 1979, "A."), ("Heat", "year", 1995, "H."), ("Alien", "director", "Scott", "")]
    table = read(*(dict(zip(("Subject", "predicate", "object", "text"), row, strict=True)) for row in rows))
    assert {record.id: triples(record) for record in table.records[None]} == {
        "Alien": ["Alien | year | 1979", "Alien | director | Scott"],
        "Heat": ["Heat | year | 1995"],
    }


def test_predicates_of_the_long_form_can_be_renamed() -> None:
    rows = [{"subject": "Alien", "predicate": name, "object": "1979"} for name in ("year", "made")]
    assert triples(only(read(*rows, rename={"year": "released"}))) == ["Alien | released | 1979", "Alien | made | 1979"]
    with pytest.raises(CorpusError, match="t has no column 'yaer'; it has object, predicate, subject"):
        read(*rows, rename={"yaer": "released"})


def test_an_invalid_triple_rejects_its_record() -> None:
    rows = [("Alien", "year", 1979), ("Heat", "year", 1995), ("Alien", "director", "")]
    table = read(*(dict(zip(("subject", "predicate", "object"), row, strict=True)) for row in rows))
    assert [record.id for record in table.records[None]] == ["Heat"]
    assert [(reject.line, reject.id) for reject in table.rejects] == [(3, "Alien"), (1, "Alien")]


def test_an_incomplete_long_form_is_not_read_as_wide() -> None:
    with pytest.raises(CorpusError, match=r"no column predicate; it needs .* and has subject, object"):
        read({"subject": "a", "object": "b"})


def test_records_in_json_keep_facts_and_plans() -> None:
    row = {"id": "1", "triples": [["A", "p", "x"]], "references": [{"text": "A x.", "facts": ["A x."]}], "split": "dev"}
    (record,) = read(row).records["dev"]
    assert record.references[0].facts is not None


def test_a_record_in_a_data_frame_may_have_arrays_and_empty_cells() -> None:
    nested = np.empty(1, dtype=object)
    nested[0] = np.array(["A", "p", "x"], dtype=object)  # as `pandas.read_parquet` gives lists in lists
    for array in (nested, np.array([["A", "p", "x"]])):
        record = only(read({"id": "1", "triples": array, "references": float("nan"), "category": float("nan")}))
        assert record == Record.of({"id": "1", "triples": [["A", "p", "x"]]})
    assert only(read({"id": "1", "triples": [["A", "p", "x"]], "category": np.str_("c")})).category == "c"
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    (reject,) = read({"id": "1", "triples": [deep]}).rejects
    assert reject.reason == "the row is nested too deeply"


def test_a_reject_names_its_record_once() -> None:
    (reject,) = read({"id": "x", "triples": [["A", "p"]]}).rejects
    assert str(reject).startswith("t:1: record 'x': a triple needs 3 parts")


def test_a_lone_surrogate_in_a_record_is_a_reject() -> None:
    """Such a record was accepted; its dataset had no fingerprint and could not be saved."""
    table = read(
        {"id": "1", "triples": [["A", "p", "\ud800"]]}, {"triples": '[["A", "p", "caf\udce9"]]', "corrected": "A."}
    )
    assert not table.records
    assert [reject.reason for reject in table.rejects] == [
        r"half of a surrogate pair in '\ud800'",
        r"not UTF-8: byte 0xe9 in 'caf\udce9'",
    ]


# --- cells ---


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (np.float64(3.0), "3"),
        (np.int64(3), "3"),
        (2.5, "2.5"),
        (np.bool_(False), "no"),
        (date(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, 4), "2020-01-02 03:04:00"),
        (float("nan"), None),
        (NotComparable(), None),
    ],
)
def test_cells_become_text(cell: object, text: str | None) -> None:
    assert text_of(cell) == text


def test_a_cell_of_another_type_is_refused() -> None:
    with pytest.raises(RecordError, match="a cell has the type bytes"):
        text_of(b"x")


# --- files ---


def test_an_invalid_byte_rejects_its_row_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(b"id,title,year,text\n1,Caf\xe9,1979,bad\n2,Heat,1995,Heat.\n")
    table = read_file(path)
    assert [record.id for record in table.records[None]] == ["2"]
    (reject,) = table.rejects
    assert (reject.line, reject.id) == (2, "1") and reject.reason.startswith("not UTF-8: byte 0xe9 in")
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"name": "Caf\xe9"}\n{"name": "Heat", "year": 1995}\n[1]\n')
    table = read_file(path)
    assert [record.id for record in table.records[None]] == ["2"]
    assert [(item.line, item.reason[:9]) for item in table.rejects] == [(1, "not UTF-8"), (3, "a record ")]


def test_an_invalid_byte_in_the_long_form_rejects_the_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"subject,predicate,object\nRan,director,Kurosawa\nHeat,year,1995\nRan,year,198\xe9\n")
    table = read_file(path)
    assert [record.id for record in table.records[None]] == ["Heat"]
    assert {reject.line for reject in table.rejects} == {2, 4}


def test_a_triple_with_too_few_fields_rejects_the_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("ID,Subject,Predicate,Object\n1,Ran,year,1985\n2,Heat,year,1995\n1,Ran,director\n")
    table = read_file(path)
    assert [record.id for record in table.records[None]] == ["2"]
    assert [(reject.line, reject.id) for reject in table.rejects] == [(4, "1"), (2, "1")]


@pytest.mark.parametrize(("name", "sign"), [("f.csv", ";"), ("f.csv", ","), ("f.tsv", "\t")])
def test_the_delimiter_is_read_from_the_header(tmp_path: Path, name: str, sign: str) -> None:
    (tmp_path / name).write_text(f"title{sign}Release Year\nAlien{sign}1979\n", encoding="utf-8")
    assert triples(only(read_file(tmp_path / name))) == ["Alien | Release_Year | 1979"]


def test_duplicate_column_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("title,star,star\nAlien,Weaver,Hurt\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"f\.csv, line 1: two columns are called 'star'"):
        read_file(tmp_path / "f.csv")


def test_a_single_object_is_read_in_either_form() -> None:
    wide = {
        "id": 7,
        "title": "Alien",
        "director": {"name": "Scott"},
        "star": ["Weaver", "Hurt"],
        "text": "Alien, 1979.",
    }
    record = record_of_row(wide, "1")
    assert triples(record) == ["Alien | director_name | Scott", "Alien | star | Weaver", "Alien | star | Hurt"]
    assert (record.id, [item.text for item in record.references]) == ("7", ["Alien, 1979."])
    record_form = {"triples": [["Alien", "year", "1979"]]}
    assert record_of_row(record_form, "1") == Record.of(record_form, "1")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"subject": "Alien", "predicate": "year", "object": "1979"}, "is one triple, not a record"),
        ({"subject": "Alien", "predicate": "year"}, "is one triple, not a record"),
        ({"id": "1", "tripels": [["Alien", "year", "1979"]]}, "unknown key 'tripels'; did you mean 'triples'"),
        ({"id": "1"}, "triples"),
        ({"title": "Alien"}, "the row has no value besides 'title'"),
        ({"year": [["Alien", "year", "1979"]]}, "'year' has a list in a list"),
        (["Alien"], "a record must be an object"),
        (reduce(lambda value, _: {"a": value}, range(5000), "x"), "'a' is nested too deeply"),
    ],
)
def test_an_invalid_object_is_refused(row: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        record_of_row(row, "1")
