"""Files to be scored: records as JSON lines; texts one a line, or as JSON lines with ids.

Unlike the readers of corpora these set nothing aside: a score over a part of the input is no score, so the first thing
that is wrong ends the reading, with its file and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agggen.corpora.json_lines import read_values
from agggen.corpora.lines import open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError, PlanError, RecordError
from agggen.records import Record


def json_objects(source: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line number from 1, object) of each line that is not blank.

    Raises:
        CorpusError: the file is missing, empty or not UTF-8, or a line is no JSON object; names the line.
    """
    with open_source(source) as (stream, name):
        for item in read_values(stream, name):
            if isinstance(item, Reject):
                raise CorpusError(f"{item.file}, line {item.line}: {item.reason}")
            line, value = item
            if not isinstance(value, Mapping):
                raise CorpusError(f"{name}, line {line}: must be a JSON object, not {type(value).__name__}")
            yield line, value


def read_scored_records(source: Path) -> list[Record]:
    """The records of a JSON-lines file, each with references to score against.

    Raises:
        CorpusError: the file cannot be read, or a line is no record, repeats an id, or has no reference text.
    """
    seen: dict[str, int] = {}
    records: list[Record] = []
    for line, data in json_objects(source):
        try:
            record = Record.of(data, str(line))
        except (RecordError, PlanError) as error:
            raise CorpusError(f"{source}, line {line}: {error}") from error
        if record.id in seen:
            raise CorpusError(f"{source}, line {line}, record {record.id!r}: line {seen[record.id]} has the same id")
        if not record.references:
            raise CorpusError(
                f"{source}, line {line}, record {record.id!r}: there is no reference text to score against"
            )
        seen[record.id] = line
        records.append(record)
    if not records:
        raise CorpusError(f"{source} holds no record")
    return records


def read_texts(source: Path, ids: Sequence[str], records_name: object) -> list[str]:
    """One text a record, in the order of the records.

    A file ``.jsonl`` has objects with "id" and "text" in any order, as `agggen generate` writes them and a report's
    records.jsonl has them; any other has one text a line in the order of the records, and there a blank line is an
    empty text.

    Args:
        ids: of the records.
        records_name: where they come from, for messages.

    Raises:
        CorpusError: the file is missing, empty or not UTF-8, or has not exactly one text for each record; names the
            line.
    """
    if source.suffix.lower() == ".jsonl":
        return _texts_by_id(source, ids, records_name)
    texts = [text.rstrip("\r\n") for _, text in _lines(source)]
    if len(texts) < len(ids):
        raise CorpusError(f"{source} ends after line {len(texts)}, but {records_name} has {len(ids)} records")
    if len(texts) > len(ids):
        blank = "; that line is blank" if not texts[len(ids)].strip() else ""
        beyond = f"there is no record for this line; {records_name} has {len(ids)} of them"
        raise CorpusError(f"{source}, line {len(ids) + 1}: {beyond}{blank} ({source} has {len(texts)} lines)")
    return texts


def _texts_by_id(source: Path, ids: Sequence[str], records_name: object) -> list[str]:
    known = set(ids)
    found: dict[str, tuple[int, str]] = {}
    for line, data in json_objects(source):
        name, text = data.get("id"), data.get("text")
        if isinstance(name, bool) or not isinstance(name, str | int) or not isinstance(text, str):
            raise CorpusError(f"{source}, line {line}: needs an 'id' and a 'text'")
        name = str(name).strip()
        if name not in known:
            raise CorpusError(f"{source}, line {line}, id {name!r}: {records_name} has no such record")
        if name in found:
            raise CorpusError(f"{source}, line {line}, id {name!r}: line {found[name][0]} has the same id")
        found[name] = line, text
    if missing := [name for name in ids if name not in found]:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise CorpusError(f"{source} has no text for record {missing[0]!r}{more} of {records_name}")
    return [found[name][1] for name in ids]


def _lines(source: Path) -> Iterator[tuple[int, str]]:
    with open_source(source) as (stream, name):
        for item in read_lines(stream, name):
            if isinstance(item, Reject):
                raise CorpusError(f"{item.file}, line {item.line}: {item.reason}")
            yield item
