"""Tests that `test_disk_full.py` runs on a small disk, which is full during a part of a job."""

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen.errors import AggGenError
from agggen.training.events import TrainingEvent
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import open_model
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.journal import entries
from agggen_platform.training.job import train_job
from tests.bulk_jobs import in_process, numbered_records, published, write_jsonl
from tests.unit.serve.conftest import save_tiny_model
from tests.unit.training.toy import config_of, write_corpus

DISK = Path(os.environ["AGGGEN_SMALL_DISK"])
_BALLAST = DISK / "ballast"
_FULL = re.compile(r"cannot write \S+: the disk is full \(.*free\); make room")
_LEFTOVER = re.compile(r"\.tmp$|^\.[0-9a-f]+-")


def fill() -> None:
    for size in (1 << 16, 1):  # single bytes fill the last block
        with _BALLAST.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(size)):
                pass


@pytest.fixture(autouse=True)
def _free_the_disk() -> Iterator[None]:
    yield
    _BALLAST.unlink(missing_ok=True)


@contextmanager
def fails_on_full_disk(out: Path, files: list[str]) -> Iterator[None]:
    """The block must fail with "the disk is full" and leave no partial files; `files` receives the files in `out`."""
    with pytest.raises(AggGenError, match=_FULL) as error:
        yield
    assert error.value.exit_code == 5
    _BALLAST.unlink()
    files[:] = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert not [file for file in files if _LEFTOVER.search(file)]


def test_bulk_generation_keeps_finished_shards_and_resumes(tmp_path: Path) -> None:
    """The disk is full in the middle of the first run and at the end of the second; the third has room."""
    model, out, files = open_model(str(save_tiny_model(tmp_path / "bundle"))), DISK / "bulk", list[str]()
    source = str(write_jsonl(tmp_path / "in.jsonl", numbered_records(44)))

    def full_at(shards: int) -> Callable[[Progress], None]:
        return lambda progress: fill() if progress.shards == shards else None

    for shards in (3, 6):
        with fails_on_full_disk(out, files):
            generate(model, source, str(out), in_process(model), progress=full_at(shards))
        assert not {"manifest.json", "report.json"} & set(files)
        assert sum(file.startswith("texts/0") for file in files) == shards, "finished shards were lost"
    report = generate(model, source, str(out), in_process(model))
    assert report.progress is not None and report.progress.reused == report.progress.total == 6
    generate(model, source, str(tmp_path / "uninterrupted"), in_process(model))
    assert published(out) == published(tmp_path / "uninterrupted")


def test_training_keeps_its_last_checkpoint_and_ends_in_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full from the third update on, then from the fifth; the second time, temporary files are on the disk too."""
    config, runs, files = config_of(write_corpus(tmp_path / "toy")), DISK / "runs", list[str]()
    store = CheckpointStore(Folder(str(runs / "r" / "checkpoints")))
    updates = []
    for update, temporary in ((3, None), (5, DISK)):

        def fill_at(event: TrainingEvent, update: int = update) -> None:
            if (event.stage, event.kind, event.step) == ("baseline", "log", update):
                fill()

        monkeypatch.setattr(tempfile, "tempdir", temporary and str(temporary))
        with fails_on_full_disk(runs / "r", files):
            train_job(config, "r", runs_dir=runs, show=fill_at)
        assert not [file for file in files if file.startswith("bundle/")]
        monkeypatch.setattr(tempfile, "tempdir", None)
        saved = store.restore("baseline", DISK / "restored")
        updates.append(saved.step if saved else 0)
    assert 1 <= updates[0] <= 3 and updates[0] <= updates[1] <= 5, "not the last checkpoints that fitted on the disk"
    run = train_job(config, "r", runs_dir=runs)
    assert run.trained
    assert fingerprint(run.path) == fingerprint(train_job(config, "whole", runs_dir=runs).path)


def test_entries_of_a_run_log_that_do_not_fit_are_reported() -> None:
    """The disk is full for the middle third of the run."""
    messages: list[str] = []
    slowest = 0.0
    with Tracker("nonsense://x", run_name="r", runs_dir=DISK / "logs", report=messages.append) as tracker:
        for step in range(600):
            if step == 200:
                fill()
            if step == 400:
                _BALLAST.unlink()
            begin = time.monotonic()
            tracker.log_metrics({"loss": 1 / (1 + step), "rate": 0.5}, step)
            tracker.log_text("a text", f"samples/{step}.txt") if step == 300 else None
            slowest = max(slowest, time.monotonic() - begin)
    assert slowest < 5
    (warning,) = (message for message in messages if "the run log is incomplete" in message)
    assert "No space left" in warning
    events = [entry.event for entry in entries(tracker.path) if entry.event is not None]
    steps = [event["step"] for event in events if event["event"] == "metrics"]
    assert steps == sorted(set(steps))
    assert steps[:200] == list(range(200))
    assert set(range(200, 400)) - set(steps), "the disk was not full"
    # The first entry after there is room again must not be appended to an incomplete line.
    assert steps[-200:] == list(range(400, 600))
    assert [event["status"] for event in events if event["event"] == "end"] == ["FINISHED"]
