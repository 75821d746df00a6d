"""The driver of a segmentation job: plans shards, runs workers, publishes the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agggen.config import config_hash, flatten, resolved
from agggen.errors import CorpusError
from agggen.facts.config import segmenter
from agggen_platform.segmentation.config import SegmentConfig, fingerprint
from agggen_platform.segmentation.rows import Counts
from agggen_platform.segmentation.shards import Source, open_source, plan_shards
from agggen_platform.segmentation.worker import ShardWorker, WorkerSettings
from agggen_platform.sharded import driver
from agggen_platform.sharded.config import check_rejects, check_unchanged
from agggen_platform.sharded.output import MANIFEST, JobFolder
from agggen_platform.sharded.shards import Shard, file_at
from agggen_platform.sharded.worker import WORK, FinishedShard, PartFile
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder

if TYPE_CHECKING:
    from agggen_platform.tracking import Tracker

Progress = driver.Progress[Counts]


@dataclass(frozen=True, slots=True)
class SplitReport:
    """Counts of a split of the output."""

    rows: int  # rows of the input
    records: int  # valid rows, which are written to the parts
    references: int
    facts: int
    rejects: int
    parts: tuple[PartFile, ...]  # the parts in input order


@dataclass(frozen=True)
class SegmentReport:
    """A finished job."""

    splits: dict[str, SplitReport]
    progress: Progress | None = None  # the progress of this run; None if an earlier run had finished the job
    seconds: float = 0.0

    @property
    def finished_before(self) -> bool:
        """Whether an earlier run had finished the job."""
        return self.progress is None


class Output(JobFolder):
    """A folder that belongs to one segmentation job."""

    kind, product = "segmentation", "facts"

    def is_product(self, name: str, about: dict[str, Any] | None) -> bool:
        if name == MANIFEST or name.startswith(("rejects/", f"{WORK}/")):
            return True
        if about is None:
            return name.endswith(".parquet")
        return name.startswith(tuple(f"{split}/" for split in about["splits"]))

    def files(self, manifest: dict[str, Any]) -> list[dict[str, Any]]:
        return [*(part for split in manifest["splits"].values() for part in split["parts"]), *manifest["rejects"]]


def find_sources(address: str, splits: Sequence[str] = ()) -> list[Source]:
    """The splits to segment: the Parquet file at `address`, or ``SPLIT.parquet`` in a folder, by default all of them.

    Raises:
        CorpusError: there is no file, a split is missing or occurs twice, or a file is not a corpus.
    """
    if address.endswith(".parquet"):
        source = open_source(*file_at(address))
        if splits and list(splits) != [source.split]:
            raise CorpusError(f"{address} is the split {source.split!r}, not {', '.join(splits)}")
        return [source]
    folder = Folder(address)
    names = [name.removesuffix(".parquet") for name in folder.names() if name.endswith(".parquet") and "/" not in name]
    if not names:
        raise CorpusError(f"{address} contains no SPLIT.parquet; make them with: agggen prepare NAME --out DIR")
    if missing := [split for split in splits if split not in names]:
        raise CorpusError(f"{address} has no split {missing[0]!r}; it has {', '.join(names)}")
    sources = [open_source(folder, f"{name}.parquet") for name in names if not splits or name in splits]
    by_split: dict[str, Source] = {}
    for source in sources:
        if (other := by_split.setdefault(source.split, source)) is not source:
            raise CorpusError(f"{source.address} and {other.address} are both the split {source.split!r}")
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

    Args:
        corpus: the folder of a prepared corpus or one of its files, local or on S3.
        out: a folder, local or on S3.
        fresh: delete the output of this or another segmentation job in `out`.
        tracker: creates the run log, given the run's name; called only if the job is not finished yet.
        progress: called after every shard.

    Raises:
        ConfigError: the segmenter does not exist.
        CorpusError: the input is missing or not a corpus, or `out` contains other files.
        ClaimedError: another job works on `out`.
        JobError: too many texts were rejected, the segmenter failed on every text, or workers died repeatedly. Finished
            shards are kept for the next run.
    """
    fact_segmenter = segmenter(config.facts)
    sources = find_sources(corpus, splits)
    target = Folder(out)
    if target.address in {source.folder.address for source in sources}:
        raise CorpusError(f"{out} is the folder of the input; give another --out")
    output = Output(target, fingerprint(config, sources, fact_segmenter.fingerprint))
    begin = time.monotonic()
    with claim(target) as check_claim, ExitStack() as stack:
        if fresh:
            output.clear()
        if manifest := output.manifest():
            reports = {
                name: SplitReport(**split | {"parts": tuple(PartFile(**part) for part in split["parts"])})
                for name, split in manifest["splits"].items()
            }
            return SegmentReport(reports)
        inputs = {f"input/{source.split}": source.fingerprint for source in sources}
        identity = {"facts": fact_segmenter.fingerprint, "alignment": config.alignment} | inputs
        output.begin(identity, {"splits": [source.split for source in sources]})
        log = stack.enter_context(tracker(f"segment-{output.job}")) if tracker else None
        about = inputs | {
            "config_hash": config_hash(config),
            "segmenter": fact_segmenter.fingerprint,
            "job": output.job,
        }
        if log:
            log.log_params(flatten(config) | about)
        by_split: dict[str, list[Shard]] = {}
        shards: list[Shard] = []
        for source in sources:
            rows_per_shard = config.rows_per_shard(source.rows)
            shards += by_split.setdefault(source.split, plan_shards(source, rows_per_shard, output.job, len(shards)))
        absolute = replace(config, facts=config.facts.absolute)
        corpora = {source.split: source.corpus for source in sources}
        settings = WorkerSettings(target.address, output.job, absolute, fact_segmenter.fingerprint, corpora)
        local_worker = partial(ShardWorker, settings, fact_segmenter)
        work = driver.process(
            shards,
            ShardWorker,
            settings,
            local_worker,
            config,
            "segment",
            actors=config.actors,
            progress=progress,
            log=log,
            speed=_speed,
        )
        for source in sources:
            current = open_source(source.folder, source.name).fingerprint
            check_unchanged(source.address, source.fingerprint, current)
        texts = work.counts.references + work.counts.rejects
        check_rejects(work.counts.rejects, texts, config.max_reject_share, "texts", target.at("rejects"))
        reports = {
            source.split: _report(source, [work.done[shard.index] for shard in by_split[source.split]])
            for source in sources
        }
        manifest = {
            "job": output.job,
            "splits": {name: asdict(report) for name, report in reports.items()},
            "rejects": [asdict(file) for shard in shards for file in work.done[shard.index].files[1:]],
            "config": resolved(config),
            "segmenter": fact_segmenter.fingerprint,
            "inputs": inputs,
        }
        check_claim()
        output.publish(manifest, ("rejects", *reports))
        if log:
            log.log_metrics(work.metrics() | _statistics(reports), step=len(shards))
    return SegmentReport(reports, work.progress(), time.monotonic() - begin)


def _report(source: Source, done: Sequence[FinishedShard[Counts]]) -> SplitReport:
    counts = Counts()
    for shard in done:
        counts.add(shard.counts)
    parts = tuple(shard.files[0] for shard in done)
    return SplitReport(source.rows, counts.records, counts.references, counts.facts, counts.rejects, parts)


def _speed(now: Progress) -> dict[str, float]:
    return {
        "texts_per_second": now.counts.references / now.seconds,
        "sentences_per_second": now.counts.sentences / now.seconds,
    }


def _statistics(reports: dict[str, SplitReport]) -> dict[str, float]:
    references = sum(report.references for report in reports.values())
    facts = sum(report.facts for report in reports.values())
    return {"facts_per_text": facts / max(1, references), "texts": references}
