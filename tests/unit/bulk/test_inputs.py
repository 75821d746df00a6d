"""Input files of every format become rows in order, with line numbers; an invalid record has a reason."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from agggen.corpora.prepared import write_records
from agggen.datasets import read_file
from agggen.errors import AggGenError, CorpusError
from agggen.records import Record
from agggen_platform.bulk.inputs import check_inputs_unchanged, find_inputs, plan_shards, prepare_inputs, read_records
from agggen_platform.bulk.records import read_record
from agggen_platform.sharded import shards as shards_module
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.storage.errors import DamagedError
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import numbered_records, write_jsonl

TRIPLES = [["Aromi", "food", "English"]]


def shards_of(source: Path, work: Path, shard_rows: int = 4) -> list[Shard]:
    files = prepare_inputs(find_inputs(str(source), shard_rows), Folder(str(work)))
    return plan_shards(files, shard_rows, "texts/{}.parquet")


def rows_of(shards: list[Shard]) -> list[dict[str, Any]]:
    return [row for s in shards for _, rows in read_records(s, 100) for row in rows]


def ids_or_errors(rows: list[dict[str, Any]]) -> list[tuple[int | None, str]]:
    """The line, and the id or the error, of each row."""
    results = []
    for row in rows:
        try:
            results.append((row.get("line"), read_record(row)[0].id))
        except AggGenError as error:
            results.append((row.get("line"), str(error)))
    return results


def test_json_lines_become_rows_with_their_lines(tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": "a", "triples": TRIPLES, "plan": "[food]"}),
        "",
        "{no json",
        json.dumps({"triples": TRIPLES, "references": ["Aromi is English."]}),
        json.dumps({"id": "b", "triples": []}),
        json.dumps({"id": "c", "triples": TRIPLES, "plan": 7}),
        json.dumps({"id": "d", "triples": TRIPLES, "note": 1}),
        '{"id": "e\\ud800", "triples": [["a", "b", "c"]]}',
        "[1]",
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    rows = rows_of(shards_of(tmp_path / "in.jsonl", tmp_path / "work"))
    read = ids_or_errors(rows)
    assert [line for line, _ in read] == [1, 3, 4, 5, 6, 7, 8, 9]
    assert read[0] == (1, "a")
    assert rows[0]["plan"] == "[food]"
    assert read[2] == (4, "4")  # the line number is its id
    reasons = ["not JSON at column 2", "no triples", "written as a string, not as int", "unknown key 'note'"]
    reasons += ["half of a surrogate pair", "must be an object"]
    for (_, result), reason in zip([read[1], *read[3:]], reasons, strict=True):
        assert reason in result


def test_csv_rows_of_a_record_are_grouped_as_in_memory(tmp_path: Path) -> None:
    text = (
        "id,subject,predicate,object,plan,text\n"
        "1,Aromi,food,English,,Aromi is English.\n"
        "2,Bibi,food,,,\n"
        '3,Cece,food,"Thai\nand more",,\n'
        "1,Aromi,area,city,[area food],\n"
        "2,Bibi,area,city,,\n"
        ",Dada,area,city,,\n"
        "5,too,few\n"
        "3,Cece,area,city,,\n"
    )
    path = tmp_path / "in.csv"
    path.write_text(text)
    rows = rows_of(shards_of(path, tmp_path / "work"))
    good = [read_record(row)[0] for row in rows if not row.get("error")]
    (expected,) = read_file(path).records.values()
    assert [(record.id, record.triples) for record in good] == [(record.id, record.triples) for record in expected]
    assert [(row["line"], row["plan"]) for row in rows if not row.get("error")] == [(2, "[area food]"), (4, None)]
    assert sorted(result for result in ids_or_errors(rows) if result[1] not in "13") == [
        (3, "the triple's object is empty"),
        (8, "the id is empty"),
        (9, "3 fields where the header has 6"),
    ]


@pytest.mark.parametrize(("name", "sign"), [("in.csv", ","), ("in.csv", ";"), ("in.jsonl", None)])
def test_a_row_may_have_a_column_for_each_predicate(tmp_path: Path, name: str, sign: str | None) -> None:
    rows = [
        {"id": "a", "title": "Alien", "Made In": "1979", "plan": "[Made_In]", "text": "Alien is of 1979."},
        {"id": "b", "title": "Heat", "Made In": "1995", "plan": "", "text": ""},
        {"id": "c", "title": "Ran", "Made In": "", "plan": "", "text": "No value."},
    ]
    if sign:
        content = "\n".join(sign.join(row) for row in [rows[0].keys(), *(row.values() for row in rows)])
    else:
        content = "\n".join(json.dumps({key: value for key, value in row.items() if value}) for row in rows)
    (tmp_path / name).write_bytes(content.encode() + (b"\n\xff,Caf\xe9,1999,," if sign == "," else b""))
    rows_read = rows_of(shards_of(tmp_path / name, tmp_path / "work"))
    first = 2 if sign else 1
    assert ids_or_errors(rows_read)[:3] == [
        (first, "a"),
        (first + 1, "b"),
        (first + 2, "the row has no value besides 'title'"),
    ]
    assert rows_read[0]["triples"] == [{"subject": "Alien", "predicate": "Made_In", "object": "1979"}]
    assert [row["plan"] for row in rows_read[:2]] == ["[Made_In]", None]
    if sign == ",":
        assert rows_read[3]["line"] == 5 and rows_read[3]["error"].startswith("not UTF-8: byte 0xff")


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_rows_of_one_id_are_duplicates(tmp_path: Path, name: str) -> None:
    rows = [{"ID": 7, "year": 1979}, {"ID": 8, "year": 1980}, {"ID": " 7 ", "year": 1981}]
    lines = ["ID,year", *(f"{row['ID']},{row['year']}" for row in rows)]
    (tmp_path / name).write_text("\n".join(lines if name == "in.csv" else map(json.dumps, [*rows, {"ID": {}, "a": 1}])))
    (shard,) = shards_of(tmp_path / name, tmp_path / "work")
    assert [row for row, _ in shard.duplicates] == [2]
    assert [result for _, result in ids_or_errors(rows_of([shard]))][:3] == ["7", "8", "7"]


TRIPLE = [{"subject": "Aromi", "predicate": "food", "object": "English"}]


@pytest.mark.parametrize(
    ("rows", "duplicates"),
    [
        ([{"ID": "1", "id": "a", "triples": TRIPLE}, {"ID": "2", "id": "a", "triples": TRIPLE}], [1]),
        ([{"year": 1979, "id": None}, {"year": 1980, "id": "0"}], [1]),  # the first one's id is the row's number
        ([{"iD": "a", "year": 1979}, {"iD": "a", "year": 1980}], [1]),
        ([{"ID": "a", "id": "b", "year": 1979}, {"ID": "a", "id": "c", "year": 1980}], [1]),
    ],
)
def test_ids_of_parquet_are_compared_where_they_are_read(
    rows: list[dict[str, Any]], duplicates: list[int], tmp_path: Path
) -> None:
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    (shard,) = shards_of(tmp_path / "in.parquet", tmp_path / "work")
    assert [row for row, _ in shard.duplicates] == duplicates


def test_a_plan_that_is_not_utf8_rejects_its_record_only(tmp_path: Path) -> None:
    """The copy of a CSV whose rows are not grouped could not be written."""
    lines = [b"id,subject,predicate,object,plan", b"1,a,p,b,[\xff]", b"2,a,p,b,", b"1,a,q,c,"]
    for name, order in (("grouped.csv", (0, 1, 3, 2)), ("mixed.csv", (0, 1, 2, 3))):
        (tmp_path / name).write_bytes(b"\n".join(lines[number] for number in order))
        read = ids_or_errors(rows_of(shards_of(tmp_path / name, tmp_path / name[:-4])))
        assert [result for _, result in read] == ["not UTF-8: byte 0xff in '[\\udcff]'", "2"]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (1, 2, 0)])
def test_a_record_with_a_row_of_too_few_fields_is_invalid(tmp_path: Path, order: tuple[int, ...]) -> None:
    """Its text would lack the triple of this row."""
    lines = [b"1,Aromi,food,Thai", b"1,Aromi,area", b"2,Bibi,food,Thai"]
    (tmp_path / "in.csv").write_bytes(b"\n".join([b"id,subject,predicate,object", *(lines[i] for i in order)]))
    rows = rows_of(shards_of(tmp_path / "in.csv", tmp_path / "work"))
    valid = [row["id"] for row in rows if row.get("error") is None]
    invalid = [(row["id"], row["error"]) for row in rows if row.get("error") is not None]
    reasons = [("1", "3 fields where the header has 4"), ("1", "another row of this record was rejected")]
    assert (valid, sorted(invalid)) == (["2"], reasons)


def test_parquet_is_read_in_place_in_up_to_256_shards_per_row_group(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    write_records(path, numbered_records(600), "x", "dev")
    for shard_rows, largest in ((100, 100), (3, 3), (1, 3)):
        shards = shards_of(path, tmp_path / "work", shard_rows)
        assert max(shard.rows for shard in shards) == largest
        assert ids_or_errors(rows_of(shards)) == [(None, f"r{n}") for n in range(600)]
    assert not (tmp_path / "work").exists()


def test_parquet_may_have_a_column_for_each_predicate(tmp_path: Path) -> None:
    columns = {"ID": [7, None, 7, 9], "title": ["Alien", "Heat", "Ran", "X"], "year": [1979, 1995, 1985, None]}
    table = pa.table(columns | {"plan": ["[year]", None, None, None], "cast": [["Weaver", "Holm"], [], None, None]})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.drop_columns("ID"), tmp_path / "b.parquet")
    shards = shards_of(tmp_path, tmp_path / "work", 3)
    rows = rows_of(shards)
    empty = "the row has no value besides 'title'"
    assert ids_or_errors(rows) == [
        *((0, "7"), (1, "a.parquet:1"), (2, "7"), (3, empty)),
        *((0, "b.parquet:0"), (1, "b.parquet:1"), (2, "b.parquet:2"), (3, empty)),
    ]
    assert rows[0]["plan"] == "[year]"
    assert [triple["object"] for triple in rows[0]["triples"]] == ["1979", "Weaver", "Holm"]
    duplicates = [(shard.index, *pair) for shard in shards for pair in shard.duplicates]
    assert duplicates == [(1, 2, f"{tmp_path}/a.parquet, row 0")] and not (tmp_path / "work").exists()


@pytest.mark.parametrize("more", ["", "r9,a,d,e\n"])  # in the second case the driver copies the CSV
def test_a_duplicate_id_in_any_file_names_the_first_record(more: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_jsonl(folder / "a.jsonl", numbered_records(6))
    (folder / "b.csv").write_text("id,subject,predicate,object\nr9,a,b,c\nr2,a,b,c\n" + more)
    write_records(
        folder / "c.parquet",
        [Record(name, record.triples) for name in ("r9", "x") for record in numbered_records(1)],
        "x",
        "y",
    )
    (folder / "rejects.jsonl").write_text("rejects of an earlier job\n")
    shards = shards_of(folder, tmp_path / "work", 3)
    duplicates = {(shard.index, row): where for shard in shards for row, where in shard.duplicates}
    assert [shard.index for shard in shards] == [0, 1, 2, 3]
    assert duplicates == {(2, 1): f"{folder}/a.jsonl, line 3", (3, 0): f"{folder}/b.csv, line 2"}


def test_an_invalid_line_does_not_mask_a_record_of_its_id(tmp_path: Path) -> None:
    bad = [{"id": "a", "triples": []}, {"id": "a", "triples": TRIPLES, "plan": "[food"}]
    lines = [*bad, {"id": "a", "triples": TRIPLES}, {"id": " a ", "triples": TRIPLES}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (shard,) = shards_of(tmp_path / "in.jsonl", tmp_path / "work")
    assert shard.duplicates == ((3, f"{tmp_path}/in.jsonl, line 3"),)


def test_records_without_ids_get_the_names_of_their_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"triples": TRIPLES}) + "\n")
    shards = shards_of(tmp_path, tmp_path / "work")
    assert ids_or_errors(rows_of(shards)) == [(1, "a.jsonl:1"), (1, "b.jsonl:1")]
    assert not any(shard.duplicates for shard in shards)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.jsonl", None, "gone.jsonl does not exist"),
        ("gone.parquet", None, "gone.parquet does not exist"),
        ("text.parquet", b"no parquet at all", "is not a Parquet file"),
        ("other.parquet", pa.table({"id": ["a"]}), "no column 'triples'"),
        ("typed.parquet", pa.table({"id": [1], "triples": [[]]}), "'id' is int64, it should be string"),
        ("long.parquet", pa.table({"Subject": ["a"], "predicate": ["b"]}), "Parquet needs one record per row"),
        ("empty.jsonl", b"", "empty.jsonl is empty"),
        ("empty.csv", b"", "empty.csv is empty"),
        ("other.csv", b"subject,object\n", "no column predicate; it needs subject, predicate, object"),
        ("notes.txt", b"hello", "not a file of records: its name must end in .parquet, .jsonl, .csv"),
        ("folder", None, r"contains no records: no file in it ends in .parquet, .jsonl, .csv"),
    ],
)
def test_input_that_cannot_be_read(name: str, content: bytes | pa.Table | None, message: str, tmp_path: Path) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        pq.write_table(content, tmp_path / name)
    with pytest.raises(CorpusError, match=message):
        shards_of(tmp_path / name, tmp_path / "work")
    assert not list((tmp_path / "work").glob("*"))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_file_that_changes_while_it_is_read_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"in.{kind}"
    table = pa.table({"id": ["a", "b"], "subject": ["s", "t"], "predicate": ["p", "p"], "object": ["o", "o"]})
    write = {"jsonl": lambda: write_jsonl(path, numbered_records(3)), "csv": lambda: csv.write_csv(table, path)}
    write["parquet"] = lambda: write_records(path, numbered_records(3), "x", "dev")
    write[kind]()
    inputs = find_inputs(str(path), 4)
    files = prepare_inputs(inputs, Folder(str(tmp_path / "work")))
    (shard,) = plan_shards(files, 4, "texts/{}.parquet")
    check_inputs_unchanged(inputs)
    write[kind]()  # the same size, at another time
    with pytest.raises(JobError, match="changed while it was read"):
        check_inputs_unchanged(inputs)
    if kind == "jsonl":
        with pytest.raises(DamagedError, match="replaced while it was read"):
            rows_of([shard])
    path.unlink()
    with pytest.raises(JobError, match="changed while it was read"):
        check_inputs_unchanged(inputs)


def test_a_byte_that_is_not_utf8_rejects_its_line_only(tmp_path: Path) -> None:
    lines = [json.dumps({"id": name, "triples": TRIPLES}).encode() for name in "abc"]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join([lines[0], lines[1].replace(b"English", b"Fran\xe7ais"), lines[2]]))
    rows = rows_of(shards_of(tmp_path / "in.jsonl", tmp_path / "work"))
    assert ids_or_errors(rows) == [(1, "a"), (2, "not UTF-8 (byte 0xe7 at position 48)"), (3, "c")]


def test_a_csv_row_that_is_not_utf8_rejects_its_record_only(tmp_path: Path) -> None:
    lines = [b"1,Aromi,food,Fran\xe7ais", b"1,Aromi,area,", b"2,Bibi,food,Thai", b"\xff,Cece,area,city"]
    (tmp_path / "in.csv").write_bytes(b"\n".join([b"id,subject,predicate,object", *lines]))
    rows = rows_of(shards_of(tmp_path / "in.csv", tmp_path / "work"))
    assert [(row["line"], row["id"], row.get("error")) for row in rows] == [
        (2, "1", "not UTF-8: byte 0xe7 in 'Fran\\udce7ais'; line 3: the triple's object is empty"),
        (4, "2", None),
        (5, "\\udcff", "not UTF-8: byte 0xff in '\\udcff'"),
    ]


def of_any_size(path: Path, records: int) -> list[dict[str, Any]]:
    """The rows of a text file, after a check that shards of all sizes have the same rows; nothing is copied."""
    all_rows = rows_of(shards_of(path, path.parent / "work", 1000))
    assert len(all_rows) == records
    for shard_rows in (1, 7, 64):
        shards = shards_of(path, path.parent / "work", shard_rows)
        firsts = [shard.first for shard in shards]
        assert firsts == [0, *(shard.first + shard.rows for shard in shards[:-1])]
        assert len(firsts) > 0.7 * records / shard_rows
        assert rows_of(shards) == all_rows
    assert not (path.parent / "work").exists()
    return all_rows


def test_shards_of_any_size_hold_the_same_rows_of_json_lines(tmp_path: Path) -> None:
    lines = [json.dumps({"triples": TRIPLES, "category": "é"}, ensure_ascii=False).encode() for _ in range(150)]
    for position, line in ((0, b"\xef\xbb\xbf"), (7, b""), (8, b"\xe2\x80\x83"), (20, b"\0"), (64, b"\r"), (149, b"")):
        lines.insert(position, line)
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    whole = of_any_size(tmp_path / "in.jsonl", 151)
    assert whole[-1]["line"] == 156
    files = find_inputs(str(tmp_path / "in.jsonl"))  # by default, shards are multiples of 64 records
    shards = plan_shards(prepare_inputs(files, Folder(str(tmp_path))), 150, "{}")
    assert [shard.rows for shard in shards] == [128, 23] and rows_of(shards) == whole


@pytest.mark.parametrize("sign", [b",", b";"])
@pytest.mark.parametrize("form", ["a record a row", "a triple a row"])
def test_shards_of_any_size_hold_the_same_rows_of_csv(form: str, sign: bytes, tmp_path: Path) -> None:
    """Rows that span lines, unreadable lines, an open quote, and a rejected line within a row."""
    if form == "a record a row":
        lines = [b"\xef\xbb\xbfid,Made In,note", *(b'r%d,"in\n\n%d",x' % (n, n) for n in range(100))]
    else:
        lines = [b"\xef\xbb\xbfid,Subject,predicate,object"]
        lines += [b'r%d,s,%s,"x\n%d"' % (n, name, n) for n in range(100) for name in (b"area", b"food")]
    lines[21:21] = [
        b"",
        b"too,few",
        b'r,"a\n\0nul\nb",x' if len(lines) < 150 else b'r,s,p,"a\n\0nul\nb"',
        b'"open"x',
        b"\xff,s,p,o",
    ]
    (tmp_path / "in.csv").write_bytes(b"\n".join(lines).replace(b",", sign))
    whole = of_any_size(tmp_path / "in.csv", 105)
    assert whole[-1]["id"] == "r99" and whole[-1]["triples"][0]["object"].endswith("99")
    errors = [row["error"] for row in whole if row.get("error")]
    assert len(errors) == 4 and [row["id"] for row in whole].count("r") == 1


def test_ids_are_compared_by_partitions_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_jsonl(tmp_path / "in.jsonl", [*numbered_records(30), *numbered_records(3), *numbered_records(31)])
    monkeypatch.setattr(shards_module, "HASHES_PER_BLOCK", 4)
    duplicates = {row: where for shard in shards_of(path, tmp_path) for row, where in shard.duplicates}
    assert duplicates == {row: f"{path}, line {(row - 30) % 3 + 1 if row < 33 else row - 32}" for row in range(30, 63)}
    files = find_inputs(str(path), 4, unique=False)
    uncompared = plan_shards(prepare_inputs(files, Folder(str(tmp_path))), 4, "{}", unique=False)
    assert not any(shard.duplicates for shard in uncompared) and len(rows_of(uncompared)) == 64


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_memory_does_not_grow_with_the_input(kind: str, tmp_path: Path) -> None:
    peaks = []
    for count in (1000, 8000):
        path = tmp_path / f"{count}.{kind}"
        if kind == "csv":
            lines = (f"{number % (count // 2)},Aromi,p{number},o" for number in range(count))
            path.write_text("id,subject,predicate,object\n" + "\n".join(lines))
        else:
            lines = (json.dumps({"id": str(number), "triples": TRIPLES}) for number in range(count))
            path.write_text("\n".join(lines))
        tracemalloc.start()
        shards_of(path, tmp_path / f"work-{count}", 64)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 200_000  # the records of the longer input take several megabytes
