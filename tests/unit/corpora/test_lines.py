"""Lines and rejects: bounded memory, NUL bytes, encodings, the reject file and its share."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from agggen.corpora.lines import open_source, read_lines
from agggen.corpora.rejects import Reject, check_reject_share, write_rejects
from agggen.errors import CorpusError


class CountingStream(io.BytesIO):
    """Records the length of the longest read."""

    longest = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.longest = max(self.longest, len(line))
        return line


def test_lines_are_numbered_and_keep_their_ends() -> None:
    assert list(read_lines(io.BytesIO("a\nbé\r\nc".encode()), "f")) == [(1, "a\n"), (2, "bé\r\n"), (3, "c")]


def test_a_byte_order_mark_is_not_part_of_the_first_line() -> None:
    assert list(read_lines(io.BytesIO(b"\xef\xbb\xbfid\n"), "f")) == [(1, "id\n")]


def test_a_nul_byte_rejects_its_line_only() -> None:
    assert list(read_lines(io.BytesIO(b"a\nb\0c\nd"), "f.txt")) == [
        (1, "a\n"),
        Reject("f.txt", 2, None, "the line contains a NUL byte at position 2"),
        (3, "d"),
    ]


@pytest.mark.parametrize("end", [b"\nnext", b""])
def test_a_long_line_is_rejected_without_being_loaded(end: bytes) -> None:
    stream = CountingStream(b"ok\n" + b"x" * 5_000_000 + end)
    items = list(read_lines(stream, "f", max_bytes=1000))
    assert items[1] == Reject("f", 2, None, "the line is longer than 1,000 bytes")
    assert items[2:] == ([(3, "next")] if end else [])
    assert stream.longest <= 1 << 20


def test_a_passed_stream_stays_open() -> None:
    stream = io.BytesIO(b"a")
    with open_source(stream, "standard input") as (opened, name):
        assert (opened, name) == (stream, "standard input")
    assert not stream.closed


def test_rejects_are_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "rejects.jsonl"
    assert write_rejects(path, [Reject("f", 3, None, "bad \ud800"), Reject("g", None, "1", "é")]) == 2
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {"file": "f", "line": 3, "id": None, "reason": "bad \ud800"}
    assert rows[1] == {"file": "g", "line": None, "id": "1", "reason": "é"}
    assert [file.name for file in tmp_path.iterdir()] == ["rejects.jsonl"]


def test_too_large_a_share_of_rejects_is_an_error() -> None:
    rejects = [Reject("f.csv", 7, "b", "the ref is empty")]
    check_reject_share(3, rejects, 0.25, "mine")
    check_reject_share(0, [], 0.0, "mine")
    with pytest.raises(
        CorpusError, match=r"mine: 1 of 4 records were rejected \(25.0%, at most 20.0% allowed\)"
    ) as error:
        check_reject_share(3, rejects, 0.2, "mine")
    assert "the first: f.csv:7: record 'b': the ref is empty" in str(error.value)
