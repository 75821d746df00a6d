"""The base class of planners and generators: a tested bundle, a batcher, health checks, the metric for autoscaling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic

import torch

from agggen.bundle import load_bundle
from agggen.errors import BundleError
from agggen_platform.registry.admission import fetch, smoke_test
from agggen_platform.serving.config import ReplicaConfig, ServeConfig
from serve.batching import A, Batcher, Measure, T
from serve.engine import ByModel, Failure
from serve.meters import Meters
from serve.observe import log_as_replica
from serve.scaling import RECORDS

_SUSPICIOUS = 3  # failed records in a row, after which the self-test runs


class Replica(ABC, Generic[T, A]):
    """A replica that processes batches with a bundle."""

    def __init__(self, config: ServeConfig, role: ReplicaConfig) -> None:
        """Loads the bundle of the configuration and generates texts with it before the replica takes requests.

        `config.bundle` must not be an alias, since aliases can move. Torch gets one thread per CPU of the role.

        Raises:
            BundleError: there is no bundle, it has another fingerprint, or it does not pass its self-test.
            StorageError: the store refused access or did not answer.
        """
        log_as_replica(config.log)
        torch.set_num_threads(max(1, int(role.cpus)))
        path, self._fingerprint = fetch(config.bundle, config.fingerprint)
        self._bundle = load_bundle(path)
        if role.gpus and not torch.cuda.is_available():
            raise BundleError(f"{role.gpus:g} GPUs were asked for, but torch sees none here")
        self._device = "cuda" if role.gpus else "cpu"
        if faults := smoke_test(self._bundle, device=self._device):
            raise BundleError(f"the bundle at {config.bundle} does not pass its self-test: {faults[0]}")
        self._address = config.shown_as or config.bundle
        self._longest, self._meters = config.limits.longest_deadline_s, Meters()
        self._batcher: Batcher[T, A] = Batcher(self._work, config.batch, self._measure, self._meters)

    async def _answers(self, items: Sequence[T], seconds: float) -> ByModel[Any]:
        """The answers to the items within `seconds`; a batch may contain items of several calls."""
        return ByModel(await self._batcher.submit(items, seconds), self._fingerprint)

    @abstractmethod
    def _work(self, work: str, items: Sequence[T]) -> Sequence[A | Failure]:
        """The answers to a batch; see `Batcher`."""

    @abstractmethod
    def _measure(self, item: T) -> Measure:
        """The properties of an item that decide which items share its batch."""

    @abstractmethod
    def _test(self) -> Sequence[str]:
        """Runs a self-test in the batcher's thread and returns its failures."""

    def record_autoscaling_stats(self) -> dict[str, float]:
        """The metric for `serve.scaling.by_records`, which Serve's controller collects."""
        return {RECORDS: self._batcher.load}

    async def check_health(self) -> None:
        """Checks that the replica works, and exports the bundle that it serves as a metric.

        After several unexpected failures of records in a row, the self-test runs. If it fails too, RuntimeError makes
        Serve replace the replica: its device may be lost, and a new process may work.
        """
        if self._batcher.stuck(self._longest):
            raise RuntimeError(f"a batch has been in progress for more than {self._longest:g} s")
        failed = self._batcher.failed_in_a_row
        if failed >= _SUSPICIOUS:
            if faults := await self._batcher.run(self._test):
                raise RuntimeError(f"{failed} records in a row failed, and so does a test: {faults[0]}")
            self._batcher.failed_in_a_row = 0
        self._meters.bundle(self._fingerprint, self._address)
