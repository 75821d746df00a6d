"""What planners and generators share: loading a bundle, its self-test, and health checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from agggen.bundle import Bundle, fingerprint, load_bundle
from agggen.errors import BundleError
from agggen_platform.registry.admission import smoke
from agggen_platform.serving.config import LogConfig, ReplicaConfig
from agggen_platform.storage.bundles import get_bundle
from serve.batching import Batcher
from serve.meters import replica_id
from serve.observe import set_up_logging


@dataclass(frozen=True)
class Served:
    """A bundle that passed its self-test on this replica's device."""

    bundle: Bundle
    address: str
    fingerprint: str
    device: str  # that it was tested on


def log_as_replica(log: LogConfig) -> None:
    """Logs JSON lines if this process is a replica of Ray Serve; else logging stays as it is."""
    if replica := replica_id():
        set_up_logging(log, replica=replica)


def load(address: str, expected: str | None, config: ReplicaConfig) -> Served:
    """The bundle at `address`, once it has written a text here; torch gets as many threads as the replica has CPUs.

    Args:
        address: where the bundle lies; an alias was resolved before.
        expected: its fingerprint; None takes any.
        config: the replica's CPUs and GPUs.

    Raises:
        BundleError: there is no bundle, its fingerprint is not the expected one, or it fails its self-test.
        StorageError: the store refused or did not answer.
    """
    torch.set_num_threads(max(1, int(config.cpus)))
    path = get_bundle(address)
    actual = fingerprint(path)
    if expected is not None and actual != expected:
        raise BundleError(
            f"{address} is another bundle than was asked for: its fingerprint is {actual}, not {expected}"
        )
    bundle = load_bundle(path)
    if config.gpus and not torch.cuda.is_available():
        raise BundleError(f"{config.gpus:g} GPUs were asked for, but torch sees none here")
    device = "cuda" if config.gpus else "cpu"
    if faults := smoke(bundle, device=device):
        raise BundleError(f"the bundle at {address} does not pass its self-test: {faults[0]}")
    return Served(bundle, address, actual, device)


async def check(batcher: Batcher[Any, Any], test: Callable[[], Sequence[str]], longest: float) -> None:
    """Checks that the replica works.

    Unexpected failures of records count only if the self-test fails too: then the device may be lost, and another
    process may work.

    Args:
        batcher: of the replica.
        test: the self-test, which lists its failures; it runs in the batcher's thread, after several failed records.
        longest: seconds after which a batch counts as stuck.

    Raises:
        ReplicaError: it should be replaced.
    """
    if batcher.stuck(longest):
        raise ReplicaError(f"a batch has been worked on for more than {longest:g} s")
    if batcher.failed_in_a_row >= _SUSPICIOUS:
        if faults := await batcher.run(test):
            raise ReplicaError(f"{batcher.failed_in_a_row} records in a row failed, and so does a test: {faults[0]}")
        batcher.failed_in_a_row = 0


class ReplicaError(RuntimeError):
    """The replica no longer works and should be replaced."""


_SUSPICIOUS = 3
