"""CSV files: rows with their line numbers, and users' records with one triple per row.

A user's file has the columns ``subject``, ``predicate`` and ``object``; optional are ``id``, which groups rows into
records (by default, rows with the same subject), ``text`` for reference texts, and ``category``. An empty subject means
that there is none; then an id is required::

    id,subject,predicate,object,text
    1,Aromi,eatType,restaurant,Aromi is an English restaurant.
    1,Aromi,food,English,
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from agggen.corpora.lines import Source, Undecodable, open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.records import Record, Reference, Triple

NEEDED = ("subject", "predicate", "object")
"""The required columns of a user's file."""

Row = tuple[int, dict[str, str]]
"""The number of a row's first line, and its fields by column."""


def delimiter_of(path: Path) -> str:
    """What a file separates its columns with; see `delimiter_in`."""
    with open_source(path) as (stream, _):
        return delimiter_in(stream.readline(1 << 20))


def delimiter_in(header: bytes) -> str:
    """What the first line of a file separates its columns with: comma, semicolon or tab, whichever is most frequent."""
    return max(",;\t", key=lambda sign: header.count(sign.encode()))


def read_rows(
    stream: BinaryIO,
    name: str,
    needed: tuple[str, ...],
    delimiter: str = ",",
    exact: bool = False,
    undecodable: Undecodable = "raise",
    header: list[str] | None = None,
    line: int = 1,
) -> Iterator[Row | Reject]:
    """Yields the rows of a CSV with a header; column names are compared in lower case. Empty lines are skipped.

    Args:
        exact: column names keep their case and are all different.
        header: the column names, where the stream is a part of a file; an empty list receives those of the stream.
        line: the number of the stream's first line, where it is a part of a file.

    Raises:
        CorpusError: the stream is empty, is not UTF-8 where that is to `raise`, lacks one of the columns `needed`, or
            has two of one name.
    """
    pending: list[Reject] = []
    first = last = 0

    def lines() -> Iterator[str]:
        nonlocal first, last
        for item in read_lines(stream, name, undecodable=undecodable, first=line):
            if isinstance(item, Reject):
                pending.append(item)
                continue
            last = item[0]
            first = first or last
            yield item[1]

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    header = [] if header is None else header
    while True:
        first = 0
        try:
            row = next(reader, None)
        except csv.Error as error:
            # An unclosed quote consumes lines up to the csv module's field limit (131,072 characters).
            where = f" (lines {first} to {last})" if last > first else ""
            pending.append(Reject(name, first, None, f"not valid CSV: {error}{where}"))
            row = []
        yield from pending
        pending.clear()
        if row is None:
            break
        if not row:
            continue
        if not header:
            header[:] = [column.strip() if exact else column.strip().lower() for column in row]
            if exact and (twice := [column for column in header if column and header.count(column) > 1]):
                raise CorpusError(f"{name}, line {first}: two columns are called {twice[0]!r}; give each its own name")
            if missing := [column for column in needed if column not in header]:
                raise CorpusError(
                    f"{name}, line {first}: no column {', '.join(missing)}; it needs {', '.join(needed)} "
                    f"and has {', '.join(header)}"
                )
        elif len(row) != len(header):
            yield Reject(name, first, None, f"{len(row)} fields where the header has {len(header)}")
        else:
            yield first, dict(zip(header, row, strict=True))
    if not header:
        raise CorpusError(f"{name} has no header; its first line must name {', '.join(needed)}")


def identifier_of(row: Mapping[str, str]) -> str:
    """The id of a row's record: its id, or its subject if the file has no ids; may be empty."""
    return (row["id"] if "id" in row else row["subject"]).strip()


@dataclass(slots=True)
class RowGroup:
    """Accumulates the rows of one record."""

    identifier: str
    line: int = 0
    """Of the first valid row."""
    triples: list[Triple] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    category: str | None = None
    plan: str | None = None
    bad: bool = False
    """Whether a row is invalid."""

    def take(self, line: int, row: Mapping[str, str]) -> None:
        """Adds a row.

        Raises:
            RecordError: the row has no valid triple or no id.
        """
        try:
            if not self.identifier:
                raise RecordError("the id is empty")
            triple = Triple(row["subject"], row["predicate"], row["object"])
        except RecordError:
            self.bad = True
            raise
        self.line = self.line or line
        if triple not in self.triples:  # a row may repeat a triple to add a text
            self.triples.append(triple)
        if (text := row.get("text", "").strip()) and text not in self.texts:
            self.texts.append(text)
        self.category = self.category or row.get("category", "").strip() or None
        self.plan = self.plan or row.get("plan", "").strip() or None

    def record(self) -> Record:
        """The record of all rows. An invalid row invalidates the record, which would otherwise lack a triple.

        Raises:
            AggGenError: a row or the record is invalid.
        """
        if self.bad:
            raise RecordError("another row of this record was rejected")
        references = tuple(Reference(text) for text in self.texts)
        return Record(self.identifier, tuple(self.triples), references, self.category)


def read_csv(source: Source, name: str | None = None, delimiter: str = ",") -> Iterator[Record | Reject]:
    """Reads users' records. Rows of a record need not be contiguous; records are in the order of their first rows.

    A record with an invalid row is rejected.

    Raises:
        CorpusError: the file is missing, empty, not UTF-8, or lacks subject, predicate or object.
    """
    groups: dict[str, RowGroup] = {}
    with open_source(source, name) as (stream, label):
        for item in read_rows(stream, label, NEEDED, delimiter):
            if isinstance(item, Reject):
                yield item
                continue
            line, row = item
            identifier = identifier_of(row)
            try:
                groups.setdefault(identifier, RowGroup(identifier)).take(line, row)
            except RecordError as error:
                yield Reject(label, line, identifier or None, str(error))
    for group in sorted((group for group in groups.values() if group.triples), key=lambda group: group.line):
        try:
            yield group.record()
        except AggGenError as error:
            yield Reject(label, group.line, group.identifier, str(error))
