"""Input files of every format become rows in order, with line numbers; invalid records have reasons."""

import json
import tracemalloc
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        path.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]))
    else:
        path.write_text("\n".join(map(json.dumps, rows)))


def rows_of(shards: list[Shard]) -> list[dict[str, Any]]:
    return [row for s in shards for _, rows in read_records(s, 100) for row in rows]


def ids_or_errors(rows: list[dict[str, Any]]) -> list[tuple[int | None, str]]:
    """(line, id or error message) of each row."""
    results = []
    for row in rows:
        try:
            results.append((row.get("line"), read_record(row)[0].id))
        except AggGenError as error:
            results.append((row.get("line"), str(error)))
    return results


HEADER = b"id,subject,predicate,object"
SHORT = [b"1,Aromi,food,Thai", b"1,Aromi,area", b"2,Bibi,food,Thai"]  # row 2 is incomplete, so record 1 is invalid
FILMS = [
    {"id": "a", "title": "Alien", "Made In": "1979", "text": "Alien is of 1979."},
    {"id": "b", "title": "Heat", "Made In": "1995", "text": ""},
    {"id": "c", "title": "Ran", "Made In": "", "text": "No value."},
]
FILM_LINES = [",".join(row).encode() for row in [FILMS[0].keys(), *(film.values() for film in FILMS)]]
JSON_LINES = [
    json.dumps({"id": "a", "triples": TRIPLES}).encode(),
    b"{no json",
    json.dumps({"triples": TRIPLES, "references": ["Aromi is English."]}).encode(),
    b'{"id": "b", "triples": []}',
    b'{"id": "d", "triples": [["a", "b", "c"]], "note": 1}',
    b'{"id": "e\\ud800", "triples": [["a", "b", "c"]]}',
    b'{"id": "f", "triples": [["a", "b", "\xe7"]]}',
]
LONG = [json.dumps({"triples": TRIPLES, "category": "é"}, ensure_ascii=False).encode() for _ in range(150)]
for position, line in ((0, b"\xef\xbb\xbf"), (7, b""), (8, b"\xe2\x80\x83"), (20, b"\0"), (64, b"\r"), (149, b"")):
    LONG.insert(position, line)
# Rows that span lines, unreadable lines, an open quote, and a rejected line within a row.
UNREADABLE = [b"", b"too,few", b'r,"a\n\0nul\nb",x', b'"open"x', b"\xff,s,p,o"]
WIDE = [b"\xef\xbb\xbfid,Made In,note", *(b'r%d,"in\n\n%d",x' % (n, n) for n in range(100))]
WIDE[21:21] = UNREADABLE
ROWS = [b'r%d,s,%s,"x\n%d"' % (n, name, n) for n in range(100) for name in (b"area", b"food")]
ROWS[20:20] = [line.replace(b'r,"a', b'r,s,p,"a').replace(b",x", b"") for line in UNREADABLE]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("in.jsonl", JSON_LINES),
        ("in.jsonl", LONG),
        ("in.jsonl", [json.dumps({key: value for key, value in film.items() if value}).encode() for film in FILMS]),
        ("in.csv", [*FILM_LINES, b"\xff,Caf\xe9,1999,"]),
        ("in.csv", [line.replace(b",", b";") for line in FILM_LINES]),
        ("in.csv", WIDE),
        ("in.csv", [line.replace(b",", b";") for line in WIDE]),
        ("in.csv", [b"\xef\xbb\xbf" + HEADER, *ROWS]),
        ("in.csv", [line.replace(b",", b";") for line in (HEADER, *ROWS)]),
        ("in.csv", [HEADER, b"1,a,p,Fran\xe7ais", b"1,a,q,", b"2,b,p,o", b"\xff,c,p,o"]),
        ("in.csv", [HEADER, SHORT[0], SHORT[1], SHORT[2]]),
        ("in.csv", [HEADER, SHORT[1], SHORT[0], SHORT[2]]),
        # Rows of a record that are not consecutive: the driver copies the file.
        ("copied.csv", [HEADER, SHORT[0], SHORT[2], SHORT[1]]),
        ("copied.csv", [HEADER, SHORT[1], SHORT[2], SHORT[0]]),
        ("copied.csv", [HEADER, b"1,a,p,o", b"2,b,p,", b'3,c,p,"o\no"', b"1,a,q,o", b"2,b,q,o", b",d,p,o", b"3,c,q,o"]),
    ],
)
def test_shards_of_any_size_have_the_rows_that_are_read_in_memory(
    name: str, lines: list[bytes], tmp_path: Path
) -> None:
    """Invalid records have the same reasons as in memory; a record with several has one reject."""
    path, work = tmp_path / name, tmp_path / "work"
    path.write_bytes(b"\n".join(lines))
    table = read_file(path)
    expected = [(record.id, record.triples) for record in chain.from_iterable(table.records.values())]
    reasons = {reject.line: reject.reason for reject in table.rejects}
    all_rows = rows_of(shards_of(path, work, 1000))
    for shard_rows in (1, 7, 64):
        shards = shards_of(path, work, shard_rows)
        firsts = [shard.first for shard in shards]
        assert firsts == [0, *(shard.first + shard.rows for shard in shards[:-1])]
        assert len(firsts) > 0.6 * len(all_rows) / shard_rows
        assert rows_of(shards) == all_rows
    valid, invalid = ([row for row in all_rows if bool(row.get("error")) is wrong] for wrong in (False, True))
    assert [(record.id, record.triples) for record, _ in map(read_record, valid)] == expected
    assert all(row["error"].startswith(reasons[row["line"]]) for row in invalid)
    rejected = {row["line"] for row in invalid} | {row["id"] for row in invalid}
    assert all({reject.line, reject.id} & rejected for reject in table.rejects)
    assert work.exists() == (name == "copied.csv")


