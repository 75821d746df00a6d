"""Reads users' records from JSON objects or the rows of a CSV, a Parquet file or a DataFrame, in three forms:

    long    subject, predicate, object        one triple per row; rows with the same id (or subject) form a record
    record  triples, references               see `Record.of`
    wide    any other keys                    one record per row; the other columns are predicates, their cells objects

"Your own data" in agggen/README.md describes them. The columns ``text``, ``text2``, ``reference``, ... contain
reference texts; columns without a name are ignored. A review table (`agggen.report.folder`) has the record form, with
``triples`` as JSON and the text in ``corrected``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any

from agggen.corpora.lines import TRIPLE_COLUMNS, Source, open_source, read_values
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, CorpusError, PlanError, RecordError
from agggen.records import NO_SUBJECT, Record, Reference, Triple, unique_predicates

_TEXT_COLUMN = re.compile(r"(?:text|reference)s?(?:[ _]?\d+)?", re.IGNORECASE)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is not UTF-8 (``surrogateescape``), or an escape in JSON
REJECTED_ROW = "another row of this record was rejected"  # in the long form; the invalid row has its own reject
_SPLIT_SYNONYMS = {"training": "train", "valid": "dev", "validation": "dev", "val": "dev", "development": "dev"}


def split_name(name: str) -> str:
    """``train``, ``dev`` or ``test`` for common names of these splits; other names are unchanged."""
    return _SPLIT_SYNONYMS.get(name.strip().lower(), name.strip())


@dataclass(frozen=True)
class Columns:
    """The columns that are not predicates; None for the default names (see the module's docstring)."""

    id: str | None = None
    subject: str | None = None
    text: Sequence[str] = ()
    split: str | None = None
    category: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)  # predicates by column, if their names differ
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        for role in ("text", "ignore"):
            if isinstance(column := getattr(self, role), str):
                object.__setattr__(self, role, (column,))

    @property
    def names(self) -> set[str]:
        """The names of the columns that the user chose, all of which must exist."""
        names = (self.id, self.subject, self.split, self.category, *self.text, *self.rename, *self.ignore)
        return {name for name in names if name is not None}

    def find(self, row: Mapping[str, Any], role: str, *default_names: str) -> str | None:
        """The key of the row's id, subject, split or category (`role`); None if it has none.

        If the user chose no column, its lower-case names are `default_names`, or `role`.
        """
        if (column := getattr(self, role)) is not None:
            return column if column in row else None
        return next((key for name in default_names or (role,) for key in row if key.lower() == name), None)

    def texts(self, row: Mapping[str, Any]) -> list[str]:
        """The keys of the row's reference texts."""
        return [key for key in row if (key in self.text if self.text else _TEXT_COLUMN.fullmatch(key))]


@dataclass(frozen=True)
class Table:
    """The records of a table by split (None: records without a split), and the rejects."""

    records: dict[str | None, list[Record]]
    rejects: list[Reject]


@dataclass
class _Draft:
    """A record under construction."""

    identifier: str
    line: int
    triples: list[Triple] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    category: str | None = None
    has_all_triples: bool = True  # whether one row has all triples of the record (False in the long form)

    @property
    def numbered_triples(self) -> frozenset[tuple[str, Triple]]:
        """The triples with their unique predicates. The order of different predicates does not matter."""
        predicates = unique_predicates(triple.predicate for triple in self.triples)
        return frozenset(zip(predicates, self.triples, strict=True))


