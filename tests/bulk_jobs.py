"""Helpers for tests of bulk generation: records, settings of a job in this process, and its output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq

from agggen.corpora.elements import elements_records
from agggen.generation.generator import Generation
from agggen.records import Record
from agggen_platform.bulk.config import BulkConfig
from agggen_platform.bulk.model import Model, bulk_config
from agggen_platform.storage.folder import Folder

RECORDS = 44
"""The number of records of a test's input: six shards of at most eight."""


def numbered_records(count: int, max_triples: int = 7) -> Iterator[Record]:
    """Records ``r0``, ``r1``, ... with at most `max_triples`, from the shipped corpus, repeated as often as needed."""
    known = [record for record in elements_records("dev") if len(record.triples) <= max_triples]
    for number in range(count):
        yield Record(f"r{number}", known[number % len(known)].triples)


def write_jsonl(path: Path, records: Iterable[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record.as_dict()) + "\n" for record in records), encoding="utf-8")
    return path


def here(model: Model, *overrides: str) -> BulkConfig:
    """The configuration of a job that runs in this process."""
    return bulk_config(model, ["actors=0", "shard_rows=8", *overrides])


def published(out: Path | str) -> dict[str, bytes]:
    """The contents of the manifest and of the files of texts and rejects; empty while there is no manifest."""
    folder = Folder(str(out))
    names = folder.names()
    if "manifest.json" not in names:
        return {}
    return {name: folder.read(name) or b"" for name in names if name.startswith(("texts/", "rejects/", "manifest."))}


def texts(out: Path) -> list[dict[str, object]]:
    return pq.read_table(out / "texts").to_pylist()


def rejects(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted((out / "rejects").iterdir()) for line in path.open(encoding="utf-8")]


def as_row(text: Generation, row: int, rank: int, bundle: str) -> dict[str, object]:
    """The row of a text in the output of a bulk job."""
    names = ("id", "text", "plan_log_probability", "plan_search", "text_log_probability", "score", "fulfilled")
    lists = {"faults": [*text.faults], "unknown_predicates": [*text.unknown_predicates]}
    facts = [asdict(fact) | {"predicates": [*fact.predicates], "missing": [*fact.missing]} for fact in text.facts]
    row_of_text = {name: getattr(text, name) for name in names} | {"plan": str(text.plan), "facts": facts}
    return {"row": row, "rank": rank, "bundle": bundle} | lists | row_of_text
