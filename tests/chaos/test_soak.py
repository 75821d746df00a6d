"""Under mixed load with kills no answer is wrong or lost, memory is bounded, and in the end nothing is left.

AGGGEN_SOAK_SECONDS says how long: 60 by default, 600 for one that is worth its name.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.chaos.growth import Growth, Sample, growth
from tests.chaos.report import Observed
from tests.chaos.soak import VICTIMS, schedule
from tests.processes import Running

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

SECONDS = float(os.environ.get("AGGGEN_SOAK_SECONDS", "60"))
REPO = Path(__file__).parents[2]
_OF_RAY = {"ActorLocationTracker", "_AutoscalingCoordinatorActor", "_StatsActor"}  # Ray Data's, one each a cluster


def marked(mark: str) -> list[str]:
    """The titles of processes of this machine whose environment has this mark."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("SOAK") == mark:
                found.append(" ".join(process.cmdline()))
    return found


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder for temporary files that nothing else uses."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        yield Path(folder)


@pytest.mark.fault("soak: replicas and workers are killed under mixed load")
def test_mixed_load_with_kills(tmp_path: Path, scratch: Path, observed: Observed) -> None:
    mark = uuid.uuid4().hex
    env = {
        "SOAK": mark,
        "TMPDIR": str(scratch),
        "RAY_TMPDIR": "/tmp",  # whose sessions stay, with their logs
        "AGGGEN_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": f"{REPO}:{REPO / 'platform'}",
        "OMP_NUM_THREADS": "1",
    }
    command = ["-m", "tests.chaos.soak", "--seconds", str(SECONDS), str(tmp_path)]
    with Running(command, tmp_path, env) as program:
        assert program.finish(SECONDS * 2 + 400) == 0, program.output()
        left = marked(mark)
    assert left == [], "processes outlived it"
    said: dict[str, Any] = json.loads(program.output().splitlines()[-1])
    assert said["wrong"] == []
    assert {kill["victim"] for kill in said["kills"]} == set(VICTIMS)
    assert said["requests"] > SECONDS / 2
    assert said["streams"] >= 1
    assert said["bulk_jobs"] >= 1
    watched = {one["role"] for one in said["growth"]}
    assert {"ingress", "planner", "generator", "controller"} <= watched, "they did not live long enough to be judged"
    assert [one for one in said["growth"] if one["leaks"]] == []
    assert not [name for name in said["actors_while_serving"] if "BulkWorker" in name or "MapWorker" in name]
    assert set(said["actors_left"]) <= _OF_RAY
    assert said["placement_groups_left"] == 0
    assert list(scratch.iterdir()) == [], "temporary files were left"
    fastest = said["growth"][0]
    observed(
        f"{said['seconds']:.0f} s: {said['requests']} requests, {said['streams']} streams, "
        f"{said['bulk_jobs']} bulk jobs, {len(said['kills'])} kills: none wrong or lost; "
        f"fastest growth {fastest['slope']:.1f} MiB/min ({fastest['role']}, {fastest['allowed']:.1f} allowed)",
        max(kill["failing"] for kill in said["kills"]),
    )


# --- what it is judged by -------------------------------------------------------------------------------------------


def samples(mib_a_minute: float, seconds: int, files: int = 0) -> list[Sample]:
    """A process that begins with a rush, is noisy, now and then has a peak, and grows."""
    return [
        Sample(
            100.0 + t,
            200
            + 80 * (1 - math.exp(-t / 4))
            + 3 * math.sin(t * 2.3)
            + (60 if t % 17 == 0 else 0)
            + mib_a_minute * t / 60,
            40 + t % 5 + files * t // seconds,
        )
        for t in range(seconds)
    ]


def judged(mib_a_minute: float, seconds: int, files: int = 0) -> Growth:
    found = growth("generator", 7, samples(mib_a_minute, seconds, files))
    assert found is not None
    return found


def test_a_leak_is_found_and_a_rush_at_the_beginning_is_none() -> None:
    for seconds in (60, 600):
        assert not judged(0, seconds).leaks
    assert judged(80, 60).leaks
    assert judged(10, 600).leaks
    assert judged(10, 600).slope == pytest.approx(10, abs=1)
    assert judged(0, 600, files=100).leaks
    assert growth("generator", 7, samples(100, 20)) is None, "too short to say"


def test_kills_follow_from_the_seed_and_each_victim_has_its_turn() -> None:
    assert schedule(60, 1) == schedule(60, 1) != schedule(60, 2)
    for seconds in (60, 600):
        plan = schedule(seconds, 1)
        times = [when for when, _ in plan]
        assert times == sorted(times) and times[0] >= 5 and times[-1] <= seconds - 5
        assert {victim for _, victim in plan} == set(VICTIMS)
    assert len(schedule(600, 1)) == 2 * len(VICTIMS)