def read_table(items: Iterable[tuple[int, Any] | Reject], label: str, columns: Columns = Columns()) -> Table:
    """Reads numbered rows of any form, or records. An invalid row of the long form rejects its whole record.

    Raises CorpusError if no row has a column that `columns` names.
    """
    drafts: dict[tuple[str | None, Any], _Draft] = {}
    rejects: list[Reject] = []
    seen_columns: set[str] = set()
    rejected_ids: set[str] = set()
    for item in items:
        if isinstance(item, Reject):
            rejects.append(item)
            rejected_ids.add(item.id or "")
            continue
        line, row = item
        identifier, split = "", None
        try:
            if isinstance(row, Record):
                row = row.as_dict()
            if not isinstance(row, Mapping):
                raise RecordError(f"a record must be an object, not {type(row).__name__}")
            row = {str(key): value for key, value in row.items()}
            seen_columns.update(row)
            triple_keys = _triple_columns(row)
            is_long = len(triple_keys) == 3
            if len(triple_keys) == 2 and "triples" not in row:
                (missing,) = set(TRIPLE_COLUMNS) - triple_keys.keys()
                existing_columns = f"it needs {', '.join(TRIPLE_COLUMNS)} and has {', '.join(row)}"
                raise CorpusError(f"{label}: no column {missing}; {existing_columns}")
            identifier = _cell_text(row, columns.find(row, "id") or (triple_keys["subject"] if is_long else None)) or ""
            if cell := _cell_text(row, columns.find(row, "split")):
                split = split_name(cell)
            if is_long and (predicate := _cell_text(row, triple_keys["predicate"]) or "") in columns.rename:
                seen_columns.add(predicate)
            key, row_draft = _draft_of_row(row, line, identifier, columns)
        except (RecordError, PlanError) as error:
            rejects.append(Reject(label, line, identifier or None, str(error)))
            rejected_ids.add(identifier)
            continue
        draft = drafts.setdefault((split, key), row_draft)
        if draft is row_draft:
            continue
        if row_draft.has_all_triples and draft.numbered_triples != row_draft.numbered_triples:
            reason = f"row {draft.line} has the same id but other values"
            rejects.append(Reject(label, line, row_draft.identifier, reason))
            continue
        draft.triples = list(dict.fromkeys(draft.triples + row_draft.triples))
        draft.references = list(dict.fromkeys(draft.references + row_draft.references))
        draft.category = draft.category or row_draft.category
    if unknown := sorted(columns.names - seen_columns):
        raise CorpusError(f"{label} has no column {unknown[0]!r}; it has {', '.join(sorted(seen_columns)) or 'none'}")
    records: dict[str | None, list[Record]] = {}
    for (split, *_), draft in drafts.items():
        try:
            if not draft.has_all_triples and draft.identifier in rejected_ids:
                raise RecordError(REJECTED_ROW)
            record = Record(draft.identifier, tuple(draft.triples), tuple(draft.references), draft.category)
            records.setdefault(split, []).append(record)
        except AggGenError as error:
            rejects.append(Reject(label, draft.line, draft.identifier, str(error)))
    return Table(records, rejects)


def _triple_columns(row: Mapping[str, Any]) -> dict[str, str]:
    """The row's keys for ``subject``, ``predicate`` and ``object`` (long form), without those that it lacks."""
    return {key.lower(): key for key in row if key.lower() in TRIPLE_COLUMNS}


def _cell_text(row: Mapping[str, Any], key: str | None) -> str | None:
    return text_of(row[key]) if key else None


def id_of_row(row: Mapping[str, Any], default_id: str) -> str:
    """The id of the row's record in `record_of_row`; raises RecordError if the id is neither text nor a number."""
    if "triples" in row:
        return str(row.get("id", default_id)).strip()
    return _cell_text(row, Columns().find(row, "id")) or default_id


def record_of_row(row: Any, default_id: str) -> Record:
    """The record of a single object: with ``triples``, or in the wide form; RecordError or PlanError if invalid."""
    if not isinstance(row, Mapping) or "triples" in row or row.keys() <= {"id", "references", "category"}:
        return Record.of(row, default_id)
    if similar_keys := get_close_matches("triples", list(row), 1, 0.8):
        raise RecordError(f"unknown key {similar_keys[0]!r}; did you mean 'triples'?")
    if len(triple_keys := _triple_columns(row)) > 1:
        raise RecordError(
            f"a row with {', '.join(triple_keys.values())} is one triple, not a record; a record here has "
            '"triples": [[subject, predicate, object], ...], or a key for each predicate'
        )
    identifier = id_of_row(row, default_id)
    _, draft = _draft_of_row(row, 0, identifier, Columns())
    return Record(identifier, tuple(draft.triples), tuple(draft.references), draft.category)


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


