"""Whole jobs against an object store in trouble: busy, broken off, refusing, keeping half of what it gets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.bundle import check_bundle, fingerprint
from agggen.errors import AggGenError, BundleError
from agggen.training.events import TrainingEvent
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import Model, open_model
from agggen_platform.job_config import JobConfig
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.training.job import train_job
from tests.bulk_jobs import here, published, some_records, write_jsonl
from tests.chaos.report import Observed
from tests.s3_faults import FaultyS3
from tests.unit.serve.conftest import save_tiny_model
from tests.unit.training.toy import config_of, write_corpus

pytestmark = [pytest.mark.chaos, pytest.mark.usefixtures("_quick")]

REFUSED = "refuses these credentials .*AWS_ACCESS_KEY_ID"


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A claim that was not released is taken over after four seconds, and no figures are drawn."""
    monkeypatch.setattr("agggen_platform.storage.claim.BEAT", 1.0)
    monkeypatch.setattr("agggen_platform.training.job._Run.draw", lambda *_: None)
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))


def trouble(store: FaultyS3, *paths: str) -> int:
    """Each kind of passing fault, for the objects named so; how many requests will fail."""
    for place, path in enumerate(paths):
        for kind in (("503", "reset"), ("500", "lost answer"), ("503", "500"))[place % 3]:
            store.inject(kind, method="PUT", path=path)
        store.inject("reset" if place % 2 else "503", method="GET", path=path)
        store.inject("cut answer", method="GET", path=path)
    return store.pending


# Of uploads whose names begin like a shard's the first counts attempts: it comes through where halves are kept.


def recovered(call: Callable[[], object]) -> float:
    """Seconds that `call` takes."""
    begin = time.monotonic()
    call()
    return time.monotonic() - begin


# --- training -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> JobConfig:
    return config_of(write_corpus(tmp_path_factory.mktemp("toy") / "toy"))


