"""Lines, CSV rows and records as JSON lines: bounded memory, NUL bytes, encodings, invalid lines; rejects."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agggen.corpora.lines import MAX_LINE_BYTES, TRIPLE_COLUMNS, read_lines, read_rows
from agggen.corpora.rejects import Reject, check_reject_share, split_rejects, write_rejects
from agggen.corpora.tables import read_jsonl
from agggen.errors import CorpusError
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
        (
            f"A,b,{'x' * 200_000}\nB,b,c\n",
            [(2, "not valid CSV: field larger than field limit (131072)"), (3, "B b c")],
        ),
        (
            'A,b,c\nB,b,"never closed\nC,b,c\n',
            [(2, "A b c"), (3, "not valid CSV: unexpected end of data (lines 3 to 4)")],
        ),
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
