"""Kills a process that saves checkpoints at random times. The last reported or a newer checkpoint must be intact."""

import random
import time
from pathlib import Path

import pytest

from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy
from tests.processes import Running
from tests.s3_faults import FaultyS3

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

KILLS = 12
SIZE = 6 << 20  # two parts of a multipart upload, the last one small
POLICY = Policy(part=5 << 20)

SAVE = """
import sys
from pathlib import Path
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy

where, size, scratch = sys.argv[1], int(sys.argv[2]), Path("checkpoint")
store = CheckpointStore(Folder(where, Policy(part=5 << 20)), report=print)
saved = store.latest("joint")
step = saved.step if saved else 0
print("start", flush=True)
while True:
    step += 1
    # Every third checkpoint is large: a multipart upload.
    scratch.write_bytes(f"{step:08d}".encode() * (50_000 if step % 3 else size // 8))
    store.save("joint", step, scratch)
    print("saved", step, flush=True)
"""


def last_saved(process: Running) -> int:
    """The last step that the process reported as saved; an incomplete line does not count."""
    lines = [line.split() for line in process.output().rpartition("\n")[0].splitlines()]
    return max((int(words[1]) for words in lines if words[0] == "saved"), default=0)


def seconds_per_save(process: Running, reached: int, saves: int) -> float:
    """The mean seconds of the `saves` saves after step `reached`."""
    begin = time.monotonic()
    process.wait_until(lambda: last_saved(process) >= reached + saves, f"{saves} saves")
    return (time.monotonic() - begin) / saves


@pytest.mark.parametrize("store", ["local", "s3"])
def test_killed_at_any_moment(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if store == "local":
        address = str(tmp_path / "run")
    else:
        address = request.getfixturevalue("s3") + "/run"
        faulty: FaultyS3 = request.getfixturevalue("faulty_s3")
        faulty.bytes_per_second = 40e6
    with Running(["-c", SAVE, address, str(SIZE)], tmp_path) as process:
        process.wait_until(lambda: "start" in process.output(), "start")
        save_seconds = seconds_per_save(process, 0, 6)
        process.kill()
    reached = last_saved(process)
    folder = Folder(address, POLICY)
    rng = random.Random(20211)
    for kill in range(KILLS):
        with Running(["-c", SAVE, address, str(SIZE)], tmp_path) as process:
            process.wait_until(lambda process=process: "start" in process.output(), "start")
            if saves := rng.randrange(3):  # the kill comes during the next save
                save_seconds = seconds_per_save(process, reached, saves)
            time.sleep(rng.uniform(0, save_seconds))
            process.kill()
        reached = max(reached, last_saved(process))
        assert "Error" not in process.output()

        reports: list[str] = []
        target = tmp_path / "restored"
        saved = CheckpointStore(folder, report=reports.append).restore("joint", target)
        assert reports == [], f"kill {kill} damaged a checkpoint"
        step = saved.step if saved else 0
        assert step >= reached, f"kill {kill} lost a checkpoint: {reached} was saved, the newest is {step}"
        if saved:
            content = target.read_bytes()
            assert content == f"{step:08d}".encode() * (len(content) // 8)
            assert len(content) == (400_000 if step % 3 else SIZE)
        reached = step

    with Running(["-c", SAVE, address, str(SIZE)], tmp_path) as process:
        process.wait_until(lambda: last_saved(process) >= reached + 2, "two more saves")
    CheckpointStore(folder).save("joint", 10**6, Path(__file__))
    assert len(folder.names("joint")) == 3  # the index and two checkpoints; no temporary files
