"""Helpers for tests of bulk generation: input, jobs in this process, interruption, output."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from agggen.corpora.elements import elements_records
from agggen.generation.generator import Generation
from agggen.records import Record
from agggen_platform.bulk.job import BulkReport, generate
from agggen_platform.bulk.model import BulkConfig, Model, bulk_config
from agggen_platform.bulk.rows import text_schema
from agggen_platform.sharded.driver import Progress
from agggen_platform.storage.folder import Folder

RECORDS = 44  # number of records of the default input: six shards of at most eight records


def numbered_records(count: int, max_triples: int = 7) -> Iterator[Record]:
    """Records ``r0``, ``r1``, ... of the shipped corpus of at most `max_triples`, repeated as often as needed."""
    known = [record for record in elements_records("dev") if len(record.triples) <= max_triples]
    for number in range(count):
        yield Record(f"r{number}", known[number % len(known)].triples)


def write_jsonl(path: Path, records: Sequence[Record] | Iterator[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record.as_dict()) + "\n" for record in records), encoding="utf-8")
    return path


def in_process(model: Model, *overrides: str) -> BulkConfig:
    """The configuration of a job in this process, with shards of eight records."""
    return bulk_config(model, ["actors=0", "shard_rows=8", *overrides])


@dataclass(frozen=True)
class Bulk:
    """Bulk generation in this process, with the bundle `model`, from `source` into the empty folder `out`."""

    model: Model
    source: Path
    out: Path

    def __call__(
        self, *overrides: str, model: Model | None = None, source: Path | str = "", out: Path | str = "", **options: Any
    ) -> BulkReport:
        model = model or self.model
        config = in_process(model, *overrides)
        return generate(model, str(source or self.source), str(out or self.out), config, **options)


def interrupt_after(shards: int) -> Callable[[Progress[Any]], None]:
    def interrupt(progress: Progress[Any]) -> None:
        if progress.shards == shards:
            raise KeyboardInterrupt

    return interrupt


def published(out: Path | str) -> dict[str, bytes]:
    """Contents of the manifest and the files of texts and rejects, by name; empty without a manifest."""
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
    """The output row of a text, with values as JSON has them."""
    fields = {name: value for name, value in asdict(text).items() if name in text_schema().names}
    fields |= {"plan": str(text.plan), "fulfilled": text.fulfilled, "row": row, "rank": rank, "bundle": bundle}
    return dict(json.loads(json.dumps(fields)))
