"""The driver of a bulk generation job: plans shards, runs workers, publishes the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agggen.checks import CheckedText
from agggen.config import config_hash, flatten, resolved
from agggen.errors import ConfigError, CorpusError
from agggen_platform.bulk.config import SETTINGS, BulkConfig, fingerprint, job_identity
from agggen_platform.bulk.inputs import InputFile, check_inputs_unchanged, find_inputs, plan_shards, prepare_inputs
from agggen_platform.bulk.model import Model
from agggen_platform.bulk.output import INPUT, TEXTS, Output
from agggen_platform.bulk.review import riskiest
from agggen_platform.bulk.rows import Counts
from agggen_platform.bulk.worker import BulkWorker, WorkerSettings
from agggen_platform.sharded import driver
from agggen_platform.sharded.config import check_rejects
from agggen_platform.sharded.driver import Work
from agggen_platform.storage.claim import claim
from agggen_platform.storage.critics import open_critic, place_of_critic
from agggen_platform.storage.folder import Folder

if TYPE_CHECKING:
    from agggen_platform.tracking import Tracker

Progress = driver.Progress[Counts]


@dataclass(frozen=True)
class BulkReport:
    """A finished job."""

    job: str
    """The job's fingerprint."""
    summary: Counts
    """Counts of the whole job, earlier runs included."""
    progress: Progress | None = None
    """The progress of this run; None if an earlier run had finished the job."""
    redone: int = 0
    """The number of shard retries in all runs."""
    seconds: float = 0.0
    """Duration of this run."""
    review: Sequence[CheckedText] = ()
    """The riskiest texts, if a review was requested."""

    @property
    def finished_before(self) -> bool:
        """Whether an earlier run had finished the job."""
        return self.progress is None


def generate(
    model: Model,
    source: str,
    out: str,
    config: BulkConfig,
    *,
    fresh: bool = False,
    tracker: Callable[[str], Tracker] | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    single_file: bool = False,
    endpoint: str | None = None,
    review: int = 0,
) -> BulkReport:
    """Writes texts for all records at `source` into the folder `out`; resumes an interrupted job.

    Args:
        model: see `open_model`.
        source: a file of records (.parquet, .jsonl, .csv) or a folder of such files, local or on S3.
        out: a folder, local or on S3.
        config: see `bulk_config`.
        fresh: delete the output of this or another bulk generation in `out`.
        tracker: creates the run log, given the run's name; called only if the job is not finished yet.
        progress: called after every shard.
        single_file: also join the parts into ``out/texts.parquet`` (or .jsonl), for small jobs.
        endpoint: the URL of an endpoint that serves the bundle and writes the texts; the result is the same.
        review: how many of the riskiest texts the report contains; needs `config.critic`.

    Raises:
        ConfigError: a review is requested without a critic.
        CorpusError: the input is missing or cannot be read, or `out` contains other files.
        JobError: the input changed while it was read.
        ClaimedError: another job works on `out`.
        JobError: too many records were rejected, the generator failed on every record, or workers died repeatedly.
            The next run reuses the finished shards.
    """
    if review and config.critic is None:
        raise ConfigError("a review needs the scores of a critic: set critic=included")
    critic = None
    if config.critic is not None:
        address = place_of_critic(config.critic)
        critic = address, open_critic(address)[1]
    inputs = find_inputs(source, config.shard_rows, config.unique)
    target = Folder(out)
    if target.address in {file.folder.address for file in inputs}:
        raise CorpusError(f"{out} is the folder of the input; give another --out")
    files_read = [(file.name, file.fingerprint) for file in inputs]
    about = job_identity(config, model.fingerprint, files_read, critic and critic[1])
    output = Output(target, fingerprint(about))
    begin = time.monotonic()

    def reviewed() -> list[CheckedText]:
        return riskiest(output, inputs, model, critic[0], review) if review and critic else []

    with claim(target) as check_claim, ExitStack() as stack:
        if fresh:
            output.clear()
        if manifest := output.manifest():
            output.tidy()
            if single_file:
                output.join()
            return BulkReport(output.job, Counts(**manifest["summary"]), review=reviewed())
        output.begin(about, {})
        log = stack.enter_context(tracker(f"generate-{output.job}")) if tracker else None
        if log:
            log.log_params(flatten(config) | _provenance(model, inputs))
            log.set_tags({"config_hash": config_hash(config)})
        try:
            files = prepare_inputs(inputs, Folder(target.at(INPUT)))
            rows = sum(file.rows for file in files)
            if not rows:
                raise CorpusError(f"{source} contains no record")
        except CorpusError:
            output.clear()  # otherwise `begin` would refuse the corrected input as another job
            raise
        part = f"{TEXTS}/{{}}-{output.job}.{config.format}"
        shards = plan_shards(files, config.rows_per_shard(rows), part, config.unique)
        settings = WorkerSettings(target.address, output.job, model.address, model.fingerprint, config, critic)
        local_worker: Callable[[], BulkWorker] = partial(BulkWorker, settings)
        if endpoint:
            from agggen_platform.bulk.endpoint import EndpointWorker  # needs httpx

            local_worker = partial(EndpointWorker, endpoint, settings)
        work = driver.process(
            shards,
            BulkWorker,
            settings,
            local_worker,
            config,
            "generate",
            actors=0 if endpoint else config.actors,
            gpus=config.gpus_per_actor,
            progress=progress,
            log=log,
            speed=_speed,
        )
        check_inputs_unchanged(inputs)
        counts = work.counts
        total = counts.records + counts.rejects
        check_rejects(counts.rejects, total, config.max_reject_share, "records", target.at("rejects"))
        now = work.progress()
        report = BulkReport(output.job, counts, now, work.retries, time.monotonic() - begin)
        used = {name: value for name, value in resolved(config).items() if name in ("inference", *SETTINGS)}
        about = {"summary": counts.as_dict(), "config": used, **_provenance(model, inputs)}
        if critic:
            about["critic"] = critic[1]
        check_claim()
        written = [file for shard in shards for file in work.done[shard.index].files]
        output.finish(written, about, _content(report, now))
        if single_file:
            output.join()
        if log:
            log.log_metrics(work.metrics() | _metrics(report, work), step=len(shards))
        return replace(report, review=reviewed())


def _provenance(model: Model, inputs: list[InputFile]) -> dict[str, str]:
    return {"bundle": model.fingerprint, "bundle_address": model.address} | {
        f"input/{file.name}": file.fingerprint for file in inputs
    }


def _content(report: BulkReport, now: Progress) -> dict[str, Any]:
    """The content of ``report.json``."""
    return {
        "job": report.job,
        **report.summary.as_dict(),
        "fulfilled_share": report.summary.fulfilled_share,
        "mean_plan_length": report.summary.mean_plan_length,
        "shards": {"total": now.total, "reused": now.reused, "redone": report.redone},
        "run": {"records": now.counts.records, "seconds": report.seconds, **_speed(now)},
    }


def _speed(now: Progress) -> dict[str, float]:
    return {
        "records_per_second": now.counts.records / now.seconds,
        "texts_per_second": now.counts.texts / now.seconds,
    }


def _metrics(report: BulkReport, work: Work[Counts]) -> dict[str, float]:
    summary = report.summary
    lengths = {f"plan_length/{length}": float(count) for length, count in summary.plan_lengths.items()}
    return {
        "fulfilled_share": summary.fulfilled_share,
        "mean_plan_length": summary.mean_plan_length,
        "redone_shards": report.redone,
        "seconds": report.seconds,
        "worker_seconds": sum(done.seconds for done in work.done.values()),
        **lengths,
    }
