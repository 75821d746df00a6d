"""Memory and open files of processes over time, and whether they grow without bound."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

import psutil

MIB = 1 << 20
STARTED = 0.8
"""Share of its final memory below which a process is still starting, which takes long on a busy machine."""
WARM_UP_SECONDS = 12.0
"""After the start; not judged."""
LEAST_SECONDS = 15.0
"""How long a process must have been watched after its warm-up to be judged."""
SETTLING_MIB = 24.0
"""Growth allowed once: buffers, bounded caches, arenas of the allocator."""
MIB_A_MINUTE = 2.0
"""Growth allowed all the time."""
MORE_FILES = 24
"""Additional open files allowed: connections come and go."""


@dataclass(frozen=True)
class Sample:
    """A process at one moment."""

    at: float
    """Seconds (monotonic)."""
    mib: float
    """Resident memory that is not shared."""
    files: int


@dataclass(frozen=True)
class Growth:
    """From the first third of a process's time to the last, by their medians."""

    role: str
    pid: int
    minutes: float
    mib: float
    """At the end."""
    more_mib: float
    more_files: float

    @property
    def allowed(self) -> float:
        """MiB."""
        return SETTLING_MIB + MIB_A_MINUTE * self.minutes

    @property
    def leaks(self) -> bool:
        return self.more_mib > self.allowed or self.more_files > MORE_FILES


def growth(role: str, pid: int, samples: Sequence[Sample]) -> Growth | None:
    """The growth of one process; None if it did not live long enough to be judged."""
    final = median([sample.mib for sample in samples[-max(1, len(samples) // 3) :]])
    started = next((sample.at for sample in samples if sample.mib >= STARTED * final), samples[-1].at)
    settled = [sample for sample in samples if sample.at - started >= WARM_UP_SECONDS]
    if len(settled) < 10 or settled[-1].at - settled[0].at < LEAST_SECONDS:
        return None
    first, last = settled[: len(settled) // 3], settled[-(len(settled) // 3) :]
    mib = median([sample.mib for sample in last])
    more_mib = mib - median([sample.mib for sample in first])
    more_files = median([sample.files for sample in last]) - median([sample.files for sample in first])
    return Growth(role, pid, (settled[-1].at - settled[0].at) / 60, mib, more_mib, more_files)


class Watch:
    """Samples the descendants of this process whose titles begin with certain words; a context manager."""

    def __init__(self, titles: Mapping[str, str], every: float) -> None:
        """`titles`: by role; `every`: seconds between samples."""
        self._titles, self._every = titles, every
        self._samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def found(self) -> list[Growth]:
        """The growth of each process that lived long enough, the fastest growing first."""
        processes = [growth(role, pid, samples) for (role, pid), samples in list(self._samples.items())]
        judged = [process for process in processes if process is not None]
        return sorted(judged, key=lambda process: -process.more_mib / process.minutes)

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it ended meanwhile
                    title = " ".join(child.cmdline())
                    role = next((role for role, start in self._titles.items() if title.startswith(start)), None)
                    if role is not None:
                        memory = child.memory_info()
                        mib = (memory.rss - memory.shared) / MIB
                        self._samples[role, child.pid].append(Sample(time.monotonic(), mib, child.num_fds()))
