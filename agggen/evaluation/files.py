"""Reads files for scoring: JSON objects; texts as plain lines, or as JSON lines with ids.

These functions raise CorpusError at the first invalid line, since a score of only a part of the texts would mislead.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agggen.corpora.lines import open_source, read_lines, read_values
from agggen.corpora.rejects import without_rejects
from agggen.errors import CorpusError


def json_objects(source: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the 1-based number and the object of each non-blank line."""
    with open_source(source) as (stream, name):
        for line, value in without_rejects(read_values(stream, name)):
            if not isinstance(value, Mapping):
                raise CorpusError(f"{name}, line {line}: must be a JSON object, not {type(value).__name__}")
            yield line, value


def read_texts(source: Path, ids: Sequence[str], records_name: object) -> list[str]:
    """The texts of `source`, in the order of the records' `ids`; `records_name` names the records in error messages.

    A ``.jsonl`` file has objects with "id" and "text" in any order, like the output of `agggen generate` and a report's
    records.jsonl. Other files have one text per line in the order of the records; a blank line is an empty text.
    Raises CorpusError, with the line, if a record has no text or several.
    """
    if source.suffix.lower() == ".jsonl":
        return _texts_by_id(source, ids, records_name)
    with open_source(source) as (stream, name):
        texts = [text.rstrip("\r\n") for _, text in without_rejects(read_lines(stream, name))]
    if len(texts) < len(ids):
        raise CorpusError(f"{source} ends after line {len(texts)}, but {records_name} has {len(ids)} records")
    if len(texts) > len(ids):
        blank = "; that line is blank" if not texts[len(ids)].strip() else ""
        reason = f"no record for this line; {records_name} has {len(ids)} records"
        raise CorpusError(f"{source}, line {len(ids) + 1}: {reason}{blank} ({source} has {len(texts)} lines)")
    return texts


def _texts_by_id(source: Path, ids: Sequence[str], records_name: object) -> list[str]:
    known_ids = set(ids)
    texts: dict[str, tuple[int, str]] = {}
    for line, data in json_objects(source):
        value, text = data.get("id"), data.get("text")
        if isinstance(value, bool) or not isinstance(value, str | int) or not isinstance(text, str):
            raise CorpusError(f"{source}, line {line}: needs an 'id' (string or integer) and a 'text' (string)")
        record_id = str(value).strip()
        if record_id not in known_ids:
            raise CorpusError(f"{source}, line {line}, id {record_id!r}: {records_name} has no such record")
        if record_id in texts:
            raise CorpusError(f"{source}, line {line}, id {record_id!r}: line {texts[record_id][0]} has the same id")
        texts[record_id] = line, text
    if missing := [record_id for record_id in ids if record_id not in texts]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CorpusError(f"{source} has no text for record {missing[0]!r}{more} of {records_name}")
    return [texts[record_id][1] for record_id in ids]
