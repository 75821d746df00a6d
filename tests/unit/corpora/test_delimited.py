"""Valid and invalid rows of CSV files."""

from __future__ import annotations

import io

import pytest

from agggen.corpora.delimited import NEEDED, read_rows
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError


def read(content: str | bytes) -> list[tuple[int, list[str] | str]]:
    """The line of each row with its cells, or with the reason of its reject."""
    data = content.encode() if isinstance(content, str) else content
    items = read_rows(io.BytesIO(data), "mine.csv", NEEDED)
    return [
        (item.line or 0, item.reason) if isinstance(item, Reject) else (item[0], list(item[1].values()))
        for item in items
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "mine.csv is empty"),
        ("\n\n", "has no header; its first line must name subject, predicate, object"),
        (
            "id,subject,pred\n1,a,b\n",
            "line 1: no column predicate, object; it needs subject, .* and has id, subject, pred",
        ),
        (b"subject,predicate,object\na,b,\xff\n", "line 2: not UTF-8"),
    ],
)
def test_invalid_files_raise_errors(content: str | bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read(content)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("A,b,c\n\nA,b\n", [(2, ["A", "b", "c"]), (4, "2 fields where the header has 3")]),
        (
            "A,b," + "x" * 200_000 + "\nB,b,c\n",
            [(2, "not valid CSV: field larger than field limit (131072)"), (3, ["B", "b", "c"])],
        ),
        # an unclosed quote
        (
            'A,b,c\nB,b,"c\nC,b,c\n',
            [(2, ["A", "b", "c"]), (3, "not valid CSV: unexpected end of data (lines 3 to 4)")],
        ),
    ],
)
def test_an_invalid_row_is_rejected_with_its_line(rows: str, expected: list[tuple[int, list[str] | str]]) -> None:
    assert read("Subject , predicate,object\n" + rows) == expected
