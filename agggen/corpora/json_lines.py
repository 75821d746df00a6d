"""Reads users' records from JSON lines, with triples (`Record.of`) or with a key for each predicate.

    {"id": "1", "triples": [["Aromi", "food", "English"]], "references": ["Aromi serves English food."]}
    {"id": "1", "name": "Aromi", "food": "English", "text": "Aromi serves English food."}

The subject ``""`` means that a triple has no subject; null is an error in every part of a triple.
"""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from agggen.corpora.lines import DecodeErrors, Source, open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.corpora.tables import record_of_row
from agggen.records import Record


def read_jsonl(source: Source, name: str | None = None) -> Iterator[Record | Reject]:
    """Reads a path or an open binary stream; the default id of a record is its line number.

    A line that is not JSON or not a valid record, or that repeats an id, is a Reject.
    """
    line_of_id: dict[str, int] = {}
    with open_source(source, name) as (stream, label):
        for item in read_values(stream, label):
            if isinstance(item, Reject):
                yield item
                continue
            line, value = item
            try:
                record = record_of_row(value, str(line))
            except ValueError as error:  # a RecordError or PlanError
                yield Reject(label, line, None, str(error))
                continue
            if record.id in line_of_id:
                yield Reject(label, line, record.id, f"line {line_of_id[record.id]} has the same id")
            else:
                line_of_id[record.id] = line
                yield record


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
