"""Settings of jobs over shards, and their errors."""

from __future__ import annotations

from dataclasses import dataclass

from agggen.errors import AggGenError, ConfigError


class JobError(AggGenError):
    """The job cannot continue, or its result cannot be accepted; finished shards are kept."""

    exit_code = 4


@dataclass(frozen=True)
class ShardedConfig:
    """How the work is divided and distributed."""

    max_reject_share: float = 0.01
    """A larger share of rejects fails the job."""
    actors: int | None = None
    """Workers; by default one a CPU of the cluster. 0: this process, without Ray."""
    ray_address: str | None = None
    """Of the Ray cluster (see ``ray_cluster``)."""
    shard_rows: int = 256
    """Records that are processed, committed and, after a failure, repeated together."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_reject_share <= 1:
            raise ConfigError(f"max_reject_share is a share, from 0 to 1, not {self.max_reject_share}")
        if self.actors is not None and self.actors < 0:
            raise ConfigError(f"actors must be 0 (no Ray) or more, not {self.actors}")
        if self.shard_rows < 1:
            raise ConfigError(f"shard_rows must be at least 1, not {self.shard_rows}")


def check_unchanged(address: str, before: str, now: str, error: type[JobError]) -> None:
    """Passes if the fingerprint of the input at `address` is still what it was.

    Raises:
        JobError: of the class `error`.
    """
    if now != before:
        raise error(f"{address} changed while it was read; when it no longer changes, --fresh reads it again")


def check_rejects(rejects: int, total: int, limit: float, what: str, where: str, error: type[JobError]) -> None:
    """Passes if `rejects` are at most the share `limit` of `total`.

    Args:
        what: the rejected things, a plural.
        where: the address of the reasons.

    Raises:
        JobError: of the class `error`.
    """
    if rejects > limit * total:
        raise error(
            f"{rejects:,} of {total:,} {what} were rejected ({rejects / total:.1%}, at most {limit:.1%} "
            f"allowed: max_reject_share); {where} says why. Nothing was published; the same command "
            "retries those that failed for another reason, and with a larger share publishes the rest"
        )
