"""Settings and errors of sharded jobs."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from agggen.errors import AggGenError, ConfigError, check_minima

SMALLEST_SHARD = 64  # the minimum that ``shard_rows=0`` chooses
MIN_FAILURES_TO_STOP = 20
"""If a whole batch of at least this many inputs fails, the job stops: the model or device is probably defective."""


class JobError(AggGenError):
    """The job failed, or too many rows were rejected; finished shards are kept."""

    exit_code = 4


@dataclass(frozen=True)
class ShardedConfig:
    max_reject_share: float = 0.01  # the job fails if more than this share of the rows is rejected
    actors: int | None = None
    """Maximum number of workers, with one CPU each. None: one per CPU that the cluster has or its autoscaler can add;
    0: process all shards in this process, without Ray."""
    ray_address: str | None = None  # the Ray cluster (see ``ray_cluster``)
    shard_rows: int = 0
    """Rows per shard; a shard is processed, committed and retried as a unit, and becomes one output file. 0: 1/64 of
    the input, but at least 64 and at most 4,096 rows, regardless of the number of workers."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_reject_share <= 1:
            raise ConfigError(f"max_reject_share must be from 0 to 1, not {self.max_reject_share}")
        check_minima(self, {"shard_rows": 0} | ({} if self.actors is None else {"actors": 0}))

    def rows_per_shard(self, rows: int) -> int:
        """``shard_rows`` if set, else the default for an input with this number of `rows`."""
        return self.shard_rows or min(4096, max(SMALLEST_SHARD, -(-rows // 64)))


def fingerprint(content: dict[str, Any]) -> str:
    """A hash that identifies a job; `content`: all that affects its result, and nothing else."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def check_unchanged(address: str, expected: str, current: str) -> None:
    """Raises JobError if the `current` fingerprint or version of the input at `address` is not the `expected` one."""
    if current != expected:
        raise JobError(f"{address} changed while it was read; wait until it is stable, then run again with --fresh")
