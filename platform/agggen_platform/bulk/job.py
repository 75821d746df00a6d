"""The driver of a bulk generation job: plans shards, runs workers, publishes the output."""

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
from agggen_platform.bulk.inputs import check_inputs_unchanged, find_inputs, plan_shards, prepare_inputs
from agggen_platform.bulk.model import SETTINGS, BulkConfig, Model, fingerprint, job_identity
from agggen_platform.bulk.output import INPUT, TEXTS, Output, riskiest
from agggen_platform.bulk.rows import Counts
from agggen_platform.bulk.worker import BulkWorker, WorkerSettings
from agggen_platform.sharded import driver
from agggen_platform.sharded.driver import ShardResults
from agggen_platform.storage.critics import open_critic, resolve_critic
from agggen_platform.storage.folder import Folder

if TYPE_CHECKING:
    from agggen_platform.tracking import Tracker

Progress = driver.Progress[Counts]


@dataclass(frozen=True, kw_only=True)
class BulkReport(driver.Report[Counts]):
    job: str  # the job's fingerprint
    summary: Counts  # counts of the whole job, earlier runs included
    retries: int = 0  # number of shard retries, earlier runs included
    review: Sequence[CheckedText] = ()  # the riskiest texts, if a review was requested


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
        source: a file of records (.parquet, .jsonl, .csv) or a folder of such files, local or on S3, like `out`.
        fresh: first delete the output of any bulk generation job in `out`.
        tracker: creates the run log from the run's name; only called for an unfinished job.
        progress: called after every shard.
        single_file: also join the parts into ``out/texts.parquet`` (or .jsonl), for small jobs.
        endpoint: the URL of an endpoint that serves the bundle; it generates the texts, with the same result.
        review: number of riskiest texts in the report; needs `config.critic`.

    Raises:
        ConfigError: `review` is set, but no critic.
        CorpusError: the input is missing or cannot be read, or `out` contains other files.
        ClaimedError: another job is writing to `out`.
        JobError: the input changed while it was read, too many records were rejected, the generator failed on every
            record, or workers died repeatedly. The next run reuses the finished shards.
    """
    if review and config.critic is None:
        raise ConfigError("a review needs the scores of a critic: set critic=included")
    critic = None
    if config.critic is not None:
        critic_address = resolve_critic(config.critic)
        _, critic_fingerprint = open_critic(critic_address)
        critic = critic_address, critic_fingerprint
    inputs = find_inputs(source, config.shard_rows, config.unique)
    names_and_fingerprints = [(file.name, file.fingerprint) for file in inputs]
    identity = job_identity(config, model.fingerprint, names_and_fingerprints, critic and critic[1])
    output = Output(out, fingerprint(identity), [file.folder for file in inputs])
    start = time.monotonic()

    def texts_to_review() -> list[CheckedText]:
        return riskiest(output, inputs, model, critic[0], review) if review and critic else []

    with output.claimed(fresh) as check_claim, ExitStack() as stack:
        if manifest := output.manifest():
            output.delete_input_copies()
            if single_file:
                output.join()
            return BulkReport(job=output.job, summary=Counts(**manifest["summary"]), review=texts_to_review())
        output.begin(identity)
        provenance = {"bundle": model.fingerprint, "bundle_address": model.address}
        provenance |= {f"input/{file.name}": file.fingerprint for file in inputs}
        log = stack.enter_context(tracker(f"generate-{output.job}")) if tracker else None
        if log:
            log.log_params(flatten(config) | provenance)
            log.set_tags({"config_hash": config_hash(config)})
        try:
            files = prepare_inputs(inputs, Folder(output.folder.at(INPUT)))
            rows = sum(file.rows for file in files)
            if not rows:
                raise CorpusError(f"{source} contains no record")
        except CorpusError:
            output.clear()  # `begin` would refuse the job of the corrected input, which has another fingerprint
            raise
        part = f"{TEXTS}/{{}}-{output.job}.{config.format}"
        shards = plan_shards(files, config.rows_per_shard(rows), part, config.unique)
        settings = WorkerSettings(output.folder.address, output.job, model.address, model.fingerprint, config, critic)
        local_worker: Callable[[], BulkWorker] | None = None
        if endpoint:
            from agggen_platform.bulk.endpoint import EndpointWorker  # needs httpx

            local_worker = partial(EndpointWorker, endpoint, settings)
        elif config.actors == 0:
            local_worker = partial(BulkWorker, settings)
        results = driver.run_shards(
            shards,
            BulkWorker,
            settings,
            config,
            local_worker=local_worker,
            gpus=config.gpus_per_actor,
            check_inputs=partial(check_inputs_unchanged, inputs),
            progress=progress,
            log=log,
        )
        final_progress, seconds = results.progress(), time.monotonic() - start
        report = BulkReport(
            job=output.job, summary=results.counts, progress=final_progress, retries=results.retries, seconds=seconds
        )
        settings_of_texts = {
            name: value for name, value in resolved(config).items() if name in ("inference", *SETTINGS)
        }
        members = {"summary": results.counts.as_dict(), "config": settings_of_texts, **provenance}
        if critic:
            members["critic"] = critic[1]
        check_claim()
        part_files = [file for shard in shards for file in results.finished[shard.index].files]
        output.finish(part_files, members, _report_content(report, final_progress))
        if single_file:
            output.join()
        if log:
            log.log_metrics(results.metrics() | _metrics(report, results), step=len(shards))
        return replace(report, review=texts_to_review())


def _report_content(report: BulkReport, progress: Progress) -> dict[str, Any]:
    """The content of ``report.json``."""
    speeds = progress.counts.speeds(progress.seconds)
    return {
        "job": report.job,
        **report.summary.as_dict(),
        **report.summary.means(),
        "shards": {"total": progress.total, "reused": progress.reused, "redone": report.retries},
        "run": {"records": progress.counts.records, "seconds": report.seconds, **speeds},
    }


def _metrics(report: BulkReport, results: ShardResults[Counts]) -> dict[str, float]:
    """Metrics of the finished job for the run log, in addition to `ShardResults.metrics`."""
    return {
        **report.summary.means(),
        "redone_shards": report.retries,
        "seconds": report.seconds,
        "worker_seconds": sum(result.seconds for result in results.finished.values()),
        **{f"plan_length/{length}": float(count) for length, count in report.summary.plan_lengths.items()},
    }
