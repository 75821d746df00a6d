"""CSV: rows as dictionaries with their line numbers, and the user's own records with one triple a row.

A user's file has the columns ``subject``, ``predicate``, ``object``; ``id`` groups rows into records (without it all
rows of one subject form a record), ``text`` holds reference texts, ``category`` the record's category::

    id,subject,predicate,object,text
    1,Aromi,eatType,restaurant,Aromi is an English restaurant.
    1,Aromi,food,English,
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from agggen.corpora.lines import Source, open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.records import Record, Reference, Triple

Row = tuple[int, dict[str, str]]
"""The number of a row's first line, and its fields by column name."""


def read_rows(stream: BinaryIO, name: str, needed: tuple[str, ...], delimiter: str = ",") -> Iterator[Row | Reject]:
    """Yields the rows of a CSV with a header; column names are compared in lower case. Empty lines are skipped.

    Raises:
        CorpusError: the stream is empty, is not UTF-8, or lacks one of the columns `needed`.
    """
    pending: list[Reject] = []
    first = last = 0

    def lines() -> Iterator[str]:
        nonlocal first, last
        for item in read_lines(stream, name):
            if isinstance(item, Reject):
                pending.append(item)
                continue
            last = item[0]
            first = first or last
            yield item[1]

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        first = 0
        try:
            row = next(reader, None)
        except csv.Error as error:
            # An unclosed quote swallows lines up to the csv module's field limit (131,072 characters), so say which.
            where = f" (lines {first} to {last})" if last > first else ""
            pending.append(Reject(name, first, None, f"not valid CSV: {error}{where}"))
            row = []
        yield from pending
        pending.clear()
        if row is None:
            break
        if not row:
            continue
        if header is None:
            header = [column.strip().lower() for column in row]
            if missing := [column for column in needed if column not in header]:
                raise CorpusError(
                    f"{name}, line {first}: no column {', '.join(missing)}; it needs {', '.join(needed)} "
                    f"and has {', '.join(header)}"
                )
        elif len(row) != len(header):
            yield Reject(name, first, None, f"{len(row)} fields where the header has {len(header)}")
        else:
            yield first, dict(zip(header, row, strict=True))
    if header is None:
        raise CorpusError(f"{name} holds no header; its first line must name {', '.join(needed)}")


@dataclass(slots=True)
class _Group:
    line: int
    triples: list[Triple] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    category: str | None = None


def read_csv(source: Source, name: str | None = None, delimiter: str = ",") -> Iterator[Record | Reject]:
    """Reads the user's own records; rows of one record need not be contiguous, records come in order of appearance.

    One bad row rejects its whole record: a record must not silently lose a triple.

    Raises:
        CorpusError: the file is missing, empty, not UTF-8, or lacks subject, predicate or object.
    """
    groups: dict[str, _Group] = {}
    bad: set[str] = set()
    with open_source(source, name) as (stream, label):
        for item in read_rows(stream, label, ("subject", "predicate", "object"), delimiter):
            if isinstance(item, Reject):
                yield item
                continue
            line, row = item
            identifier = (row["id"] if "id" in row else row["subject"]).strip()
            try:
                if not identifier:
                    raise RecordError("the id is empty")
                triple = Triple(row["subject"], row["predicate"], row["object"])
            except RecordError as error:
                bad.add(identifier)
                yield Reject(label, line, identifier or None, str(error))
                continue
            group = groups.setdefault(identifier, _Group(line))
            if triple not in group.triples:  # a row may repeat the triple to bring a further text
                group.triples.append(triple)
            if (text := row.get("text", "").strip()) and text not in group.texts:
                group.texts.append(text)
            group.category = group.category or row.get("category", "").strip() or None
    for identifier, group in groups.items():
        if identifier in bad:
            yield Reject(label, group.line, identifier, "another row of this record was rejected")
            continue
        try:
            references = tuple(Reference(text) for text in group.texts)
            yield Record(identifier, tuple(group.triples), references, group.category)
        except AggGenError as error:
            yield Reject(label, group.line, identifier, str(error))
