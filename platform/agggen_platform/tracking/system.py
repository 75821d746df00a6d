"""CPU, memory and GPU usage of this machine, in the run log: MLflow's own thread loses values if its server is down."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any


class SystemMetrics:
    """Logs metrics ``system/...`` every `seconds` on a thread; never if `seconds` is 0."""

    def __init__(self, seconds: float, log: Callable[[Mapping[str, float]], None]) -> None:
        self._seconds, self._log = seconds, log
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="system metrics", daemon=True)

    def start(self) -> None:
        """Starts the thread; further calls do nothing."""
        if self._seconds and self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
            from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
        except ImportError:  # no MLflow
            return
        monitors: list[Any] = [CPUMonitor()]
        with suppress(ImportError, RuntimeError):  # no nvidia-ml-py, or no GPU
            monitors.append(GPUMonitor())
        while not self._stop.wait(self._seconds):
            values: dict[str, float] = {}
            for monitor in monitors:
                monitor.collect_metrics()
                values |= monitor.aggregate_metrics()
                monitor.clear_metrics()
            self._log({f"system/{name}": value for name, value in values.items()})
