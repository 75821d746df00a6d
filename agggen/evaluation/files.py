"""Files to be scored: records as JSON lines, texts one a line.

Unlike the readers of corpora these set nothing aside: a score over a part of the input is no score, so the first thing
that is wrong ends the reading, with its file and line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agggen.corpora.lines import open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError, PlanError, RecordError
from agggen.records import Record


def json_objects(source: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line number from 1, object) of each line that is not blank.

    Raises:
        CorpusError: the file is missing, empty or not UTF-8, or a line is no JSON object; names the line.
    """
    for line, text in _lines(source):
        if not text.strip():
            continue
        place = f"{source}, line {line}"
        try:
            data = json.loads(text)
            if "\\u" in text:  # the only way to half a surrogate pair, which no file can hold
                json.dumps(data, ensure_ascii=False).encode()
        except json.JSONDecodeError as error:
            raise CorpusError(f"{place}: not JSON at column {error.colno}: {error.msg}") from error
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise CorpusError(f"{place}: holds {half!r}, half of a surrogate pair and no Unicode character") from error
        except RecursionError as error:
            raise CorpusError(f"{place}: the JSON is nested too deeply") from error
        except ValueError as error:  # an integer of thousands of digits
            raise CorpusError(f"{place}: {error}") from error
        if not isinstance(data, Mapping):
            raise CorpusError(f"{place}: must be a JSON object, not {type(data).__name__}")
        yield line, data


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


def read_texts(source: Path, records: int, records_name: object) -> list[str]:
    """One text a line, as many as there are records; a blank line is an empty text.

    Args:
        records: how many texts there must be.
        records_name: where they come from, for messages.

    Raises:
        CorpusError: the file is missing, empty or not UTF-8, or has fewer or more lines; names the line.
    """
    texts = [text.rstrip("\r\n") for _, text in _lines(source)]
    if len(texts) < records:
        raise CorpusError(f"{source} ends after line {len(texts)}, but {records_name} has {records} records")
    if len(texts) > records:
        blank = "; that line is blank" if not texts[records].strip() else ""
        beyond = f"there is no record for this line; {records_name} has {records} of them"
        raise CorpusError(f"{source}, line {records + 1}: {beyond}{blank} ({source} has {len(texts)} lines)")
    return texts


def _lines(source: Path) -> Iterator[tuple[int, str]]:
    with open_source(source) as (stream, name):
        for item in read_lines(stream, name):
            if isinstance(item, Reject):
                raise CorpusError(f"{item.file}, line {item.line}: {item.reason}")
            yield item
