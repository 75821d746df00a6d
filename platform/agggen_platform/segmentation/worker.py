"""The worker of a segmentation job: reads a shard of a split and writes one Parquet file of records with facts."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from agggen.alignment import align
from agggen.corpora.prepared import schema, write_records
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, RecordError
from agggen.facts import FactSegmenter, segment_each
from agggen.facts.clauses import sentence_starts
from agggen.facts.config import segmenter
from agggen.records import Fact, Plan, Record, Reference
from agggen_platform.segmentation.cache import FactCache
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.sharded.config import MIN_FAILURES_TO_STOP, JobError
from agggen_platform.sharded.shards import Shard, read_rows, record_without_references
from agggen_platform.sharded.worker import Tally, Worker

_BATCH_ROWS = 512


@dataclass(slots=True)
class Counts(Tally):
    noun = "texts"

    records: int = 0
    references: int = 0
    facts: int = 0
    rejects: int = 0  # invalid rows, and references without facts
    failed: int = 0  # distinct texts on which the segmenter failed; the next run retries them
    segmented: int = 0  # distinct texts passed to the segmenter
    sentences: int = 0  # sentences in these texts
    cached: int = 0  # distinct texts found in the cache
    cache_errors: int = 0

    @property
    def total(self) -> int:
        return self.references + self.rejects

    def speeds(self, seconds: float) -> dict[str, float]:
        return {"texts_per_second": self.references / seconds, "sentences_per_second": self.sentences / seconds}


class RowSegmenter:
    """Segments the references of rows, each distinct text once."""

    def __init__(
        self, segmenter: FactSegmenter, config: SegmentConfig, shard: Shard, cache: FactCache | None = None
    ) -> None:
        self.segmenter, self.config, self.address, self.cache = segmenter, config, shard.address, cache
        self.duplicates = dict(shard.duplicates)
        self.counts = Counts()  # of all rows so far
        self.rejects: list[Reject] = []
        """Invalid rows, and references without facts; `Reject.line` is the row number."""

    def records(self, rows: Sequence[dict[str, Any]], first: int) -> list[Record]:
        """The valid records of rows numbered from `first`, with facts; raises JobError if all texts fail."""
        parsed: list[tuple[int, str, Record, list[Reference | str]]] = []
        for number, row in enumerate(rows, start=first):
            try:
                if (first_location := self.duplicates.get(number)) is not None:
                    raise RecordError(f"the id {row['id']!r} occurs a second time, first in {first_location}")
                record = record_without_references(row)
            except AggGenError as error:
                self._reject(number, row["id"], str(error))
            else:
                references = [_reference(record, reference) for reference in row.get("references") or ()]
                parsed.append((number, row["id"], record, references))
        all_references = chain.from_iterable(item[3] for item in parsed)
        texts = dict.fromkeys(reference.text for reference in all_references if isinstance(reference, Reference))
        facts, errors = self._facts(list(texts))
        records: list[Record] = []
        for number, name, record, references in parsed:
            segmented: list[Reference] = []
            for position, reference in enumerate(references, start=1):
                reason = reference if isinstance(reference, str) else errors.get(reference.text)
                if reason is None and isinstance(reference, Reference):
                    segmented.append(replace(reference, facts=self._align(record, facts[reference.text])))
                else:
                    self._reject(number, name, f"reference {position}: {reason}")
            self.counts.records += 1
            self.counts.references += len(segmented)
            self.counts.facts += sum(len(reference.facts or ()) for reference in segmented)
            records.append(replace(record, references=tuple(segmented)))
        self.rejects.sort(key=lambda reject: reject.line or 0)
        return records

    def _reject(self, row: int, name: str | None, reason: str) -> None:
        self.counts.rejects += 1
        self.rejects.append(Reject(self.address, row, name, reason))

    def _facts(self, texts: list[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
        """Text -> facts, and text -> error of failed texts. Batches texts of similar length."""
        cached = self.cache.get(texts) if self.cache else {}
        uncached_texts = sorted((text for text in texts if text not in cached), key=len)
        segmented: dict[str, tuple[str, ...]] = {}
        errors: dict[str, str] = {}
        for start in range(0, len(uncached_texts), self.config.batch_size):
            facts, batch_errors = segment_each(self.segmenter, uncached_texts[start : start + self.config.batch_size])
            segmented |= facts
            errors |= batch_errors
        if len(errors) == len(uncached_texts) >= MIN_FAILURES_TO_STOP:
            problem = f"the segmenter {self.segmenter.name!r} failed on all {len(errors)} texts of a batch"
            raise JobError(f"{problem}; on the first: {next(iter(errors.values()))}")
        self.counts.failed += len(errors)
        if self.cache:
            self.cache.put(segmented)
            self.counts.cache_errors, self.cache.errors = self.counts.cache_errors + self.cache.errors, 0
        self.counts.cached += len(cached)
        self.counts.segmented += len(uncached_texts)
        self.counts.sentences += sum(1 + sum(1 for _ in sentence_starts(text)) for text in uncached_texts)
        return cached | segmented, errors

    def _align(self, record: Record, facts: tuple[str, ...]) -> tuple[Fact, ...]:
        if self.config.alignment == "none":
            return tuple(map(Fact, facts))
        predicates_by_fact: list[list[str]] = [[] for _ in facts]
        alignment = align(record, facts)
        for predicate, fact in zip(record.predicates, alignment.fact_of, strict=True):
            if fact is not None:  # for the type checker: by default `align` assigns every triple to a fact
                predicates_by_fact[fact].append(predicate)
        return tuple(Fact(text, tuple(names)) for text, names in zip(facts, predicates_by_fact, strict=True))


def _reference(record: Record, row: dict[str, Any] | None) -> Reference | str:
    """The reference in `row`, or an error message if it is invalid."""
    try:
        if row is None or row["text"] is None:
            return "the reference has no text"
        row["text"].encode()  # UnicodeError for a lone surrogate, possible in rows that do not come from Arrow
        plan = row.get("plan")
        reference = Reference(row["text"], None, Plan.parse(plan) if plan else None)
        if plan:
            Record(record.id, record.triples, (reference,))  # raises if the plan's predicates are not the record's
        return reference
    except (AggGenError, UnicodeError) as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    out: str
    job: str  # the job's fingerprint
    config: SegmentConfig  # with absolute paths
    segmenter: str  # the segmenter's fingerprint
    corpora: Mapping[str, str]  # split -> name of its corpus


class ShardWorker(Worker[Counts]):
    """Loads the segmenter once and processes one shard per call."""

    kind = "segment"
    counts = Counts

    def __init__(self, settings: WorkerSettings, loaded_segmenter: FactSegmenter | None = None) -> None:
        """Loads the segmenter, unless it is already loaded; raises JobError if it differs from the driver's."""
        # oneDNN caches kernels for the last 1024 tensor shapes by default, and texts have many different shapes: after
        # two minutes of tagging, a process uses 495 MB instead of 335 MB. Torch reads the variable at its first use.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        super().__init__(settings.out, settings.job)
        self.settings = settings
        self.segmenter = loaded_segmenter or segmenter(settings.config.facts)
        if self.segmenter.fingerprint != settings.segmenter:
            raise JobError(
                f"the segmenter {self.segmenter.name!r} of this worker has fingerprint {self.segmenter.fingerprint}, "
                f"but the driver's has {settings.segmenter}; install the same version of agggen on every node"
            )
        self.crash_causes = f"out of memory, or a text that crashes the segmenter {self.segmenter.name!r}"
        folder = settings.config.cache_folder
        self.cache = FactCache(Path(folder), settings.segmenter) if folder else None

    def write_part(self, shard: Shard, path: Path) -> tuple[Counts, int, Sequence[Reject]]:
        segmenter = RowSegmenter(self.segmenter, self.settings.config, shard, self.cache)
        batches = read_rows(shard, _BATCH_ROWS, schema().names)
        records = (record for first, rows in batches for record in segmenter.records(rows, first))
        split = shard.part.rpartition("/")[0]
        n_records = write_records(path, records, self.settings.corpora[split], split)
        return segmenter.counts, n_records, segmenter.rejects

    def close(self) -> None:
        if self.cache is not None:
            self.cache.close()
