"""What a run takes of its machine, looked at now and then on a thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping

import psutil

_MIB = 1 << 20


class SystemMetrics:
    """Reports CPU and memory of this process and its children until stopped.

    ``system/cpu_percent`` (100 is one core kept busy), ``system/memory_mib`` (resident sets added up, so memory that
    processes share counts for each), ``system/gpu_memory_mib`` (held by torch in this process, over all its GPUs).
    """

    def __init__(self, seconds: float, log: Callable[[Mapping[str, float]], None]) -> None:
        """`seconds`: between two looks."""
        self._seconds, self._log = seconds, log
        self._processes: dict[psutil.Process, psutil.Process] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="system metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when no more is logged."""
        self._stop.set()
        self._thread.join()

    def look(self) -> dict[str, float]:
        """The metrics now. CPU is since the last look; a process that is first seen now counts with the next."""
        own = psutil.Process()
        # The objects are kept: each remembers the CPU time of the look before. They are equal if process and start are.
        self._processes = {one: self._processes.get(one, one) for one in [own, *own.children(recursive=True)]}
        cpu = memory = 0.0
        for process in self._processes.values():
            try:
                cpu += process.cpu_percent()
                memory += process.memory_info().rss
            except psutil.Error:  # it ended just now
                continue
        metrics = {"system/cpu_percent": cpu, "system/memory_mib": memory / _MIB}
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():  # to ask a GPU that nobody uses would occupy it
            held = sum(torch.cuda.memory_reserved(device) for device in range(torch.cuda.device_count()))
            metrics["system/gpu_memory_mib"] = held / _MIB
        return metrics

    def _run(self) -> None:
        self.look()
        due = time.monotonic() + self._seconds
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self._log(self.look())
            due = max(due + self._seconds, time.monotonic())