@pytest.fixture(scope="module")
def trained(local: JobConfig, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The fingerprint of the bundle that training ends in where nothing goes wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agggen_platform.training.job._Run.draw", lambda *_: None)
        return fingerprint(train_job(local, "whole", runs_dir=tmp_path_factory.mktemp("whole")).path)


@pytest.fixture
def config(local: JobConfig, s3: str) -> JobConfig:
    return replace(local, storage=replace(local.storage, url=f"{s3}/runs"))


@pytest.mark.fault("training: S3 answers 500 or 503, or breaks off")
def test_training_outlasts_faults_that_pass(
    config: JobConfig, trained: str, faulty_s3: FaultyS3, tmp_path: Path, observed: Observed
) -> None:
    paths = ("encoder.json", "baseline/step-", "baseline/latest.json", "joint/step-", "bundle/weights", "run.json")
    count = trouble(faulty_s3, *paths)
    done = train_job(config, "r", runs_dir=tmp_path)
    assert fingerprint(done.path) == trained
    assert count - faulty_s3.pending >= 2 * len(paths), "the faults were not met"
    observed(f"{count - faulty_s3.pending} requests failed; same bundle")


def cut_short(config: JobConfig, runs: Path, store: FaultyS3, *fault: object, **where: object) -> AggGenError:
    """The error that ends a training whose store has this fault from the fourth update on, a checkpoint being kept."""
    kept, patience = Folder(f"{config.storage.url}/r/checkpoints"), time.monotonic() + 60

    def break_it(news: TrainingEvent) -> None:
        if (news.stage, news.kind, news.step) == ("baseline", "log", 4):
            while kept.size("baseline/latest.json") is None and time.monotonic() < patience:
                time.sleep(0.05)  # it is written beside training
            store.inject(*fault, **where)  # type: ignore[arg-type]

    with pytest.raises(AggGenError) as caught:
        train_job(config, "r", runs_dir=runs, show=break_it)
    store.heal()
    return caught.value


def went_on(config: JobConfig, runs: Path, trained: str, observed: Observed) -> None:
    """The same call, when the store is well, ends in the bundle of an undisturbed run."""
    saved = CheckpointStore(Folder(f"{config.storage.url}/r/checkpoints")).restore("baseline", runs / "restored")
    assert saved is not None
    news: list[TrainingEvent] = []
    seconds = recovered(lambda: train_job(config, "r", runs_dir=runs, show=news.append))
    first = next(one.step for one in news if one.kind == "log")  # an evaluation may be told of again before
    assert first == saved.step + 1, "it went on from the last checkpoint"
    assert fingerprint(get_bundle(f"{config.storage.url}/r/bundle")) == trained
    observed(f"an error; update {saved.step} was kept; the same call went on to the same bundle", seconds)


@pytest.mark.fault("training: S3 refuses (403)")
def test_training_that_is_refused_goes_on_when_it_may(
    config: JobConfig, trained: str, faulty_s3: FaultyS3, tmp_path: Path, observed: Observed
) -> None:
    error = cut_short(config, tmp_path, faulty_s3, "403", -1)
    with pytest.raises(StorageError, match=REFUSED):
        raise error
    went_on(config, tmp_path, trained, observed)


@pytest.mark.fault("training: S3 keeps half of a checkpoint")
def test_training_never_goes_on_from_half_a_checkpoint(
    config: JobConfig, trained: str, faulty_s3: FaultyS3, tmp_path: Path, observed: Observed
) -> None:
    error = cut_short(config, tmp_path, faulty_s3, "short upload", method="PUT", path="baseline/step-")
    with pytest.raises(StorageError, match=r"step-\d+-\w+\.safetensors did not arrive as it was sent"):
        raise error
    went_on(config, tmp_path, trained, observed)


# --- bulk generation ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_model(str(save_tiny_model(tmp_path_factory.mktemp("model") / "bundle")))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_jsonl(tmp_path_factory.mktemp("source") / "in.jsonl", some_records(44)))


@pytest.fixture(scope="module")
def undisturbed(model: Model, source: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed")
    generate(model, source, str(out), here(model))
    return published(out)


@pytest.mark.fault("bulk: S3 answers 500 or 503, or breaks off")
def test_bulk_generation_outlasts_faults_that_pass(
    model: Model, source: str, undisturbed: dict[str, bytes], s3: str, faulty_s3: FaultyS3, observed: Observed
) -> None:
    paths = ("parts/00001.parquet", "parts/00003.parquet", "texts.parquet", "manifest.json", "rejects.jsonl", "input/")
    count = trouble(faulty_s3, *paths)
    generate(model, source, f"{s3}/out", here(model))
    failed = count - faulty_s3.pending
    assert failed >= 2 * len(paths), "the faults were not met"
    faulty_s3.heal()
    assert published(f"{s3}/out") == undisturbed
    observed(f"{failed} requests failed; same bytes")


@pytest.mark.fault("bulk: S3 refuses (403)")
def test_bulk_generation_that_is_refused_goes_on_when_it_may(
    model: Model, source: str, undisturbed: dict[str, bytes], s3: str, faulty_s3: FaultyS3, observed: Observed
) -> None:
    out = f"{s3}/out"
    with pytest.raises(StorageError, match=REFUSED):
        generate(
            model,
            source,
            out,
            here(model),
            progress=lambda now: faulty_s3.inject("403", -1) if now.shards == 3 else None,
        )
    faulty_s3.heal()
    assert not published(out)
    found: list[int] = []
    seconds = recovered(lambda: generate(model, source, out, here(model), progress=lambda now: found.append(now.found)))
    assert found[-1] == 3
    assert published(out) == undisturbed
    observed("nothing published; the same call found 3 of 6 shards and wrote the same bytes", seconds)


@pytest.mark.fault("bulk: S3 keeps half of a file")
@pytest.mark.parametrize(
    ("file", "after", "said"),
    [
        ("parts/00002.parquet", 1, r"parts/00002\.parquet is damaged .*the same command does this shard again"),
        (
            "out/texts.parquet",
            0,
            r"the texts in s3://.*/out did not arrive as they were sent, so manifest\.json was not",
        ),
    ],
    ids=["shard", "texts"],
)
def test_bulk_generation_never_publishes_half_a_file(
    file: str,
    after: int,
    said: str,
    model: Model,
    source: str,
    undisturbed: dict[str, bytes],
    s3: str,
    faulty_s3: FaultyS3,
    observed: Observed,
) -> None:
    out = f"{s3}/out"
    faulty_s3.inject("short upload", after=after, method="PUT", path=file)
    with pytest.raises(StorageError, match=said):
        generate(model, source, out, here(model))
    assert "manifest.json" not in published(out)
    seconds = recovered(lambda: generate(model, source, out, here(model)))
    assert published(out) == undisturbed
    observed("an error and no manifest; the same call wrote the same bytes", seconds)


# --- bundles --------------------------------------------------------------------------------------------------------


@pytest.mark.fault("bundles: S3 answers 500 or 503, or breaks off")
def test_a_bundle_is_fetched_whole_through_faults_that_pass(
    model: Model, s3: str, faulty_s3: FaultyS3, observed: Observed
) -> None:
    put_bundle(Path(model.address), f"{s3}/b")
    faulty_s3.heal()
    for path in ("b/manifest.json", "b/weights", "b/vocabulary"):
        for kind in ("500", "503", "reset", "cut answer"):
            faulty_s3.inject(kind, method="GET", path=path)
    begin = time.monotonic()
    got = get_bundle(f"{s3}/b")
    seconds = time.monotonic() - begin
    assert faulty_s3.pending == 0, "the faults were not met"
    check_bundle(got)
    assert fingerprint(got) == model.fingerprint
    observed("12 requests failed; the bundle is whole", seconds)


@pytest.mark.fault("bundles: S3 gives half of a file as if it were all")
def test_half_of_a_file_is_no_bundle(
    model: Model, s3: str, faulty_s3: FaultyS3, tmp_path: Path, observed: Observed
) -> None:
    put_bundle(Path(model.address), f"{s3}/b")
    faulty_s3.inject("short answer", -1, method="GET", path="b/weights")
    with pytest.raises(BundleError, match=r"was changed after it was saved, and is refused: .*weights\.safetensors"):
        get_bundle(f"{s3}/b")
    assert not [path for path in (tmp_path / "cache" / "bundles").iterdir() if path.is_dir()]
    faulty_s3.heal()
    assert fingerprint(get_bundle(f"{s3}/b")) == model.fingerprint
    observed("refused by its hash; no copy kept; fetched when the store was well")
