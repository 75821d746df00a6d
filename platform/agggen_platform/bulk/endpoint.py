"""A bulk worker that sends its records to an HTTP endpoint; it writes the same files as `BulkWorker`."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from agggen.errors import ConfigError
from agggen.generation import generator
from agggen.generation.config import InferenceConfig
from agggen.generation.results import Generation
from agggen.records import Plan, Record
from agggen_platform.bulk.rows import Counts, generation_of
from agggen_platform.bulk.worker import BATCH_ROWS, BulkWorker, WorkerSettings
from agggen_platform.client import Client, EndpointError
from agggen_platform.client.client import in_parallel
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import FinishedShard

_OPTIONS = ("level", "plans", "planner", "top_p", "ablation", "seed", "verify")
_TIMEOUT = 540.0  # seconds per attempt; a batch may wait in the endpoint's queue
_DEADLINE = 1800.0  # seconds per request, retries included


class EndpointWorker(BulkWorker):
    """Processes several shards concurrently, as many as the endpoint's generators need to stay busy."""

    def __init__(self, url: str, settings: WorkerSettings) -> None:
        """Raises ConfigError if an inference setting has no request option, and the errors of `BulkWorker`."""
        super().__init__(settings)
        self.client = Client(url, timeout=_TIMEOUT, deadline=_DEADLINE)
        config = settings.config
        options = options_of(config.inference, self.generator.config)
        # Each request is a separate batch, for reproducible log-probabilities.
        options |= {"n_best": config.n_best, "complete": config.complete, "alone": True}
        self.generator = cast(Any, _EndpointGenerator(self.client, self.generator, settings.fingerprint, options))

    def run_all(self, shards: Sequence[Shard]) -> Iterator[FinishedShard[Counts]]:
        return in_parallel(iter(shards), self.run, self.client.width(BATCH_ROWS))

    def close(self) -> None:
        super().close()
        self.client.close()


class _EndpointGenerator:
    """Stands in for a `Generator` in `RowWriter`: validates records locally and generates texts at the endpoint."""

    def __init__(self, client: Client, local: generator.Generator, fingerprint: str, options: dict[str, Any]) -> None:
        self.client, self.fingerprint, self.options = client, fingerprint, options
        self.planner, self.checker = local.planner, local.checker

    def generate(self, records: Sequence[Record], plans: Sequence[Plan | None], *_: object) -> list[list[Generation]]:
        """Raises JobError if the endpoint fails or serves another bundle; RuntimeError if it rejects the records."""
        request_records = [
            {"triples": record.as_dict()["triples"]} | ({} if plan is None else {"plan": str(plan)})
            for record, plan in zip(records, plans, strict=True)
        ]
        try:
            answers = self.client.generate(request_records, **self.options)
        except EndpointError as error:
            if error.problem is not None and (error.is_too_large or (error.record and not error.problem["retryable"])):
                raise RuntimeError(error.problem["detail"]) from error
            raise JobError(f"{error}; finished shards are kept; run the same command again to resume") from error
        texts: list[list[Generation]] = []
        for record, answer in zip(records, answers, strict=True):
            if answer["status"] == "error":
                detail = answer["error"]["detail"]
                if answer["error"]["retryable"]:
                    raise JobError(f"{self.client.url}: {detail}; run the same command again to resume")
                raise RuntimeError(detail)
            if answer["model"] != self.fingerprint:
                raise JobError(
                    f"{self.client.url} serves the bundle {answer['model'][:12]}, but the job's bundle is "
                    f"{self.fingerprint[:12]}: start the job with the bundle that the endpoint serves"
                )
            texts.append([generation_of(record.id, text) for text in answer["texts"]])
        return texts


def options_of(requested: InferenceConfig, served: InferenceConfig) -> dict[str, Any]:
    """The request options that change the settings from `served` to `requested`; raises ConfigError if none can."""
    options = {name: getattr(requested, name) for name in _OPTIONS}
    effective_config = replace(served, **options, beam=replace(served.beam, beam=requested.beam.beam))
    for field in fields(requested):
        if getattr(requested, field.name) != getattr(effective_config, field.name):
            raise ConfigError(f"inference.{field.name} cannot be sent to an endpoint: keep the bundle's own value")
    return options | {"beam": requested.beam.beam}
