"""Lines, CSV rows, records as JSON lines and in Parquet: bounded memory, encodings, invalid and modified files."""

import io
import json
import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.corpora.lines import MAX_LINE_BYTES, TRIPLE_COLUMNS, read_lines, read_rows
from agggen.corpora.prepared import describe, read_records, schema, write_records
from agggen.corpora.rejects import Reject, check_reject_share, split_rejects, write_rejects
from agggen.corpora.tables import read_jsonl
from agggen.errors import CorpusError, RecordError
from agggen.records import Fact, Plan, Record, Reference, Triple


class CountingStream(io.BytesIO):
    """A stream that records the length of its longest read."""

    longest = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.longest = max(self.longest, len(line))
        return line


NUL = Reject("f", 2, None, "the line contains a NUL byte at position 2")


@pytest.mark.parametrize(
    ("content", "items"),
    [
        ("a\nbé\r\nc".encode(), [(1, "a\n"), (2, "bé\r\n"), (3, "c")]),
        (b"\xef\xbb\xbfid\n", [(1, "id\n")]),  # a byte order mark
        (b"a\nb\0c\nd", [(1, "a\n"), NUL, (3, "d")]),
    ],
)
def test_lines_are_numbered_and_keep_their_line_ends(content: bytes, items: list[object]) -> None:
    assert list(read_lines(io.BytesIO(content), "f")) == items


@pytest.mark.parametrize("end", [b"\nnext", b""])
def test_a_long_line_is_rejected_without_reading_all_of_it(end: bytes) -> None:
    stream = CountingStream(b"ok\n" + b"x" * (2 * MAX_LINE_BYTES) + end)
    items = list(read_lines(stream, "f"))
    assert items[1] == Reject("f", 2, None, "the line is longer than 10,000,000 bytes")
    assert items[2:] == ([(3, "next")] if end else [])
    assert stream.longest <= MAX_LINE_BYTES + 1


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("A,b,c\n\nA,b\n", [(2, "A b c"), (4, "2 fields where the header has 3")]),
        (f"A,b,{'x' * 200_000}\nB,b,c\n", [(2, "not valid CSV: field larger than field limit (131072)"), (3, "B b c")]),
        ('A,b,c\nB,b,"open\nC,b,c\n', [(2, "A b c"), (3, "not valid CSV: unexpected end of data (lines 3 to 4)")]),
    ],
)
def test_an_invalid_row_of_a_csv_is_rejected_with_its_line(rows: str, expected: list[tuple[int, str]]) -> None:
    items = read_rows(io.BytesIO(f"Subject , predicate,object\n{rows}".encode()), "mine.csv", TRIPLE_COLUMNS)
    assert expected == [
        (item.line, item.reason) if isinstance(item, Reject) else (item[0], " ".join(item[1].values()))
        for item in items
    ]


def test_rejects_are_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "rejects.jsonl"
    assert write_rejects(path, [Reject("f", 3, None, "bad \ud800"), Reject("g", None, "1", "é")]) == 2
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [
        {"file": "f", "line": 3, "id": None, "reason": "bad \ud800"},
        {"file": "g", "line": None, "id": "1", "reason": "é"},
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["rejects.jsonl"]


def test_too_large_a_share_of_rejects_is_an_error() -> None:
    rejects = [Reject("f.csv", 7, "b", "the ref is empty")]
    check_reject_share(3, rejects, 0.25, "mine")
    check_reject_share(0, [], 0.0, "mine")
    message = r"mine: 1 of 4 .* \(25.0%, at most 20.0% allowed\); the first: f.csv:7: record 'b': the ref is empty"
    with pytest.raises(CorpusError, match=message):
        check_reject_share(3, rejects, 0.2, "mine")


def read(content: str) -> tuple[list[Record], list[Reject]]:
    return split_rejects(read_jsonl(io.BytesIO(content.encode()), "mine.jsonl"))


def test_the_round_trip_of_a_record_is_lossless(tmp_path: Path) -> None:
    reference = Reference("It is old. Big.", (Fact("It is old. ", ("age",)), Fact("Big.")), Plan.parse("[age] [size]"))
    record = Record("é1", (Triple("a", "age", "1"), Triple("a", "size", "2")), (reference, Reference("Hm.")), "City")
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(record.as_dict()) + "\n", encoding="utf-8")
    assert list(read_jsonl(path)) == [record]


def test_a_record_without_an_id_gets_its_line_number() -> None:
    records, rejects = read('{"triples": [["a", "b", "c"]]}\n\n{"triples": [["a", "b", "c"]], "id": 7}\n')
    assert ([record.id for record in records], rejects) == (["1", "7"], [])


VALID = '{"id": "good", "triples": [["a", "b", "c"]]}'


