"""A clock that is set back and forth while work goes on: nothing that agggen waits for or orders follows it."""

import time
from itertools import pairwise
from pathlib import Path

import pytest

from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.journal import entries
from tests.s3_faults import FaultyS3

pytestmark = pytest.mark.chaos

JUMPS = (-3600.0, 86400.0, -7 * 86400.0)


class Clock:
    """The system's clock, as far as `time.time` shows it, with a hand on it."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._real = time.time

    def __call__(self) -> float:
        return self._real() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    hand = Clock()
    monkeypatch.setattr(time, "time", hand)
    return hand


def test_a_claim_stands(clock: Clock, s3: str, faulty_s3: FaultyS3) -> None:
    folder = Folder(f"{s3}/run")
    with claim(folder, beat=0.3) as check:
        for jump in JUMPS:
            clock.ahead += jump
            with pytest.raises(ClaimedError, match="another job works on"), claim(folder, beat=0.3):
                pass
            check()
    with claim(folder, beat=0.3) as check:
        check()


def test_a_run_is_logged_whole(clock: Clock, tmp_path: Path) -> None:
    begin = time.monotonic()
    with Tracker("nonsense://x", run_name="r", runs_dir=tmp_path, patience=1, report=lambda _: None) as tracker:
        for step in range(80):
            if step % 20 == 10 and step // 20 < len(JUMPS):
                clock.ahead += JUMPS[step // 20]
            tracker.log_metrics({"loss": 1 / (1 + step)}, step)
    assert time.monotonic() - begin < 60, "something waited for the clock"
    events = [entry.event for entry in entries(tracker.path)]
    assert [event["step"] for event in events if event and event["event"] == "metrics"] == list(range(80))
    times = [event["time"] for event in events if event]
    assert min(b - a for a, b in pairwise(times)) < -3000, "the clock did not jump"
