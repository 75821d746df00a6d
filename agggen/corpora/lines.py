"""Reads the lines of a file or stream, the JSON values in its lines, or its CSV rows, with bounded memory."""

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError

MAX_LINE_BYTES = 10_000_000  # longer lines are rejected without being loaded into memory

DecodeErrors = Literal["raise", "reject", "keep"]
"""What happens to a line that is not UTF-8; ``keep`` decodes invalid bytes as surrogates (``surrogateescape``)."""
TRIPLE_COLUMNS = ("subject", "predicate", "object")  # the required columns of a file with one triple per row
Row = tuple[int, dict[str, str]]  # the number of a row's first line, and its fields by column
Source = Path | str | BinaryIO  # a path, or an open binary stream (standard input)


@contextmanager
def open_source(source: Source, name: str | None = None) -> Iterator[tuple[BinaryIO, str]]:
    """The binary stream of `source`, which stays open if it is a stream, and its name; CorpusError if not readable."""
    if not isinstance(source, Path | str):
        yield source, name or str(getattr(source, "name", "<stream>"))
        return
    try:
        stream = Path(source).open("rb")  # noqa: SIM115 - closed by the `with` below; only opening may fail here
    except OSError as error:
        raise CorpusError(f"cannot read {source}: {error.strerror or error}") from error
    with stream:
        yield stream, name or str(source)


def read_lines(
    stream: BinaryIO, name: str, decode_errors: DecodeErrors = "raise", first_line: int = 1
) -> Iterator[tuple[int, str] | Reject]:
    """Yields (line number, text with its line end), or a Reject for a line with NUL bytes or over `MAX_LINE_BYTES`.

    `first_line` is the line number of the stream's first line in its file. CorpusError is raised if the stream is
    empty, or a line is not UTF-8 and `decode_errors` is ``raise``.
    """
    number = first_line - 1
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (remainder := stream.readline(1 << 20)) and not remainder.endswith(b"\n"):
                pass
            yield Reject(name, number, None, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
            continue
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in line:
            yield Reject(name, number, None, f"the line contains a NUL byte at position {line.index(0) + 1}")
            continue
        try:
            text = line.decode("utf-8", "surrogateescape" if decode_errors == "keep" else "strict")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1})"
            if decode_errors == "raise":
                raise CorpusError(f"{name}, line {number}: {problem}; save the file as UTF-8") from error
            yield Reject(name, number, None, problem)
            continue
        yield number, text
    if number < first_line:
        raise CorpusError(f"{name} is empty")


def read_values(
    stream: BinaryIO, name: str, decode_errors: DecodeErrors = "raise", first_line: int = 1
) -> Iterator[tuple[int, Any] | Reject]:
    """The number and JSON value of each non-blank line, with one line in memory at a time; errors: see `read_lines`."""
    for item in read_lines(stream, name, decode_errors=decode_errors, first_line=first_line):
        if isinstance(item, Reject):
            yield item
            continue
        line, text = item
        if not text.strip():
            continue
        try:
            value = json.loads(text.rstrip())
            if "\\u" in text:  # may be half of a surrogate pair, which cannot be written as UTF-8
                json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError as error:
            reason = f"not JSON at column {error.colno}: {error.msg}"
        except UnicodeEncodeError as error:
            reason = f"contains {error.object[error.start]!r}, half of a surrogate pair and not a Unicode character"
        except ValueError as error:  # a number with too many digits
            reason = str(error)
        except RecursionError:
            reason = "the JSON is nested too deeply"
        else:
            yield line, value
            continue
        yield Reject(name, line, None, reason)


def delimiter_in(header: bytes) -> str:
    """The delimiter of a file: the most frequent of comma, semicolon and tab in its first line."""
    return max(",;\t", key=lambda delimiter: header.count(delimiter.encode()))


def read_rows(
    stream: BinaryIO,
    name: str,
    required: tuple[str, ...],
    delimiter: str = ",",
    decode_errors: DecodeErrors = "raise",
    header: list[str] | None = None,
    first_line: int = 1,
) -> Iterator[Row | Reject]:
    """Yields the rows of a CSV with a header. Empty lines are skipped.

    The reject of a row with the wrong number of fields names the id of its record, if it can be read. Raises
    CorpusError if columns are wrong, and the errors of `read_lines`.

    Args:
        required: required columns, compared in lower case; if there are none, column names must be unique.
        header: the column names, if the stream begins inside a file; an empty list is filled from the first row.
    """
    pending: list[Reject] = []
    row_line = last_line = 0

    def lines() -> Iterator[str]:
        nonlocal row_line, last_line
        for item in read_lines(stream, name, decode_errors=decode_errors, first_line=first_line):
            if isinstance(item, Reject):
                pending.append(item)
                continue
            last_line = item[0]
            row_line = row_line or last_line
            yield item[1]

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    header = [] if header is None else header
    while True:
        row_line = 0
        try:
            row = next(reader, None)
        except csv.Error as error:
            # An unclosed quote consumes lines up to the csv module's field limit (131,072 characters).
            location = f" (lines {row_line} to {last_line})" if last_line > row_line else ""
            pending.append(Reject(name, row_line, None, f"not valid CSV: {error}{location}"))
            row = []
        yield from pending
        pending.clear()
        if row is None:
            break
        if not row:
            continue
        if not header:
            header[:] = [column.strip().lower() if required else column.strip() for column in row]
            if not required and (repeated := [column for column in header if column and header.count(column) > 1]):
                raise CorpusError(f"{name}, line {row_line}: two columns are called {repeated[0]!r}; rename one")
            if missing := [column for column in required if column not in header]:
                columns = f"it needs {', '.join(required)} and has {', '.join(header)}"
                raise CorpusError(f"{name}, line {row_line}: no column {', '.join(missing)}; {columns}")
        elif len(row) != len(header):
            lower_header = [column.lower() for column in header]
            cells = dict.fromkeys(lower_header, "") | dict(zip(lower_header, row, strict=False))
            identifier = identifier_of(cells) if cells.keys() >= set(TRIPLE_COLUMNS) else ""
            yield Reject(name, row_line, identifier or None, f"{len(row)} fields where the header has {len(header)}")
        else:
            yield row_line, dict(zip(header, row, strict=True))
    if not header:
        raise CorpusError(f"{name} has no header; its first line must name {', '.join(required)}")


def identifier_of(row: Mapping[str, str]) -> str:
    """The id of a row's record: its cell in the column id or, without this column, in subject; may be empty."""
    return (row["id"] if "id" in row else row["subject"]).strip()
