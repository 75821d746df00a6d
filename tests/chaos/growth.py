"""What processes hold over time, memory and open files, and whether it grows for ever."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median_high

import psutil
from scipy.stats import theilslopes

MIB = 1 << 20
STARTED = 0.8
"""Of its memory in the end: before it holds so much, a process starts, which takes long on a busy machine."""
WARM_UP_SECONDS = 12.0
"""After that, in which a process allocates and opens what it needs; not looked at."""
LEAST_SECONDS = 15.0
"""That a process must have been watched after that."""
SETTLING_MIB = 24.0
"""That a process may grow by once, whenever it is: buffers, caches that are bounded, arenas of the allocator."""
MIB_A_MINUTE = 2.0
"""That it may grow by all the time."""
MORE_FILES = 24
"""Open files that a process may have more in the end than in the beginning: connections come and go."""


@dataclass(frozen=True)
class Sample:
    """A process at one moment."""

    at: float
    """Seconds (monotonic)."""
    mib: float
    """Memory that is its own: resident, and not shared."""
    files: int


@dataclass(frozen=True)
class Growth:
    """What became of one process."""

    role: str
    pid: int
    minutes: float
    mib: float
    """In the end, the median of the last third."""
    slope: float
    """MiB a minute, by Theil and Sen: the median of the slopes between all pairs of samples."""
    surely: float
    """The lower end of its 95 % interval: it grows at least so fast."""
    files: int
    more_files: int
    """From the first third of the time to the last, by their medians."""

    @property
    def allowed(self) -> float:
        """MiB a minute."""
        return MIB_A_MINUTE + SETTLING_MIB / self.minutes

    @property
    def leaks(self) -> bool:
        """Whether it surely grows faster than allowed, or keeps files open."""
        return self.surely > self.allowed or self.more_files > MORE_FILES


def growth(role: str, pid: int, samples: Sequence[Sample]) -> Growth | None:
    """What the samples of one process say; None where it did not live long enough to say anything."""
    final = median_high([one.mib for one in samples[-max(1, len(samples) // 3) :]])
    started = next((one.at for one in samples if one.mib >= STARTED * final), samples[-1].at)
    settled = [one for one in samples if one.at - started >= WARM_UP_SECONDS]
    if len(settled) < 10 or settled[-1].at - settled[0].at < LEAST_SECONDS:
        return None
    minutes = [(one.at - settled[0].at) / 60 for one in settled]
    slope, _, low, _ = theilslopes([one.mib for one in settled], minutes, alpha=0.95)
    third = max(1, len(settled) // 3)
    first, last = settled[:third], settled[-third:]
    before, after = (median_high([one.files for one in some]) for some in (first, last))
    mib = median_high([one.mib for one in last])
    return Growth(role, pid, minutes[-1], mib, float(slope), float(low), int(after), int(after - before))


class Watch:
    """Looks at the processes below this one, by the start of their titles; a context manager."""

    def __init__(self, titles: Mapping[str, str], every: float) -> None:
        """`titles`: by role; `every`: seconds between two looks."""
        self._titles, self._every = titles, every
        self._samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_again, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def found(self) -> list[Growth]:
        """What became of each process that lived long enough, the fastest growing first."""
        every = [growth(role, pid, some) for (role, pid), some in list(self._samples.items())]
        return sorted((one for one in every if one is not None), key=lambda one: -one.surely)

    def _look_again(self) -> None:
        while not self._stop.wait(self._every):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it ended meanwhile
                    title = " ".join(child.cmdline())
                    role = next((role for role, begin in self._titles.items() if title.startswith(begin)), None)
                    if role is not None:
                        memory = child.memory_info()
                        mib = (memory.rss - memory.shared) / MIB
                        self._samples[role, child.pid].append(Sample(time.monotonic(), mib, child.num_fds()))
