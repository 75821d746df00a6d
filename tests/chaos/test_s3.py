"""Jobs against a failing object store: busy, refusing, interrupted, or storing only half of an upload."""

from dataclasses import replace
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen.errors import AggGenError, BundleError
from agggen.training.events import TrainingEvent
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import Model
from agggen_platform.job_config import JobConfig
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.training.job import train_job
from tests.bulk_jobs import here, numbered_records, published, write_jsonl
from tests.processes import until
from tests.s3_faults import FaultyS3
from tests.unit.training.toy import config_of, write_corpus

pytestmark = [pytest.mark.chaos, pytest.mark.usefixtures("_quick")]

REFUSED = "refuses these credentials .*AWS_ACCESS_KEY_ID"


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sets short heartbeats: an abandoned claim is taken over after four seconds."""
    monkeypatch.setattr("agggen_platform.storage.claim.BEAT", 1.0)
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))


# --- training -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> JobConfig:
    return config_of(write_corpus(tmp_path_factory.mktemp("toy") / "toy"))


@pytest.fixture(scope="module")
def trained(local: JobConfig, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The fingerprint of the bundle of an undisturbed training."""
    return fingerprint(train_job(local, "whole", runs_dir=tmp_path_factory.mktemp("whole")).path)


@pytest.fixture
def config(local: JobConfig, s3: str) -> JobConfig:
    return replace(local, storage=replace(local.storage, url=f"{s3}/runs"))


def failed(config: JobConfig, runs: Path, store: FaultyS3, *fault: object, **request: object) -> AggGenError:
    """The error of a training whose store has this fault from the fourth update on, when it has a checkpoint."""
    checkpoints = Folder(f"{config.storage.url}/r/checkpoints")

    def inject_fault(event: TrainingEvent) -> None:
        if (event.stage, event.kind, event.step) == ("baseline", "log", 4):
            until(lambda: checkpoints.size("baseline/latest.json"), "checkpoint", 60)  # written in the background
            store.inject(*fault, **request)  # type: ignore[arg-type]

    with pytest.raises(AggGenError) as caught:
        train_job(config, "r", runs_dir=runs, show=inject_fault)
    store.heal()
    return caught.value


def check_that_it_resumes(config: JobConfig, runs: Path, trained: str) -> None:
    """Checks that the same call resumes and ends with the bundle of an undisturbed run."""
    saved = CheckpointStore(Folder(f"{config.storage.url}/r/checkpoints")).restore("baseline", runs / "restored")
    assert saved is not None
    events: list[TrainingEvent] = []
    train_job(config, "r", runs_dir=runs, show=events.append)
    first = next(event.step for event in events if event.kind == "log")  # an evaluation may be reported again before
    assert first == saved.step + 1, "it must resume from the last checkpoint"
    assert fingerprint(get_bundle(f"{config.storage.url}/r/bundle")) == trained


def test_training_resumes_when_access_is_back(
    config: JobConfig, trained: str, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    error = failed(config, tmp_path, faulty_s3, "403", -1)
    with pytest.raises(StorageError, match=REFUSED):
        raise error
    check_that_it_resumes(config, tmp_path, trained)


def test_training_never_resumes_from_half_a_checkpoint(
    config: JobConfig, trained: str, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    error = failed(config, tmp_path, faulty_s3, "short upload", method="PUT", path="baseline/step-")
    with pytest.raises(StorageError, match=r"step-\d+-\w+\.safetensors did not arrive as it was sent"):
        raise error
    check_that_it_resumes(config, tmp_path, trained)


# --- bulk generation ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_jsonl(tmp_path_factory.mktemp("source") / "in.jsonl", numbered_records(44)))


@pytest.fixture(scope="module")
def undisturbed(model: Model, source: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed")
    generate(model, source, str(out), here(model))
    return published(out)


def test_bulk_generation_resumes_when_access_is_back(
    model: Model, source: str, undisturbed: dict[str, bytes], s3: str, faulty_s3: FaultyS3
) -> None:
    out = f"{s3}/out"
    with pytest.raises(StorageError, match=REFUSED):
        generate(
            model,
            source,
            out,
            here(model),
            progress=lambda progress: faulty_s3.inject("403", -1) if progress.shards == 3 else None,
        )
    faulty_s3.heal()
    assert not published(out)
    reused: list[int] = []
    generate(model, source, out, here(model), progress=lambda progress: reused.append(progress.reused))
    assert reused[-1] == 3
    assert published(out) == undisturbed


@pytest.mark.parametrize("file", ["out/texts/000002", "out/rejects/000005"])
def test_bulk_generation_never_publishes_half_a_file(
    file: str, model: Model, s3: str, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    *records, first = [*numbered_records(43), *numbered_records(1)]
    source = str(write_jsonl(tmp_path / "in.jsonl", [*records, first]))
    settings = here(model, "max_reject_share=1")
    generate(model, source, str(tmp_path / "undisturbed"), settings)
    out = f"{s3}/out"
    faulty_s3.inject("short upload", method="PUT", path=file)
    with pytest.raises(StorageError, match=r"the texts in s3://.*/out differ from those that were sent, so manifest"):
        generate(model, source, out, settings)
    assert not published(out)
    generate(model, source, out, settings)
    assert published(out) == published(tmp_path / "undisturbed")


# --- bundles --------------------------------------------------------------------------------------------------------


def test_a_bundle_with_half_a_file_is_refused(model: Model, s3: str, faulty_s3: FaultyS3, tmp_path: Path) -> None:
    put_bundle(Path(model.address), f"{s3}/b")
    faulty_s3.inject("short answer", -1, method="GET", path="b/weights")
    with pytest.raises(BundleError, match=r"was changed after it was saved, and is refused: .*weights\.safetensors"):
        get_bundle(f"{s3}/b")
    assert not [path for path in (tmp_path / "cache" / "bundles").iterdir() if path.is_dir()]
    faulty_s3.heal()
    assert fingerprint(get_bundle(f"{s3}/b")) == model.fingerprint
