"""Under mixed load with kills no answer is wrong or lost, memory is bounded, and in the end nothing is left.

AGGGEN_SOAK_SECONDS says how long: 60 by default, 600 for one that is worth its name.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.chaos.soak import VICTIMS, WATCHED
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


def test_mixed_load_with_kills(tmp_path: Path, scratch: Path) -> None:
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
        assert program.finish(SECONDS * 2 + 600) == 0, program.output()
        left = marked(mark)
    assert left == [], "processes outlived it"
    said: dict[str, Any] = json.loads(program.output().splitlines()[-1])
    assert said["wrong"] == []
    assert {kill["victim"] for kill in said["kills"]} == set(VICTIMS)
    assert said["requests"] > SECONDS / 2
    assert said["streams"] >= 1
    assert said["bulk_jobs"] >= 1
    watched = {one["role"] for one in said["growth"]}
    assert {*WATCHED} <= watched, "they did not live long enough to be judged"
    assert [one for one in said["growth"] if one["leaks"]] == []
    assert not [name for name in said["actors_while_serving"] if "BulkWorker" in name or "MapWorker" in name]
    assert set(said["actors_left"]) <= _OF_RAY
    assert said["placement_groups_left"] == 0
    assert list(scratch.iterdir()) == [], "temporary files were left"
