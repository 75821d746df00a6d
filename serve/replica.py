"""The base class of planners and generators: tested bundle, batcher, health checks and the metric for autoscaling."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic

import torch

from agggen.bundle import load_bundle
from agggen.errors import BundleError
from agggen_platform.registry.admission import fetch, smoke_test
from agggen_platform.serving.config import ReplicaConfig, ServeConfig
from serve.batching import A, Batcher, T, Traits
from serve.engine import Failure, ReplicaAnswers
from serve.meters import Metrics
from serve.observe import log_as_replica
from serve.scaling import RECORDS

_FAILURES_BEFORE_TEST = 3  # consecutive failed records after which the self-test runs


class Replica(ABC, Generic[T, A]):
    def __init__(self, config: ServeConfig, role: ReplicaConfig) -> None:
        """Loads the configured bundle, which must not be an alias, since an alias can move.

        Raises BundleError if there is no bundle, it has another fingerprint, or it does not pass its self-test.
        """
        log_as_replica(config.log)
        torch.set_num_threads(max(1, int(role.cpus)))
        path, self._fingerprint = fetch(config.bundle, config.fingerprint)
        self._bundle = load_bundle(path)
        if role.gpus and not torch.cuda.is_available():
            raise BundleError(f"{role.gpus:g} GPUs are configured, but torch finds none")
        self._device = "cuda" if role.gpus else "cpu"
        if faults := smoke_test(self._bundle, device=self._device):
            raise BundleError(f"the bundle at {config.bundle} does not pass its self-test: {faults[0]}")
        self._address = config.shown_as or config.bundle
        self._max_batch_seconds, self._meters = config.limits.longest_deadline_s, Metrics()
        self._batcher: Batcher[T, A] = Batcher(self._work, config.batch, self._traits, self._meters)

    async def _answers(self, items: Sequence[T], seconds: float) -> ReplicaAnswers[Any]:
        """The answers to the items, or Failures after `seconds`; a batch may contain items of several calls."""
        return ReplicaAnswers(await self._batcher.submit(items, seconds), self._fingerprint)

    @abstractmethod
    def _work(self, work: str, items: Sequence[T]) -> Sequence[A | Failure]: ...

    @abstractmethod
    def _traits(self, item: T) -> Traits: ...

    @abstractmethod
    def _test(self) -> Sequence[str]:
        """Runs a self-test in the batcher's thread and returns its failures."""

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Called by Serve, for `serve.scaling.by_records`."""
        return {RECORDS: self._batcher.load}

    async def check_health(self) -> None:
        """Raises RuntimeError, so that Serve replaces the replica, if a batch hangs or the self-test fails.

        The self-test runs after several consecutive unexpected failures, as after the loss of a GPU.
        """
        if self._batcher.is_stuck(self._max_batch_seconds):
            raise RuntimeError(f"a batch has been in progress for more than {self._max_batch_seconds:g} s")
        n_failed = self._batcher.consecutive_failures
        if n_failed >= _FAILURES_BEFORE_TEST:
            if faults := await self._batcher.run(self._test):
                raise RuntimeError(f"{n_failed} consecutive records failed, and so does the self-test: {faults[0]}")
            self._batcher.consecutive_failures = 0
        self._meters.bundle(self._fingerprint, self._address)