PLANNED = [HEADER + b",plan", b"1,a,p,b,[\xff]", b"2,a,p,b,[p]", b"1,a,q,c,"]


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        (
            "in.jsonl",
            [
                b'{"id": "a", "triples": [["s", "p", "o"]], "plan": "[p]"}',
                b'{"id": "c", "triples": [["s", "p", "o"]], "plan": 7}',
                b"[1]",
            ],
            [(1, "a [p]"), (2, "a plan must be written as a string, not as int"), (3, "a record must be an object")],
        ),
        ("in.csv", [PLANNED[n] for n in (0, 1, 3, 2)], [(2, "not UTF-8: byte 0xff in '[\\udcff]'"), (4, "2 [p]")]),
        ("in.csv", PLANNED, [(2, "not UTF-8: byte 0xff in '[\\udcff]'"), (3, "2 [p]")]),
        ("in.csv", [b"id,title,year,plan", b"a,Alien,1979,[year]", b"b,Heat,1995,"], [(2, "a [year]"), (3, "b None")]),
    ],
)
def test_a_record_may_have_a_plan(
    name: str, lines: list[bytes], expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"\n".join(lines))
    rows = sorted(rows_of(shards_of(tmp_path / name, tmp_path / "work")), key=lambda row: row["line"])
    for row, (line, result) in zip(rows, expected, strict=True):
        assert row["line"] == line
        assert (row.get("error") or f"{row['id']} {row['plan']}").startswith(result)


def test_shards_are_multiples_of_64_records_by_default(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "in.jsonl", numbered_records(150))
    shards = plan_shards(prepare_inputs(find_inputs(str(path)), Folder(str(tmp_path))), 149, "{}")
    assert [shard.rows for shard in shards] == [128, 22]


TRIPLE = [{"subject": "Aromi", "predicate": "food", "object": "English"}]
YEARS = [{"ID": 7, "year": 1979}, {"ID": 8, "year": 1980}, {"ID": " 7 ", "year": 1981}]
INVALID = [{"id": "a", "triples": []}, {"id": "a", "triples": TRIPLES, "plan": "[food"}]


@pytest.mark.parametrize(
    ("name", "rows", "duplicate"),
    [
        ("in.csv", YEARS, 2),
        ("in.jsonl", [*YEARS, {"ID": {}, "a": 1}], 2),
        ("in.jsonl", [*INVALID, {"id": "a", "triples": TRIPLES}, {"id": " a ", "triples": TRIPLES}], 3),
        ("in.parquet", [{"ID": "1", "id": "a", "triples": TRIPLE}, {"ID": "2", "id": "a", "triples": TRIPLE}], 1),
        ("in.parquet", [{"year": 1979, "id": None}, {"year": 1980, "id": "0"}], 1),  # the first id is the row's number
        ("in.parquet", [{"iD": "a", "year": 1979}, {"iD": "a", "year": 1980}], 1),
        ("in.parquet", [{"ID": "a", "id": "b", "year": 1979}, {"ID": "a", "id": "c", "year": 1980}], 1),
    ],
)
def test_a_valid_row_with_the_id_of_an_earlier_one_is_a_duplicate(
    name: str, rows: list[dict[str, Any]], duplicate: int, tmp_path: Path
) -> None:
    path = tmp_path / name
    write_rows(path, rows)
    (shard,) = shards_of(path, tmp_path / "work")
    first = duplicate - (1 if rows[0] in INVALID else duplicate)
    position = f"row {first}" if name == "in.parquet" else f"line {first + 1 + (name == 'in.csv')}"
    assert shard.duplicates == ((duplicate, f"{path}, {position}"),)


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
    (record,) = numbered_records(1)
    write_records(folder / "c.parquet", [Record(name, record.triples) for name in ("r9", "x")], "x", "y")
    (folder / "rejects.jsonl").write_text("rejects of an earlier job\n")
    shards = shards_of(folder, tmp_path / "work", 3)
    duplicates = {(shard.index, row): where for shard in shards for row, where in shard.duplicates}
    assert [shard.index for shard in shards] == [0, 1, 2, 3]
    assert duplicates == {(2, 1): f"{folder}/a.jsonl, line 3", (3, 0): f"{folder}/b.csv, line 2"}


def test_records_without_ids_get_the_names_of_their_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"triples": TRIPLES}))
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
    path, rows = tmp_path / f"in.{kind}", [{"id": name, "year": 1979} for name in "ab"]
    write_rows(path, rows)
    inputs = find_inputs(str(path), 4)
    files = prepare_inputs(inputs, Folder(str(tmp_path / "work")))
    (shard,) = plan_shards(files, 4, "texts/{}.parquet")
    check_inputs_unchanged(inputs)
    write_rows(path, rows)  # the same size, at another time
    with pytest.raises(JobError, match="changed while it was read"):
        check_inputs_unchanged(inputs)
    if kind == "jsonl":
        with pytest.raises(DamagedError, match="replaced while it was read"):
            rows_of([shard])
    path.unlink()
    with pytest.raises(JobError, match="changed while it was read"):
        check_inputs_unchanged(inputs)


def test_ids_are_compared_by_partitions_or_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        rows: list[dict[str, Any]] = [{"id": str(number), "triples": TRIPLES} for number in range(count)]
        if kind == "csv":  # two rows per record, far apart
            row = {"subject": "Aromi", "object": "o"}
            rows = [row | {"id": str(n % (count // 2)), "predicate": f"p{n}"} for n in range(count)]
        write_rows(path, rows)
        tracemalloc.start()
        shards_of(path, tmp_path / f"work-{count}", 64)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 200_000  # all records of the longer input would take several megabytes
