"""Helpers for tests of the segmentation job: a corpus, a reference implementation, a recording segmenter."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agggen.alignment import align
from agggen.corpora.catalogue import load
from agggen.corpora.prepared import write_records
from agggen.corpora.rejects import split_rejects
from agggen.facts import FactSegmenter
from agggen.facts.clauses import ClauseSegmenter
from agggen.facts.config import SegmenterConfig
from agggen.records import Fact, Record, Reference
from agggen_platform.segmentation import job as job_module
from agggen_platform.segmentation.config import SegmentConfig


def clause_config(**settings: Any) -> SegmentConfig:
    """A job in this process with the fast rule-based segmenter."""
    return SegmentConfig(**{"facts": SegmenterConfig(source="clauses"), "actors": 0, "shard_rows": 20} | settings)


LOCAL = clause_config()


def elements(split: str) -> list[Record]:
    return split_rejects(load("elements", split))[0]


def write_corpus(folder: Path) -> Path:
    """150 training and 72 development records of the shipped corpus, prepared."""
    for split in ("train", "dev"):
        write_records(folder / f"{split}.parquet", elements(split)[:150], "elements", split)
    return folder


def segmented(records: Sequence[Record], segmenter: FactSegmenter | None = None) -> list[Record]:
    """The records with facts: a reference implementation of the job without shards, cache or actors."""
    segmenter = segmenter or ClauseSegmenter()
    result = []
    for record in records:
        references = []
        for reference in record.references:
            (facts,) = segmenter.segment([reference.text])
            fact_of = align(record, facts).fact_of
            predicates = [
                tuple(name for name, fact in zip(record.predicates, fact_of, strict=True) if fact == number)
                for number in range(len(facts))
            ]
            facts_with_predicates = tuple(Fact(text, names) for text, names in zip(facts, predicates, strict=True))
            references.append(Reference(reference.text, facts_with_predicates, reference.plan))
        result.append(Record(record.id, record.triples, tuple(references), record.category))
    return result


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and modification time of each file."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


class Recorder(ClauseSegmenter):
    """The rule-based segmenter; records its texts, and fails on texts that contain `bad`."""

    def __init__(self, bad: str | None = None) -> None:
        self.bad, self.texts_seen = bad, list[str]()

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        self.texts_seen += texts
        if self.bad and any(self.bad in text for text in texts):
            raise RuntimeError("cannot segment this text")
        return super().segment(texts)


def use_segmenter(monkeypatch: pytest.MonkeyPatch, segmenter: ClauseSegmenter) -> None:
    monkeypatch.setattr(job_module, "segmenter", lambda name: segmenter)
