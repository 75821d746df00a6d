"""Users' tables as records: long, wide and nested forms, column names, invalid rows."""

from collections.abc import Mapping
from datetime import date, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agggen.corpora.tables import REJECTED_ROW, Columns, Table, read_table, record_of_row, text_of
from agggen.datasets import read_file
from agggen.errors import CorpusError, RecordError
from agggen.records import Record

Row = Mapping[str, Any]
DEEP: Any = reduce(lambda value, _: [value], range(5000), "x")


def read(*rows: Row, **columns: Any) -> Table:
    return read_table(enumerate(rows, start=1), "t", Columns(**columns))


def as_text(record: Record) -> str:
    """A record as ``id: triple; triple => text / text``."""
    triples = "; ".join(map(str, record.triples))
    return f"{record.id}: {triples} => {' / '.join(reference.text for reference in record.references)}"


def only_record(table: Table) -> Record:
    ((record,),) = table.records.values()
    assert not table.rejects
    return record


def long_rows(*triples: tuple[Any, ...]) -> list[Row]:
    return [dict(zip(("Subject", "predicate", "object", "text"), triple, strict=False)) for triple in triples]


FILM = {"id": 7, "title": "A", "release year": 1979.0, "director": " Scott ", "seen": True, "text": "A."}
EMPTY_CELLS = {"name": "A", "a": "", "b": None, "c": float("nan"), "d": " ", "": "index", "e": 0}
NAMED = {"film": "A", "key": "x1", "made": 1979, "plot": "A.", "pitch": "B.", "kind": "sf", "url": "http://"}
COLUMNS = {"id": "key", "subject": "film", "text": ("plot", "pitch"), "category": "kind", "ignore": ("url",)}
NESTED = {"name": "A", "director": {"name": "Scott", "born": {"year": 1937}}, "star": ["Weaver", "Hurt"]}
FLAT = "A | director_name | Scott; A | director_born_year | 1937; A | star | Weaver; A | star | Hurt => "
TEXTS = {"name": "X", "p": "q", "text": "A.", "text2": "B.", "reference 3": "C.", "texts": ["D.", "E."]}
REORDERED = [{"name": "A", "p": "x", "q": "y", "text": "A."}, {"q": "y", "text": "B.", "name": "A", "p": "x"}]
LONG = [("A", "year", 1979, "A."), ("Heat", "year", 1995, "H."), ("A", "director", "Scott", "")]
RECORDS: dict[str, tuple[list[Row], dict[str, Any], list[str]]] = {
    "columns are predicates": ([FILM], {}, ["7: A | release_year | 1979; A | director | Scott; A | seen | yes => A."]),
    "empty cells are skipped": ([EMPTY_CELLS], {}, ["1: A | e | 0 => "]),
    "options name the columns": ([NAMED], COLUMNS | {"rename": {"made": "year"}}, ["x1: A | year | 1979 => A. / B."]),
    "an option may be a string": (
        [{"p": 1, "url": 2, "plot": 3}],
        {"text": "plot", "ignore": "url"},
        ["1:  | p | 1 => 3"],
    ),
    "objects and lists are flattened": ([NESTED], {}, [f"1: {FLAT}"]),
    "the same triples": ([{"name": "A", "p": 1, "text": text} for text in "ABA"], {}, ["1: A | p | 1 => A / B"]),
    "several texts": ([TEXTS], {}, ["1: X | p | q => A. / B. / C. / D. / E."]),
    "keys in another order": (REORDERED, {}, ["1: A | p | x; A | q | y => A. / B."]),
    "the same, with an id": ([{"id": 3} | row for row in REORDERED], {}, ["3: A | p | x; A | q | y => A. / B."]),
    "one triple a row": (
        long_rows(*LONG),
        {"rename": {"year": "made"}},
        ["A: A | made | 1979; A | director | Scott => A.", "Heat: Heat | made | 1995 => H."],
    ),
}


@pytest.mark.parametrize(("rows", "columns", "records"), RECORDS.values(), ids=RECORDS)
def test_rows_become_records(rows: list[Row], columns: dict[str, Any], records: list[str]) -> None:
    table = read(*rows, **columns)
    assert ([as_text(record) for record in table.records[None]], table.rejects) == (records, [])


NO_VALUE = [{"title": "A", "year": "1979"}, {"title": "B", "year": ""}, {"title": "", "year": " "}]
SAME_ID = [{"id": 1, "name": "A", "p": value} for value in ("x", "y", "x")]
OTHER_ORDER = [{"id": 1, "name": "A", "p": value} for value in (["x", "y"], ["y", "x"])]
REJECTS: dict[str, tuple[list[Row], str, list[str]]] = {
    "a misspelt key": (
        [{"id": "1", "tripels": [["A", "p", "x"]]}],
        "",
        ["1: record '1': 'tripels' has a list in a list"],
    ),
    "no value": (NO_VALUE, "1", ["2: the row has no value besides 'title'", "3: the row has no value"]),
    "the same id": (SAME_ID, "1", ["2: record '1': row 1 has the same id but other values"]),
    "values in another order": (OTHER_ORDER, "1", ["2: record '1': row 1 has the same id but other values"]),
    "an invalid triple rejects its record": (
        long_rows(("A", "p", 1), ("B", "p", 2), ("A", "q", "")),
        "B",
        ["3: record 'A': the triple's object is empty", "1: record 'A': another row of this record was rejected"],
    ),
    "too few parts": ([{"id": "x", "triples": [["A", "p"]]}], "", ["1: record 'x': a triple needs 3 parts"]),
    "too deep": ([{"id": "x", "triples": [DEEP]}], "", ["1: record 'x': the row is nested too deeply"]),
    # Regression: accepted, although its dataset could not be saved.
    "a lone surrogate": ([{"triples": [["A", "p", "\ud800"]]}], "", [r"1: half of a surrogate pair in '\ud800'"]),
    "an undecoded byte in a review": (
        [{"triples": '[["A", "p", "caf\udce9"]]', "corrected": "A."}],
        "",
        [r"1: not UTF-8: byte 0xe9 in 'caf\udce9'"],
    ),
}


