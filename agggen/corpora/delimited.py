"""Reads the rows of CSV files, with their line numbers."""

import csv
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from agggen.corpora.lines import DecodeErrors, read_lines
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError

TRIPLE_COLUMNS = ("subject", "predicate", "object")  # the required columns of a file with one triple per row

Row = tuple[int, dict[str, str]]  # the number of a row's first line, and its fields by column


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
