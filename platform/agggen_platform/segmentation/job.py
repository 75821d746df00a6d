"""The driver of a segmentation job: plan the shards, have them done, put the result together, publish it.

The shards are the items of a Ray Data pipeline with one stage of actors, each with its own segmenter. What passes
through Ray are descriptions of shards: the texts go from the store to the actor and from the actor to the store. The
driver reads what the actors wrote in the order of the input while they write, so the result has the input's order
whatever order the work ends in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agggen.errors import AggGenError, CorpusError
from agggen.facts import FactSegmenter
from agggen.facts.config import segmenter
from agggen_platform.config import config_hash, flatten, resolved
from agggen_platform.segmentation.config import SegmentationError, SegmentConfig, fingerprint
from agggen_platform.segmentation.output import REJECTS, Output, SplitReport
from agggen_platform.segmentation.rows import Counts
from agggen_platform.segmentation.shards import Shard, Source, open_source, plan_shards
from agggen_platform.segmentation.worker import Done, ShardWorker, WorkerSettings
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder

if TYPE_CHECKING:
    from agggen_platform.tracking import Tracker

_ROWS_AT_ONCE = 512  # that an actor holds
_SECONDS_BETWEEN_METRICS = 10.0


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    shards: int
    total: int
    found: int
    """Shards that an earlier run had done."""
    counts: Counts
    """Of this run."""
    seconds: float
    """Since the first shard could be worked on."""


@dataclass(frozen=True)
class SegmentReport:
    """A finished job."""

    out: str
    job: str
    """Its fingerprint."""
    splits: dict[str, SplitReport]
    finished_before: bool
    """Whether an earlier run had done it all."""
    progress: Progress | None = None
    """What this run did, unless `finished_before`."""
    seconds: float = 0.0


def find_sources(address: str, splits: Sequence[str] = ()) -> list[Source]:
    """The splits to segment: a Parquet file, or all (or the named) ``SPLIT.parquet`` of a folder.

    Raises:
        CorpusError: nothing is there, a split is missing or double, or a file is no corpus.
    """
    if address.endswith(".parquet"):
        parent, _, name = address.rpartition("/")
        source = open_source(Folder(parent or ("/" if address.startswith("/") else ".")), name)
        if splits and list(splits) != [source.split]:
            raise CorpusError(f"{address} is the split {source.split!r}, not {', '.join(splits)}")
        return [source]
    folder = Folder(address)
    there = [name.removesuffix(".parquet") for name in folder.names() if name.endswith(".parquet") and "/" not in name]
    if not there:
        raise CorpusError(f"{address} holds no Parquet files; make them with: agggen corpora prepare NAME --out DIR")
    if missing := [split for split in splits if split not in there]:
        raise CorpusError(f"{address} has no split {missing[0]!r}; it has {', '.join(there)}")
    sources = [open_source(folder, f"{name}.parquet") for name in there if not splits or name in splits]
    by_split: dict[str, Source] = {}
    for source in sources:
        if (other := by_split.setdefault(source.split, source)) is not source:
            raise CorpusError(f"{source.address} and {other.address} both say that they are {source.split!r}")
    return sources


def segment(
    source: str,
    out: str,
    config: SegmentConfig,
    *,
    splits: Sequence[str] = (),
    fresh: bool = False,
    tracker: Callable[[str], Tracker] | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> SegmentReport:
    """Segments the corpus at `source` into the folder `out`; continues what an earlier run of the same job began.

    Args:
        source: a prepared corpus: its folder or one of its files, here or on S3.
        out: a folder, here or on S3.
        fresh: throw away what this or another segmentation job left in `out`.
        tracker: makes the run log from the run's name, if there is work to do.
        progress: is told after every shard.

    Raises:
        ConfigError: the segmenter does not exist.
        CorpusError: the input is not there or no corpus, or `out` holds something else.
        ClaimedError: another job works on `out`.
        SegmentationError: too many rejects, a segmenter that always fails, or workers that die again and again. What is
            done is kept for the next run.
    """
    cut = segmenter(config.facts)
    sources = find_sources(source, splits)
    target = Folder(out)
    if target.address in {Folder(one.folder).address for one in sources}:
        raise CorpusError(f"{out} is the folder of the input; give another --out")
    output = Output(target, fingerprint(config, sources, cut.fingerprint))
    begin = time.monotonic()
    with claim(target) as check_claim, ExitStack() as stack:
        if fresh:
            output.clear()
        if manifest := output.manifest():
            reports = {name: SplitReport(**split) for name, split in manifest["splits"].items()}
            return SegmentReport(out, output.job, reports, True)
        output.begin([one.split for one in sources], {"facts": cut.fingerprint, "alignment": config.alignment})
        log = stack.enter_context(tracker(f"segment-{output.job}")) if tracker else None
        inputs = {f"input/{one.split}": one.fingerprint for one in sources}
        about = inputs | {"config_hash": config_hash(config), "segmenter": cut.fingerprint, "job": output.job}
        if log:
            log.log_params(flatten(config) | about)
        shards = {one.split: plan_shards(one, config.shard_rows) for one in sources}
        every = [shard for split in shards.values() for shard in split]
        work = _Work(stack.enter_context(_results(every, output, config, cut)), len(every), progress, log)

        def accept() -> dict[str, Any]:
            check_claim()
            _check_rejects(work.counts, config.max_reject_share, target)
            return {"config": resolved(config), "segmenter": cut.fingerprint, "inputs": inputs}

        reports = output.write(sources, shards, work.wait, accept)
        if log:
            log.log_metrics(work.metrics() | _shape(reports), step=len(every))
    return SegmentReport(out, output.job, reports, False, work.progress(), time.monotonic() - begin)


def _check_rejects(counts: Counts, limit: float, target: Folder) -> None:
    texts = counts.references + counts.rejects
    if counts.rejects > limit * texts:
        raise SegmentationError(
            f"{counts.rejects:,} of {texts:,} texts were rejected ({counts.rejects / texts:.1%}, at most {limit:.1%} "
            f"allowed: max_reject_share); {target.at(REJECTS)} says why. Nothing was published; the same command "
            "tries again what the segmenter failed on, and with a larger share publishes what there is"
        )


def _shape(reports: dict[str, SplitReport]) -> dict[str, float]:
    references = sum(report.references for report in reports.values())
    facts = sum(report.facts for report in reports.values())
    return {"facts_per_text": facts / max(1, references), "texts": references}


class _Work:
    """The shards as they come in, in whatever order."""

    def __init__(
        self, results: Iterator[Done], total: int, progress: Callable[[Progress], None], log: Tracker | None
    ) -> None:
        self._results, self._total, self._tell, self._log = results, total, progress, log
        self._done: set[tuple[str, int]] = set()
        self._found = 0
        self._began = self._logged = time.monotonic()
        self._fresh = Counts()
        self.counts = Counts()
        """Of all shards that are done, by this run or before."""

    def wait(self, shard: Shard) -> None:
        """Returns when the shard is done.

        Raises:
            SegmentationError: it will not be.
        """
        while (shard.split, shard.index) not in self._done:
            done = next(self._results, None)
            if done is None:
                raise SegmentationError(f"no worker did rows {shard.first} to {shard.first + shard.rows}; run it again")
            self._done.add((done.split, done.index))
            self._found += done.found
            self.counts += done.counts
            if not done.found:
                self._fresh += done.counts
                if len(self._done) - self._found == 1:
                    self._began = time.monotonic() - done.seconds
            self._tell(self.progress())
            if self._log and time.monotonic() - self._logged >= _SECONDS_BETWEEN_METRICS:
                self._logged = time.monotonic()
                self._log.log_metrics(self.metrics(), step=len(self._done))

    def progress(self) -> Progress:
        return Progress(
            len(self._done), self._total, self._found, self._fresh, max(1e-9, time.monotonic() - self._began)
        )

    def metrics(self) -> dict[str, float]:
        """For the run log: counts of the whole job, and the speed of this run."""
        now = self.progress()
        return {
            **{name: float(count) for name, count in self.counts.as_dict().items()},
            "shards": now.shards,
            "texts_per_second": now.counts.references / now.seconds,
            "sentences_per_second": now.counts.sentences / now.seconds,
        }


@contextmanager
def _results(
    shards: list[Shard], output: Output, config: SegmentConfig, cut: FactSegmenter
) -> Iterator[Iterator[Done]]:
    """Has the shards done as the results are asked for: by actors of a Ray cluster, or here."""
    settings = WorkerSettings(
        output.folder.address,
        output.job,
        config.facts.absolute,
        cut.fingerprint,
        config.alignment,
        config.batch_size,
        min(config.shard_rows, _ROWS_AT_ONCE),
        config.cache_folder,
    )
    if config.actors == 0 or not shards:
        with closing(ShardWorker(settings, cut)) as here:
            yield map(here.run, shards)
        return
    from agggen_platform.ray_cluster import connected

    with connected(config.ray_address) as cluster:
        results = _by_actors(shards, settings, *cluster.actors(config.actors, len(shards)))
        try:
            yield results
        finally:
            results.close()


def _by_actors(shards: list[Shard], settings: WorkerSettings, actors: int, cpus: float) -> Generator[Done]:
    import ray.data

    _quiet()
    items = ray.data.from_items([{"shard": shard.as_json()} for shard in shards], override_num_blocks=len(shards))
    dataset = items.map_batches(
        ShardWorker,
        fn_constructor_args=(settings,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
        num_cpus=cpus,
    )
    try:
        for row in dataset.iter_rows():
            yield Done.from_json(row["done"])
    except ray.exceptions.RayError as error:
        raise _explained(error) from error


def _quiet() -> None:
    """Keeps Ray Data's talk out of the terminal; its own log files have it."""
    import logging

    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    for handler in logging.getLogger("ray.data").handlers:
        if type(handler).__name__ != "SessionFileHandler":
            handler.setLevel(logging.ERROR)


def _explained(error: BaseException) -> AggGenError:
    """A worker's own error if it is meant for the user, else that the workers died or broke."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AggGenError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return SegmentationError(
        f"the workers broke ({type(error).__name__}: {lines[-1].strip() if lines else ''}); what is done is kept, "
        "run the same command again to go on"
    )