def _draft_of_row(row: Mapping[str, Any], line: int, identifier: str, columns: Columns) -> tuple[Any, _Draft]:
    """(key that is equal in all rows of the record, draft of the record from this row)."""
    if "triples" in row:
        if "corrected" in row:
            row = _record_form_of_review(row)
        try:
            record_data = {key: _plain_value(value) for key, value in row.items() if key != "split"}
        except RecursionError as error:
            raise RecordError("the row is nested too deeply") from error
        record = Record.of(record_data, identifier or str(line))
        return record.id, _Draft(record.id, line, list(record.triples), list(record.references), record.category)
    texts = columns.texts(row)
    draft = _Draft(identifier, line, category=_cell_text(row, columns.find(row, "category")))
    for key in texts:
        cells = row[key] if _is_list(row[key]) else [row[key]]
        draft.references += [Reference(text) for text in dict.fromkeys(map(text_of, cells)) if text]
    if len(triple_keys := _triple_columns(row)) == 3:
        subject, predicate, value = (_cell_text(row, triple_keys[name]) or "" for name in TRIPLE_COLUMNS)
        if not identifier:
            raise RecordError("the id is empty")
        draft.triples, draft.has_all_triples = [Triple(subject, columns.rename.get(predicate, predicate), value)], False
        return identifier, draft
    name_key = columns.find(row, "subject", "name", "title")
    subject = _cell_text(row, name_key) or NO_SUBJECT
    other_columns = {columns.find(row, role) for role in ("id", "split", "category")}
    other_columns |= {name_key, *texts, *columns.ignore, ""}
    for key, value in row.items():
        if key not in other_columns:
            predicate = columns.rename.get(key, key)
            try:
                draft.triples += [Triple(subject, *pair) for pair in _flattened_values(predicate, value)]
            except RecursionError as error:
                raise RecordError(f"{key!r:.80} is nested too deeply") from error
    draft.triples = list(dict.fromkeys(draft.triples))
    if not draft.triples:
        raise RecordError(f"the row has no value besides {name_key!r}" if subject else "the row has no value")
    draft.identifier = identifier or str(line)
    return identifier or draft.numbered_triples, draft


def _record_form_of_review(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a review table (`agggen.report.folder`) in the record form."""
    try:
        triples = json.loads(row["triples"])
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"'triples' must be a JSON list of [subject, predicate, object]: {error}") from error
    corrected = text_of(row["corrected"])
    record = {"triples": triples, "references": [corrected] if corrected else []}
    return record | ({"id": row["id"]} if row.get("id") else {})


def _plain_value(value: Any) -> Any:
    """A cell of the record form, with arrays as lists and NaN as None; raises RecordError for lone surrogates."""
    if _is_list(value):
        return [_plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain_value(item) for key, item in value.items()}
    if isinstance(value, str):
        _check_decoded(value)
    return None if _is_missing(value) else value


def _flattened_values(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """The predicate and object of each value in `value`, which may be nested."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flattened_values(f"{key}_{name}", inner)
    elif _is_list(value):
        for inner in value:
            if _is_list(inner):
                raise RecordError(f"{key!r} has a list in a list, which is not a value; triples belong under 'triples'")
            yield from _flattened_values(key, inner)
    elif text := text_of(value):
        yield "_".join((text_of(key) or "").split()), text


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0)


def text_of(value: Any) -> str | None:
    """A cell as text: booleans as ``yes`` and ``no``, integral floats without a decimal point; None for an empty cell.

    Raises RecordError if the cell has another type, such as bytes or an object.
    """
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a numpy scalar
    if _is_missing(value):
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, datetime):
        value = value.date() if value.time() == datetime.min.time() else value.isoformat(sep=" ")
    if isinstance(value, int | float | date):
        value = str(value)
    if not isinstance(value, str):
        raise RecordError(f"a cell has the type {type(value).__name__} ({value!r:.60}); it must be text or a number")
    _check_decoded(value)
    return value.strip() or None


def _is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # a comparison with pandas.NA has no truth value
        return True


def _check_decoded(text: str) -> None:
    """Raises RecordError if the text has lone surrogates."""
    if match := _LONE_SURROGATE.search(text):
        code = ord(match.group())
        problem = f"not UTF-8: byte 0x{code & 0xFF:02x}" if 0xDC80 <= code <= 0xDCFF else "half of a surrogate pair"
        raise RecordError(f"{problem} in {text!r:.60}")
