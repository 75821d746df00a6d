"""The user's own records as JSON lines: one object a line, as `Record.of` reads it.

``{"id": "1", "triples": [["Aromi", "food", "English"]], "references": ["Aromi serves English food."]}``
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from agggen.corpora.lines import Source, open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.records import Record


def read_jsonl(source: Source, name: str | None = None) -> Iterator[Record | Reject]:
    """Reads a path or an open binary stream; a record without an id gets its line number as id.

    Blank lines are skipped. A line that is no JSON, no valid record, or repeats an id is a Reject.

    Raises:
        CorpusError: the file is missing, empty or not UTF-8.
    """
    seen: dict[str, int] = {}
    with open_source(source, name) as (stream, label):
        for item in read_lines(stream, label):
            if isinstance(item, Reject):
                yield item
                continue
            line, text = item
            if not text.strip():
                continue
            record, reason = _parse(text.rstrip(), str(line))
            if record is None:
                yield Reject(label, line, None, reason)
            elif record.id in seen:
                yield Reject(label, line, record.id, f"line {seen[record.id]} has the same id")
            else:
                seen[record.id] = line
                yield record


def _parse(text: str, default_id: str) -> tuple[Record | None, str]:
    try:
        data = json.loads(text)
        if "\\u" in text:  # the only way to half a surrogate pair, which no file can hold
            json.dumps(data, ensure_ascii=False).encode()
        return Record.of(data, default_id), ""
    except json.JSONDecodeError as error:
        return None, f"not JSON at column {error.colno}: {error.msg}"
    except UnicodeEncodeError as error:
        return None, f"holds {error.object[error.start]!r}, half of a surrogate pair and no Unicode character"
    except RecursionError:
        return None, "the JSON is nested too deeply"
    except ValueError as error:  # a RecordError or PlanError, or an integer of thousands of digits
        return None, str(error)
