"""Jobs on a failing object store: it refuses access or stores only half of an upload."""

from dataclasses import replace
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen.training.events import TrainingEvent
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import Model
from agggen_platform.storage.bundles import get_bundle
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.training.job import train_job
from tests.bulk_jobs import in_process, numbered_records, published, write_jsonl
from tests.processes import until
from tests.s3_faults import FaultyS3
from tests.unit.training.toy import config_of, write_corpus

pytestmark = [pytest.mark.chaos, pytest.mark.usefixtures("_short_heartbeats")]

ACCESS_REFUSED = "refuses these credentials .*AWS_ACCESS_KEY_ID"
TRUNCATED = r"files in s3://.*/out are missing or incomplete, so manifest"


@pytest.fixture
def _short_heartbeats(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Short heartbeats: an abandoned claim is taken over after four seconds."""
    monkeypatch.setattr("agggen_platform.storage.claim.HEARTBEAT_SECONDS", 1.0)
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))


def test_training_fails_and_resumes_from_its_last_complete_checkpoint(
    s3: str, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    """The fault begins at the fourth update, once the store has a checkpoint."""
    local = config_of(write_corpus(tmp_path / "toy"))
    config = replace(local, storage=replace(local.storage, url=f"{s3}/runs"))
    checkpoints = Folder(f"{config.storage.url}/r/checkpoints")

    def inject_fault(event: TrainingEvent) -> None:
        if (event.stage, event.kind, event.step) == ("baseline", "log", 4):
            until(lambda: checkpoints.size("baseline/latest.json"), "checkpoint", 60)  # written in the background
            faulty_s3.inject("403", -1)

    with pytest.raises(StorageError, match=ACCESS_REFUSED):
        train_job(config, "r", runs_dir=tmp_path, show=inject_fault)
    faulty_s3.heal()
    saved = CheckpointStore(checkpoints).restore("baseline", tmp_path / "restored")
    assert saved is not None
    events: list[TrainingEvent] = []
    train_job(config, "r", runs_dir=tmp_path, show=events.append)
    first_update = next(event.step for event in events if event.kind == "log")  # a repeated evaluation may precede it
    assert first_update == saved.step + 1, "training did not resume from the last checkpoint"
    uninterrupted = train_job(local, "whole", runs_dir=tmp_path)
    assert fingerprint(get_bundle(f"{config.storage.url}/r/bundle")) == fingerprint(uninterrupted.path)


@pytest.mark.parametrize(
    ("path", "message"), [("", ACCESS_REFUSED), ("out/texts/000002", TRUNCATED), ("out/rejects/000005", TRUNCATED)]
)
def test_bulk_generation_publishes_no_incomplete_output_and_resumes(
    path: str, message: str, model: Model, s3: str, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    *records, first = [*numbered_records(43), *numbered_records(1)]
    source = str(write_jsonl(tmp_path / "in.jsonl", [*records, first]))
    settings = in_process(model, "max_reject_share=1")
    generate(model, source, str(tmp_path / "uninterrupted"), settings)
    out = f"{s3}/out"

    def inject_fault(progress: Progress) -> None:
        if progress.shards == 2:
            if path:  # the store keeps only half of this upload
                faulty_s3.inject("short upload", method="PUT", path=path)
            else:
                faulty_s3.inject("403", -1)

    with pytest.raises(StorageError, match=message):
        generate(model, source, out, settings, progress=inject_fault)
    faulty_s3.heal()
    assert not published(out)
    resumed = generate(model, source, out, settings).progress
    assert resumed is not None and resumed.reused >= 2
    assert published(out) == published(tmp_path / "uninterrupted")
