"""The driver of a segmentation job: plans shards, runs workers, publishes the output."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from agggen.config import config_hash, flatten, resolved
from agggen.corpora.prepared import schema
from agggen.errors import CorpusError
from agggen.facts.config import segmenter
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.worker import Counts, ShardWorker, WorkerSettings
from agggen_platform.sharded import driver
from agggen_platform.sharded.config import check_unchanged, fingerprint
from agggen_platform.sharded.output import MANIFEST, JobFolder
from agggen_platform.sharded.shards import (
    Shard,
    check_columns,
    divide_parquet,
    file_at,
    find_duplicate_rows,
    hash_ids,
    inspect_parquet,
    record_without_references,
    rows_at,
    with_indices,
)
from agggen_platform.sharded.worker import WORK_FOLDER, FinishedShard, PartFile
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import Tracker

Progress = driver.Progress[Counts]
FORMAT = 4  # part of the fingerprint; incremented when a code change alters the result of the same job


@dataclass(frozen=True, slots=True)
class SplitReport:
    rows: int  # rows of the input
    records: int  # valid rows, which are in the output
    references: int
    facts: int
    rejects: int
    parts: tuple[PartFile, ...]  # the parts in input order


@dataclass(frozen=True, kw_only=True)
class SegmentReport(driver.Report[Counts]):
    splits: dict[str, SplitReport]


class Output(JobFolder):
    kind, output_name = "segmentation", "facts"

    def is_output_file(self, name: str, job_file: dict[str, Any] | None) -> bool:
        if name == MANIFEST or name.startswith(("rejects/", f"{WORK_FOLDER}/")):
            return True
        if job_file is None:
            return name.endswith(".parquet")
        return name.startswith(tuple(f"{split}/" for split in job_file["splits"]))

    def files(self, manifest: dict[str, Any]) -> list[dict[str, Any]]:
        return [*(part for split in manifest["splits"].values() for part in split["parts"]), *manifest["rejects"]]


@dataclass(frozen=True, slots=True)
class Source:
    """A split to segment: the Parquet file `name` in `folder`."""

    folder: Folder
    name: str
    split: str
    corpus: str
    fingerprint: str  # a hash of the file's content
    group_sizes: tuple[int, ...]  # number of rows of each row group

    @property
    def rows(self) -> int:
        return sum(self.group_sizes)

    @property
    def address(self) -> str:
        return self.folder.at(self.name)


def open_source(folder: Folder, name: str) -> Source:
    """The split in a Parquet file of `folder`; raises CorpusError if it is missing or not a prepared corpus."""
    info = inspect_parquet(folder, name, _check_schema)
    split = info.metadata.get("split") or name.rpartition("/")[2].removesuffix(".parquet")
    corpus = info.metadata.get("corpus") or split
    return Source(folder, name, split, corpus, info.fingerprint, info.group_sizes)


def _check_schema(columns: pa.Schema, address: str) -> None:
    """Checks the columns of a prepared corpus; of the references, only the text is required."""
    references = pa.field("references", pa.list_(pa.struct([pa.field("text", pa.string())])))
    expected = schema().set(schema().get_field_index("references"), references)
    check_columns(columns, expected, ("id", "triples", "references"), address)


def plan_shards(source: Source, rows_per_shard: int, job: str, first_index: int = 0) -> list[Shard]:
    """Divides a split into shards of about `rows_per_shard` rows, numbered from `first_index`; deterministic."""
    folder, name, columns = source.folder, source.name, ("id", "triples", "category")
    (duplicates,) = find_duplicate_rows(
        [hash_ids(folder, name)],
        lambda _, rows: rows_at(folder, name, columns, rows),
        record_without_references,
        lambda _, row, __: f"row {row}",
    )
    template = Shard(0, folder.address, name, "", (), 0, 0, source.rows, source.address)
    shards = divide_parquet(template, source.group_sizes, rows_per_shard)
    return with_indices(shards, f"{source.split}/{{}}-{job}.parquet", duplicates, first_index)


def find_sources(address: str, splits: Sequence[str] = ()) -> list[Source]:
    """The splits to segment: the Parquet file at `address`, or each ``SPLIT.parquet`` in a folder (default: all)."""
    if address.endswith(".parquet"):
        source = open_source(*file_at(address))
        if splits and list(splits) != [source.split]:
            raise CorpusError(f"{address} is the split {source.split!r}, not {', '.join(splits)}")
        return [source]
    folder = Folder(address)
    names = [name.removesuffix(".parquet") for name in folder.names() if name.endswith(".parquet") and "/" not in name]
    if not names:
        raise CorpusError(f"{address} contains no SPLIT.parquet; create them: agggen prepare NAME --out DIR")
    if missing := [split for split in splits if split not in names]:
        raise CorpusError(f"{address} has no split {missing[0]!r}; it has {', '.join(names)}")
    sources = [open_source(folder, f"{name}.parquet") for name in names if not splits or name in splits]
    by_split: dict[str, Source] = {}
    for source in sources:
        if (earlier_source := by_split.setdefault(source.split, source)) is not source:
            raise CorpusError(f"{source.address} and {earlier_source.address} both contain the split {source.split!r}")
    return sources


def segment(
    corpus: str,
    out: str,
    config: SegmentConfig,
    *,
    splits: Sequence[str] = (),
    fresh: bool = False,
    tracker: Callable[[str], Tracker] | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> SegmentReport:
    """Segments the texts of `corpus` and writes them with facts into the folder `out`; resumes an interrupted job.

    `corpus` is the folder of a prepared corpus or one of its files; like `out`, it may be on S3. `fresh` first deletes
    the output of any segmentation job in `out`. `tracker` creates the run log of an unfinished job from its name.

    Raises CorpusError if the input is not a corpus, or `out` contains other files; ClaimedError if another job is
    writing to `out`; JobError if the input changed, too many texts were rejected, the segmenter failed on every text,
    or workers died repeatedly. The next run reuses the finished shards.
    """
    fact_segmenter = segmenter(config.facts)
    sources = find_sources(corpus, splits)
    fingerprints = {source.split: [source.corpus, source.fingerprint] for source in sources}
    content = {"format": FORMAT, "inputs": fingerprints, "segmenter": fact_segmenter.fingerprint}
    job = fingerprint(content | {"alignment": config.alignment})
    output = Output(out, job, [source.folder for source in sources])
    start = time.monotonic()
    with output.claimed(fresh) as check_claim, ExitStack() as stack:
        if manifest := output.manifest():
            return SegmentReport(splits=TypeAdapter(dict[str, SplitReport]).validate_python(manifest["splits"]))
        inputs = {f"input/{source.split}": source.fingerprint for source in sources}
        identity = {"facts": fact_segmenter.fingerprint, "alignment": config.alignment} | inputs
        output.begin(identity, splits=[source.split for source in sources])
        log = stack.enter_context(tracker(f"segment-{job}")) if tracker else None
        if log:
            provenance = {"config_hash": config_hash(config), "segmenter": fact_segmenter.fingerprint, "job": job}
            log.log_params(flatten(config) | inputs | provenance)
        shards_by_split: dict[str, list[Shard]] = {}
        shards: list[Shard] = []
        for source in sources:
            split_shards = plan_shards(source, config.rows_per_shard(source.rows), job, len(shards))
            shards_by_split[source.split] = split_shards
            shards += split_shards
        worker_config = replace(config, facts=config.facts.absolute)
        corpora = {source.split: source.corpus for source in sources}
        settings = WorkerSettings(output.folder.address, job, worker_config, fact_segmenter.fingerprint, corpora)

        def check_inputs() -> None:
            for source in sources:
                check_unchanged(source.address, source.fingerprint, open_source(source.folder, source.name).fingerprint)

        results = driver.run_shards(
            shards,
            ShardWorker,
            settings,
            config,
            local_worker=partial(ShardWorker, settings, fact_segmenter) if config.actors == 0 else None,
            check_inputs=check_inputs,
            progress=progress,
            log=log,
        )
        reports = {
            source.split: _report(source, [results.finished[shard.index] for shard in shards_by_split[source.split]])
            for source in sources
        }
        manifest = {
            "job": job,
            "splits": {name: asdict(report) for name, report in reports.items()},
            "rejects": [asdict(file) for shard in shards for file in results.finished[shard.index].files[1:]],
            "config": resolved(config),
            "segmenter": fact_segmenter.fingerprint,
            "inputs": inputs,
        }
        check_claim()
        output.publish(manifest, ("rejects", *reports))
        if log:
            texts = results.counts.references
            statistics = {"facts_per_text": results.counts.facts / max(1, texts), "texts": texts}
            log.log_metrics(results.metrics() | statistics, step=len(shards))
    return SegmentReport(splits=reports, progress=results.progress(), seconds=time.monotonic() - start)


def _report(source: Source, results: Sequence[FinishedShard[Counts]]) -> SplitReport:
    counts = Counts()
    for result in results:
        counts.add(result.counts)
    parts = tuple(result.files[0] for result in results)
    return SplitReport(source.rows, counts.records, counts.references, counts.facts, counts.rejects, parts)
