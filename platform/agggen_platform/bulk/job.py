"""The driver of a bulk generation job: plans shards, runs workers, publishes the output."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from agggen.checks import CheckedText
from agggen.config import config_hash, flatten, resolved
from agggen.errors import ConfigError, CorpusError
from agggen_platform.bulk.inputs import check_inputs_unchanged, find_inputs, plan_shards, prepare_inputs
from agggen_platform.bulk.model import SETTINGS, BulkConfig, Model, fingerprint, job_identity
from agggen_platform.bulk.output import INPUT, TEXTS, Output, riskiest
from agggen_platform.bulk.rows import Counts
from agggen_platform.bulk.worker import BulkWorker, WorkerSettings
from agggen_platform.sharded import driver
from agggen_platform.storage.critics import open_critic, resolve_critic
from agggen_platform.storage.folder import Folder
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
        tracker: creates the run log of an unfinished job from its name.
        single_file: also join the parts into ``out/texts.parquet`` (or .jsonl), for small jobs.
        endpoint: the URL of an endpoint that serves the bundle; it generates the texts, with the same result.
        review: number of riskiest texts in the report; needs `config.critic`, else ConfigError.

    Raises CorpusError if the input cannot be read, or `out` contains other files; ClaimedError if another job is
    writing to `out`; JobError if the input changed, too many records were rejected, the generator failed on every
    record, or workers died repeatedly. The next run reuses the finished shards.
    """
    if review and config.critic is None:
        raise ConfigError("a review needs the scores of a critic: set critic=included")
    critic = None
    if config.critic is not None:
        critic_address = resolve_critic(config.critic)
        critic = critic_address, open_critic(critic_address)[1]
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
        counts, retries, last = results.counts, results.retries, results.progress()
        seconds = time.monotonic() - start
        text_settings = {name: value for name, value in resolved(config).items() if name in ("inference", *SETTINGS)}
        members = {"summary": counts.as_dict(), "config": text_settings, **provenance}
        if critic:
            members["critic"] = critic[1]
        check_claim()
        part_files = [file for shard in shards for file in results.finished[shard.index].files]
        speeds = last.counts.speeds(last.seconds)
        content = {
            "job": output.job,
            **counts.as_dict(),
            **counts.means(),
            "shards": {"total": last.total, "reused": last.reused, "redone": retries},
            "run": {"records": last.counts.records, "seconds": seconds, **speeds},
        }
        output.finish(part_files, members, content)
        if single_file:
            output.join()
        if log:
            metrics = results.metrics() | counts.means() | {"redone_shards": retries, "seconds": seconds}
            metrics["worker_seconds"] = sum(result.seconds for result in results.finished.values())
            metrics |= {f"plan_length/{length}": float(count) for length, count in counts.plan_lengths.items()}
            log.log_metrics(metrics, step=len(shards))
        texts = texts_to_review()
    return BulkReport(job=output.job, summary=counts, progress=last, retries=retries, seconds=seconds, review=texts)