def line_with(**parts: Any) -> str:
    return json.dumps({"id": "x", "triples": [["a", "b", "c"]]} | parts)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON at column 2"),
        ("[]", "a record must be an object"),
        ('{"id": "x"}', "'triples' must be a list"),
        (line_with(triples=[]), "record 'x' has no triples"),
        (line_with(triples=[["a", "b"]]), "record 'x': a triple needs 3 parts .* this has 2"),
        (line_with(triples=[["a", "b", ""]]), "the triple's object is empty"),
        (line_with(triples=[["a", "b", "c\0"]]), "control character"),
        (line_with(triples=[["a", "b", "c\ud800"]]), r"contains '\\ud800', half of a surrogate pair"),
        ('{"id": "x", "tripels": []}', "unknown key 'tripels'"),
        (line_with(references="A text."), "'references' must be a list, not str"),
        (line_with(references=[["A text."]]), "a reference must be a string or an object with 'text'"),
        (line_with(references=[{"text": "A", "plan": ["b"]}]), "written as a string"),
        (line_with(references=[{"text": "A", "plan": "[d]"}]), "names 'd'"),
        (line_with(references=[{"text": "A", "facts": [1]}]), "a fact must be a string or an object with 'text'"),
        (
            line_with(references=[{"text": "A", "facts": [{"text": "A", "predicates": "b"}]}]),
            "'predicates' must be a list",
        ),
        (line_with(category=3), "the category must be a string"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": ' + "9" * 5000 + "}", "integer string conversion"),
        (VALID, "line 1 has the same id"),
    ],
    ids=lambda value: value[:40],
)
def test_an_invalid_line_is_rejected_and_the_other_lines_are_read(line: str, reason: str) -> None:
    records, (reject,) = read(f'{VALID}\n{line}\n{{"id": "last", "triples": [["a", "b", "c"]]}}')
    assert [record.id for record in records] == ["good", "last"]
    assert (reject.file, reject.line) == ("mine.jsonl", 2)
    assert re.search(reason, reject.reason)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(lambda text: text.strip())


@st.composite
def references(draw: st.DrawFn, predicates: tuple[str, ...]) -> Reference:
    pieces = draw(st.lists(TEXT, min_size=1, max_size=3))
    predicate_lists = st.none() | st.lists(st.sampled_from(predicates), max_size=3).map(tuple)
    facts = draw(st.none() | st.tuples(*(st.builds(Fact, st.just(piece), predicate_lists) for piece in pieces)))
    order = tuple(draw(st.permutations(predicates)))
    boundary = draw(st.integers(0, len(order) - 1))
    plan = draw(st.sampled_from([None, Plan(tuple(filter(None, (order[:boundary], order[boundary:]))))]))
    return Reference("".join(pieces), facts, plan)


@st.composite
def records(draw: st.DrawFn) -> Record:
    triples = tuple(draw(st.lists(st.builds(Triple, TEXT, TEXT, TEXT), min_size=1, max_size=4)))
    without_texts = Record("x", triples)
    texts = tuple(draw(st.lists(references(without_texts.predicates), max_size=3)))
    return Record(draw(TEXT), triples, texts, draw(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))


@settings(max_examples=60)
@given(st.lists(records(), max_size=5))
def test_the_round_trip_is_lossless(originals: list[Record]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.parquet"
        assert write_records(path, iter(originals), "mine", "train") == len(originals)
        assert read_records(path) == originals


TEXTS = (Reference("a b", (Fact("a "), Fact("b", ())), Plan.parse('["p q"]')),)
RECORDS = [Record(f"r{number}", (Triple("s", "p q", str(number)),), TEXTS) for number in range(2500)]


def test_the_file_has_the_documented_schema_and_metadata(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_records(path, RECORDS, "mine", "dev")
    assert read_records(path) == RECORDS  # more than one batch
    assert pq.read_schema(path).equals(schema())
    facts = [{"text": "a ", "predicates": None}, {"text": "b", "predicates": []}]
    assert pq.read_table(path).to_pylist()[1] == {
        "id": "r1",
        "corpus": "mine",
        "split": "dev",
        "category": None,
        "triples": [{"subject": "s", "predicate": "p q", "object": "1"}],
        "references": [{"text": "a b", "facts": facts, "plan": '["p q"]'}],
    }
    expected = describe(path)
    assert (expected["format"], expected["corpus"], expected["split"]) == ("1", "mine", "dev")


def modify(path: Path) -> None:
    table = pq.read_table(path)
    changed = table.set_column(0, table.schema.field("id"), pa.array(["changed", *table["id"].to_pylist()[1:]]))
    pq.write_table(changed.replace_schema_metadata(pq.read_metadata(path).metadata), path)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[50:450] = bytes(byte ^ 0xFF for byte in data[50:450])
    path.write_bytes(data)


def write_foreign(**metadata: str) -> Any:
    table = pa.table({"a": [1]}).replace_schema_metadata({f"agggen.{name}": value for name, value in metadata.items()})
    return partial(pq.write_table, table)


METADATA = {"fingerprint": "0", "corpus": "c", "split": "s"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (modify, "was modified after preparation"),
        (damage, "prepare the corpus again"),
        (write_foreign(), "not a prepared corpus"),
        (write_foreign(format="9", **METADATA), "has format 9, not 1"),
        (write_foreign(format="1", **METADATA), "does not have the columns"),
        (lambda path: path.write_text("id,text"), "is not a Parquet file"),
        (Path.unlink, "does not exist; make it with: agggen prepare"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "x.parquet"
    write_records(path, RECORDS, "mine", "dev")
    change(path)
    with pytest.raises(CorpusError, match=message):
        read_records(path)


def test_a_failed_write_leaves_the_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_records(path, RECORDS[:1], "mine", "dev")
    with pytest.raises(RecordError, match=r"record 'bad' contains '\\ud800'"):
        write_records(path, [*RECORDS, Record("bad", (Triple("a\ud800", "b", "c"),))], "mine", "dev")
    assert read_records(path) == RECORDS[:1]
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


def test_the_fingerprint_of_known_records_is_stable(tmp_path: Path) -> None:
    """A changed fingerprint would turn every existing job and run into a new one."""
    triples = (Triple("Café", "food", "English"), Triple("Café", "food", '"x"'))
    cut = Reference("Á b.", (Fact("Á ", ("food",)), Fact("b.")), Plan((("food", "food_2"),)))
    records = [Record("1", triples, (Reference("a"), cut), "C"), Record("2", triples[:1])]
    write_records(tmp_path / "x", records, "c", "s")
    assert describe(tmp_path / "x")["fingerprint"] == "5aa00203630d90d1e9659ed9f35b40582c4ffca7ff501909d305d4d34a5c0bce"
