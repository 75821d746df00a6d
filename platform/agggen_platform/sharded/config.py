"""Settings and errors of sharded jobs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from agggen.errors import AggGenError, ConfigError

SMALLEST_SHARD = 64
"""The smallest default of `shard_rows`."""
ALL_FAILED = 20
"""If at least this many inputs are processed and all fail, the job stops: a model or device seems defective."""


class JobError(AggGenError):
    """The job failed, or its result was refused; finished shards are kept."""

    exit_code = 4


@dataclass(frozen=True)
class ShardedConfig:
    """Sharding and workers."""

    max_reject_share: float = 0.01  # the job fails if more than this share of the rows is rejected
    actors: int | None = None
    """The largest number of workers, with one CPU each. None: as many as the cluster has or may add CPUs for; 0: this
    process does the work, without Ray."""
    ray_address: str | None = None  # the Ray cluster (see ``ray_cluster``)
    shard_rows: int = 0
    """Rows of a shard, which is processed, committed and retried as a whole and becomes one part of the output. 0: 1/64
    of the input, but at least 64 and at most 4,096 rows, regardless of the number of workers."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_reject_share <= 1:
            raise ConfigError(f"max_reject_share is a share, from 0 to 1, not {self.max_reject_share}")
        if self.actors is not None and self.actors < 0:
            raise ConfigError(f"actors must be 0 (no Ray) or more, not {self.actors}")
        if self.shard_rows < 0:
            raise ConfigError(f"shard_rows must be at least 1, or 0 to choose it by the input, not {self.shard_rows}")

    def rows_per_shard(self, rows: int) -> int:
        """``shard_rows``, or its default for an input of this many `rows`."""
        return self.shard_rows or min(4096, max(SMALLEST_SHARD, -(-rows // 64)))


def fingerprint(content: dict[str, Any]) -> str:
    """Identifies a job by everything that affects its result; settings that only affect the speed are left out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def check_unchanged(address: str, before: str, now: str) -> None:
    """Raises JobError if the input at `address` changed its fingerprint or version from `before` to `now`."""
    if now != before:
        raise JobError(f"{address} changed while it was read; run the job again with --fresh when it no longer does")
