"""Rows of a prepared corpus in, the same rows with facts, alignments, offsets and errors out. No files, no Ray.

What cannot be segmented stays as data: a row that is no record, and a reference that has no facts, say why in their
``error``; everything else about them is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from agggen.alignment import align
from agggen.corpora.prepared import schema
from agggen.errors import AggGenError
from agggen.facts import FactSegmenter, segment_each
from agggen.facts.sentences import sentence_starts
from agggen.records import Plan, Record, Reference
from agggen_platform.segmentation.cache import FactCache
from agggen_platform.segmentation.config import AlignmentRule, SegmentationError
from agggen_platform.sharded.shards import bare_record
from agggen_platform.sharded.worker import Tally


def segmented_schema() -> pa.Schema:
    """The columns of ``facts/SPLIT/*.parquet``: a prepared corpus's, and

    row                  its row in the input, counted from 0
    error                why the row is no record, null for a good one
    references[].error   why the reference has no facts, null for a good one
    references[].facts[].start, end
                         where in the text the fact stands, in characters; a fact ends where the next one starts
    """
    prepared = schema()
    fact = pa.struct(
        [
            pa.field("text", pa.string(), nullable=False),
            pa.field("predicates", pa.list_(pa.string())),
            pa.field("start", pa.int32(), nullable=False),
            pa.field("end", pa.int32(), nullable=False),
        ]
    )
    reference = pa.struct(
        [
            pa.field("text", pa.string()),
            pa.field("facts", pa.list_(fact)),
            pa.field("plan", pa.string()),
            pa.field("error", pa.string()),
        ]
    )
    triple = pa.struct([pa.field(name, pa.string()) for name in ("subject", "predicate", "object")])
    columns = [pa.field(name, pa.string()) for name in prepared.names if name not in ("triples", "references")]
    return pa.schema(
        [
            pa.field("row", pa.int64(), nullable=False),
            *columns,
            pa.field("triples", pa.list_(triple)),
            pa.field("references", pa.list_(reference)),
            pa.field("error", pa.string()),
        ]
    )


_HOPELESS = (
    20  # texts in a row on which a segmenter fails before the segmenter is taken to be broken, and not the texts
)


@dataclass(slots=True)
class Counts(Tally):
    """What became of some rows."""

    records: int = 0
    references: int = 0
    facts: int = 0
    rejects: int = 0
    """Rows that are no records, and references without facts."""
    failed: int = 0
    """Different texts that the segmenter failed on, which may be its fault and not theirs."""
    segmented: int = 0
    """Different texts that the segmenter saw, ..."""
    sentences: int = 0
    """... how many sentences they hold, ..."""
    cached: int = 0
    """... and different texts that the cache knew."""
    cache_errors: int = 0


class RowSegmenter:
    """Cuts the references of rows, every different text once."""

    def __init__(
        self,
        segmenter: FactSegmenter,
        cache: FactCache | None = None,
        alignment: AlignmentRule = "normal",
        batch_size: int = 4096,
        duplicates: Mapping[int, int | str] | None = None,
    ) -> None:
        """`duplicates`: the records whose id an earlier record has, and that one's row."""
        self.segmenter, self.cache, self.alignment, self.batch_size = segmenter, cache, alignment, batch_size
        self.duplicates = duplicates or {}
        self.counts = Counts()
        """Of all rows so far."""

    def rows(self, rows: Sequence[dict[str, Any]], first: int) -> list[dict[str, Any]]:
        """The rows as ``segmented_schema`` has them; `first` is the first one's number in the input."""
        read = [self._record(row, number) for number, row in enumerate(rows, start=first)]
        errors: dict[str, str] = {}
        texts = dict.fromkeys(
            reference.text
            for item in read
            if not isinstance(item, str)
            for reference in item[1]
            if isinstance(reference, Reference)
        )
        facts = self._facts(list(texts), errors)
        return [
            self._row(row, item, number, facts, errors)
            for number, (row, item) in enumerate(zip(rows, read, strict=True), start=first)
        ]

    def _record(self, row: dict[str, Any], number: int) -> tuple[Record, list[Reference | str]] | str:
        earlier = self.duplicates.get(number)
        if earlier is None:
            return _record(row)
        return f"the id {row['id']!r} occurs a second time, first in row {earlier}"

    def _facts(self, texts: list[str], errors: dict[str, str]) -> dict[str, tuple[str, ...]]:
        """The facts of each text, or why it has none in `errors`. Texts of like length go to the model together."""
        known = self.cache.get(texts) if self.cache else {}
        unknown = sorted((text for text in texts if text not in known), key=len)
        new: dict[str, tuple[str, ...]] = {}
        for start in range(0, len(unknown), self.batch_size):
            facts, failed = segment_each(self.segmenter, unknown[start : start + self.batch_size])
            new |= facts
            errors |= failed
        if len(errors) == len(unknown) >= _HOPELESS:
            raise SegmentationError(
                f"the segmenter {self.segmenter.name!r} fails on every one of {len(unknown)} texts; on the first with "
                f"{next(iter(errors.values()))}"
            )
        self.counts.failed += len(errors)
        if self.cache:
            self.cache.put(new)
            self.counts.cache_errors, self.cache.errors = self.counts.cache_errors + self.cache.errors, 0
        self.counts.cached += len(known)
        self.counts.segmented += len(unknown)
        self.counts.sentences += sum(1 + sum(1 for _ in sentence_starts(text)) for text in unknown)
        return known | new

    def _row(
        self,
        row: dict[str, Any],
        item: tuple[Record, list[Reference | str]] | str,
        number: int,
        facts: dict[str, tuple[str, ...]],
        errors: dict[str, str],
    ) -> dict[str, Any]:
        new = {name: row.get(name) for name in ("id", "corpus", "split", "category", "triples")}
        raw = row.get("references") or []
        references = [{"text": None, "plan": None} | (reference or {}) for reference in raw]
        if isinstance(item, str):
            self.counts.rejects += 1
            references = [{"text": r["text"], "facts": None, "plan": r["plan"], "error": None} for r in references]
            return new | {"row": number, "references": references, "error": item}
        record, checked = item
        self.counts.records += 1
        filled: list[dict[str, Any]] = []
        for reference, good in zip(references, checked, strict=True):
            error = good if isinstance(good, str) else errors.get(good.text)
            pieces = None if error else self._aligned(record, facts[reference["text"]])
            self.counts.rejects += error is not None
            self.counts.references += error is None
            self.counts.facts += len(pieces or ())
            filled.append({"text": reference["text"], "facts": pieces, "plan": reference["plan"], "error": error})
        return new | {"row": number, "references": filled, "error": None}

    def _aligned(self, record: Record, facts: tuple[str, ...]) -> list[dict[str, Any]]:
        groups: list[list[str]] = [[] for _ in facts]
        if self.alignment != "none":
            for name, fact in zip(record.predicates, align(record, facts, self.alignment).fact_of, strict=True):
                if fact is not None:  # None only where align is told not to complete
                    groups[fact].append(name)
        ends = [0, *accumulate(map(len, facts))]
        return [
            {"text": text, "predicates": None if self.alignment == "none" else names, "start": start, "end": end}
            for text, names, (start, end) in zip(facts, groups, pairwise(ends), strict=True)
        ]


def rejected(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[int, str | None, str]]:
    """Row, id and reason of everything among segmented rows that has an error."""
    for row in rows:
        if row["error"] is not None:
            yield row["row"], row["id"], row["error"]
        for number, reference in enumerate(row["references"] or (), start=1):
            if reference["error"] is not None:
                yield row["row"], row["id"], f"reference {number}: {reference['error']}"


def _record(row: dict[str, Any]) -> tuple[Record, list[Reference | str]] | str:
    """The record without its references and each reference, or what is wrong with either."""
    try:
        record = bare_record(row)
    except AggGenError as error:
        return str(error)
    return record, [_reference(record, reference) for reference in row.get("references") or ()]


def _reference(record: Record, row: dict[str, Any] | None) -> Reference | str:
    try:
        if row is None or row["text"] is None:
            return "the reference has no text"
        row["text"].encode()  # Arrow takes no lone surrogates, but a caller's rows may hold them
        plan = row.get("plan")
        reference = Reference(row["text"], None, Plan.parse(plan) if plan else None)
        if plan:
            Record(record.id, record.triples, (reference,))  # its predicates must be the record's
        return reference
    except (AggGenError, UnicodeError) as error:
        return str(error)
