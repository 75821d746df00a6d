"""Lines and CSV rows: bounded memory, NUL bytes, encodings; the file and the share of rejects."""

import io
import json
from pathlib import Path

import pytest

from agggen.corpora.delimited import TRIPLE_COLUMNS, read_rows
from agggen.corpora.lines import MAX_LINE_BYTES, read_lines
from agggen.corpora.rejects import Reject, check_reject_share, write_rejects
from agggen.errors import CorpusError


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
