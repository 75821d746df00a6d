"""Jobs on a small disk that fills up while they run and has room again later, in a process of their own.

    results = on_small_disk(tmp_path, {"bulk": [bundle, records], "training": [corpus]})
    results["bulk"]["failures"][0]["message"]    # the error that the job ended with when there was no room

The disk is a file system in memory that goes with the process, filled by a file of its own. Where this user may not
mount one, the test is skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).parents[2]
_UNSHARE = ["unshare", "--mount", "--map-root-user"]
_SIZE = "48m"
Result = dict[str, Any]


class SmallDisk:
    """A disk that can be full and have room again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """From now on there is no room."""
        for size in (1 << 16, 1):  # then the rest of the last page
            with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
                while file.write(bytes(size)):
                    pass

    def empty(self) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)

    def failure(self, call: Callable[[], object], out: Path) -> Result:
        """How `call` fails on a full disk, and the files that it leaves in `out`. Afterwards there is room again."""
        from agggen.errors import AggGenError

        try:
            call()
        except AggGenError as error:
            result: Result = {"exit_code": error.exit_code, "message": str(error)}
        else:
            result = {"exit_code": 0, "message": ""}
        self.empty()
        files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
        return result | {"files": files}


def bulk(disk: SmallDisk, bundle: str, source: str) -> Result:
    """Full in the middle, then full when all shards are finished, then with room to the end."""
    from agggen_platform.bulk.job import Progress, generate
    from agggen_platform.bulk.model import open_model
    from tests.bulk_jobs import here, published

    model, out = open_model(bundle), disk.folder / "bulk"

    def fails(at: Callable[[Progress], int]) -> Result:
        def watch(now: Progress) -> None:
            if now.shards == at(now):
                disk.fill()

        return disk.failure(lambda: generate(model, source, str(out), here(model), progress=watch), out)

    failures = [fails(lambda now: 3), fails(lambda now: now.total)]
    report = generate(model, source, str(out), here(model))
    assert report.progress is not None
    found, total = report.progress.reused, report.progress.total
    return {"failures": failures, "found": found, "total": total, "published": digests(published(out))}


def training(disk: SmallDisk, corpus: str) -> Result:
    """An undisturbed run; one whose disk is full from its third update on, then from its fifth with the temporary files
    on that disk too, and the same again with room."""
    from agggen.bundle import fingerprint
    from agggen.training.events import TrainingEvent
    from agggen_platform.storage.checkpoints import CheckpointStore
    from agggen_platform.storage.folder import Folder
    from agggen_platform.training import job
    from tests.unit.training.toy import config_of

    job._Run.draw = lambda *_: None  # type: ignore[method-assign]  # figures take longer than training here
    config, runs = config_of(Path(corpus)), disk.folder / "runs"
    whole = job.train_job(config, "whole", runs_dir=runs)

    store = CheckpointStore(Folder(str(runs / "r" / "checkpoints")))

    def fails(update: int) -> Result:
        def fill(news: TrainingEvent) -> None:
            if (news.stage, news.kind, news.step) == ("baseline", "log", update):
                disk.fill()

        failure = disk.failure(lambda: job.train_job(config, "r", runs_dir=runs, show=fill), runs / "r")
        saved = store.restore("baseline", disk.folder / "restored")
        return failure | {"update": saved.step if saved else None}

    failures = [fails(3)]
    (disk.folder / "tmp").mkdir()
    tempfile.tempdir = str(disk.folder / "tmp")
    failures.append(fails(5))
    tempfile.tempdir = None
    again = job.train_job(config, "r", runs_dir=runs)
    return {
        "failures": failures,
        "trained": again.trained,
        "same": fingerprint(again.path) == fingerprint(whole.path),
    }


def tracking(disk: SmallDisk) -> Result:
    """A run log on a disk that is full for its middle third."""
    from agggen_platform.tracking import Tracker
    from agggen_platform.tracking.journal import entries

    reported: list[str] = []
    slowest = 0.0
    with Tracker("nonsense://x", run_name="r", runs_dir=disk.folder / "logs", report=reported.append) as tracker:
        for step in range(600):
            if step == 200:
                disk.fill()
            if step == 400:
                disk.empty()
            begin = time.monotonic()
            tracker.log_metrics({"loss": 1 / (1 + step), "rate": 0.5}, step)
            tracker.log_text("a text", f"samples/{step}.txt") if step == 300 else None
            slowest = max(slowest, time.monotonic() - begin)
    events = [entry.event for entry in entries(tracker.path)]
    steps = [event["step"] for event in events if event is not None and event["event"] == "metrics"]
    ends = [event["status"] for event in events if event is not None and event["event"] == "end"]
    return {"messages": reported, "slowest": slowest, "steps": steps, "ends": ends}


_SCENARIOS: dict[str, Callable[..., Result]] = {scenario.__name__: scenario for scenario in (bulk, training, tracking)}


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 by name."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def on_small_disk(folder: Path, scenarios: Mapping[str, Sequence[object]]) -> dict[str, Result]:
    """Runs scenarios (the functions above, with their arguments after the disk), one after the other, in a process.

    Args:
        folder: of this machine, empty.
    """
    (folder / "disk").mkdir()
    asked = json.dumps({name: [str(argument) for argument in arguments] for name, arguments in scenarios.items()})
    if not shutil.which("unshare") or subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount a file system of its own")
    mount = f'mount -t tmpfs -o size={_SIZE} none disk && exec "$@"'
    command = [*_UNSHARE, "sh", "-c", mount, "sh", sys.executable, "-m", "tests.chaos.full_disk", asked]
    env = os.environ | {"PYTHONPATH": f"{REPO}:{REPO / 'platform'}"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    results: dict[str, Result] = json.loads(done.stdout.splitlines()[-1])
    return results


def main(asked: str) -> None:
    disk = SmallDisk(Path("disk").absolute())
    results: dict[str, Result] = {}
    for name, arguments in json.loads(asked).items():
        try:
            results[name] = _SCENARIOS[name](disk, *arguments)
        except Exception:
            results[name] = {"error": traceback.format_exc()}
        finally:
            disk.empty()
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