@pytest.mark.parametrize(("rows", "valid", "rejects"), REJECTS.values(), ids=REJECTS)
def test_invalid_rows_are_rejected_and_the_others_are_read(rows: list[Row], valid: str, rejects: list[str]) -> None:
    table = read(*rows)
    assert "".join(record.id for record in table.records.get(None, [])) == valid
    for reject, expected in zip(table.rejects, rejects, strict=True):
        assert str(reject).startswith(f"t:{expected}")


@pytest.mark.parametrize(
    ("row", "columns", "message"),
    [
        ({"title": "Alien", "plot": "A."}, {"text": ("plott",)}, "t has no column 'plott'; it has plot, title"),
        (
            {"subject": "Alien", "predicate": "year", "object": 1979},
            {"rename": {"yaer": "released"}},
            "t has no column 'yaer'; it has object, predicate, subject",
        ),
        ({"subject": "a", "object": "b"}, {}, "t: no column predicate; it needs .* and has subject, object"),
    ],
)
def test_a_missing_column_is_an_error(row: Row, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read(row, **columns)


def test_splits_and_categories_are_read_from_columns() -> None:
    rows = [{"name": "A", "p": "x", "split": name} for name in ("train", "Validation", "test", "held-out")]
    assert list(read(*rows).records) == ["train", "dev", "test", "held-out"]
    assert only_record(read(NAMED, **COLUMNS)).category == "sf"


def test_records_in_json_keep_facts_and_plans() -> None:
    data = {"id": "1", "triples": [["A", "p", "x"]], "references": [{"text": "A x.", "facts": ["A x."], "plan": "[p]"}]}
    assert read(data | {"split": "dev"}).records == {"dev": [Record.of(data)]}


def test_a_record_in_a_data_frame_may_have_arrays_and_empty_cells() -> None:
    nested = np.empty(1, dtype=object)
    nested[0] = np.array(["A", "p", "x"], dtype=object)  # as `pandas.read_parquet` returns nested lists
    for array in (nested, np.array([["A", "p", "x"]])):
        record = only_record(read({"id": "1", "triples": array, "references": float("nan"), "category": float("nan")}))
        assert record == Record.of({"id": "1", "triples": [["A", "p", "x"]]})
    assert only_record(read({"id": "1", "triples": [["A", "p", "x"]], "category": np.str_("c")})).category == "c"


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
    ],
)
def test_cells_become_text(cell: object, text: str | None) -> None:
    assert text_of(cell) == text


def test_missing_values_of_pandas_are_empty_cells() -> None:
    pandas = pytest.importorskip("pandas")
    assert (text_of(pandas.NA), text_of(pandas.NaT)) == (None, None)


FILES = {
    "f.csv": (
        b"id,title,year,text\n1,Caf\xe9,1979,bad\n2,Heat,1995,Heat.\n",
        [r":2: record '1': not UTF-8: byte 0xe9 in 'Caf\udce9'"],
    ),
    "f.jsonl": (
        b'{"id": 1, "name": "Caf\xe9"}\n{"id": "2", "name": "Heat", "year": 1995}\n[1]\n',
        [":1: not UTF-8 (byte 0xe9 at position 23)", ":3: a record must be an object, not list"],
    ),
    # In the long form, the whole record is rejected.
    "bytes.csv": (
        b"subject,predicate,object\n1,director,Kurosawa\n2,year,1995\n1,year,198\xe9\n",
        [r":4: record '1': not UTF-8: byte 0xe9 in '198\udce9'", f":2: record '1': {REJECTED_ROW}"],
    ),
    "fields.csv": (
        b"ID,Subject,Predicate,Object\n1,Ran,year,1985\n2,Heat,year,1995\n1,Ran,director\n",
        [":4: record '1': 3 fields where the header has 4", f":2: record '1': {REJECTED_ROW}"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_invalid_lines_of_a_file_are_rejected(tmp_path: Path, name: str) -> None:
    content, rejects = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    table = read_file(path)
    assert [record.id for record in table.records[None]] == ["2"]
    assert [str(reject).removeprefix(str(path)) for reject in table.rejects] == rejects


@pytest.mark.parametrize(("name", "sign"), [("f.csv", ";"), ("f.csv", ","), ("f.tsv", "\t")])
def test_the_delimiter_is_read_from_the_header(tmp_path: Path, name: str, sign: str) -> None:
    (tmp_path / name).write_text(f"title{sign}Release Year\nAlien{sign}1979\n", encoding="utf-8")
    assert as_text(only_record(read_file(tmp_path / name))) == "2: Alien | Release_Year | 1979 => "


def test_a_single_object_is_read_in_either_form() -> None:
    assert as_text(record_of_row(NESTED | {"id": 7}, "1")) == f"7: {FLAT}"
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
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_object_is_refused(row: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        record_of_row(row, "1")
