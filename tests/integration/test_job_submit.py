"""``ray job submit`` of every job, as in jobs/README.md, on a head that requires a token, with S3."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agggen import load_dataset
from agggen.bundle import fingerprint
from agggen.corpora.elements import elements_records
from agggen.corpora.prepared import read_records
from agggen_platform.storage.bundles import get_bundle
from agggen_platform.storage.folder import Folder
from tests.conftest import new_bucket
from tests.ray_head import Head
from tests.unit.training.toy import TINY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(_s3_server: str) -> Iterator[Folder]:
    """An empty bucket; the environment of `head` has its address and keys."""
    with pytest.MonkeyPatch.context() as patch:
        yield Folder(new_bucket(_s3_server, patch))


@pytest.fixture(scope="module")
def head(store: Folder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(tmp_path_factory.mktemp("head"), stack)


def test_segment(head: Head, tmp_path: Path) -> None:
    load_dataset("elements", splits=["dev"]).save(tmp_path / "corpus")
    head.submit("segment", tmp_path / "corpus", "--out", tmp_path / "facts", "--runs", tmp_path / "runs")
    ids = [record.id for record in read_records(tmp_path / "corpus" / "dev.parquet")]
    assert [record.id for record in read_records(tmp_path / "facts" / "dev")] == ids


def test_train_evaluate_and_generate_through_the_store(head: Head, store: Folder, tmp_path: Path) -> None:
    """The jobs exchange all data through the store."""
    url = f"storage.url={store}/runs"
    output = head.submit(
        "train", "elements", *TINY, "cluster.workers=1", url, "--runs", tmp_path, "--name", "submitted"
    )
    bundle = store.at("runs/submitted/bundle")
    assert bundle in output
    bundle_hash = fingerprint(get_bundle(bundle))
    out = store.at("evaluation")
    output = head.submit("evaluate", bundle, "--corpus", "elements", "--split", "dev", "--limit", "20", "-o", out)
    assert out in output
    report = json.loads(store.read("evaluation/report.json") or b"")
    assert report["identity"]["bundle"] == bundle_hash
    assert report["run"]["command"].startswith("python jobs/evaluate.py ")
    records = list(elements_records("dev"))
    store.write("in.jsonl", "".join(json.dumps(record.as_dict()) + "\n" for record in records).encode())
    out = store.at("texts")
    options = ["--runs", tmp_path, "--single-file", "format=jsonl"]
    assert out in head.submit("generate", bundle, store.at("in.jsonl"), "--out", out, *options)
    texts = [json.loads(line) for line in (store.read("texts/texts.jsonl") or b"").splitlines()]
    assert [text["id"] for text in texts] == [record.id for record in records]
    assert {text["bundle"] for text in texts} == {bundle_hash}


def test_sweep_and_promotion_of_its_best(head: Head, tmp_path: Path) -> None:
    space = tmp_path / "tiny.yaml"
    space.write_text("trials: 2\nconcurrent: 1\nspace:\n  model.predicate_dim: {choice: [4, 8]}\n")
    output = head.submit("sweep", "elements", *TINY, "--space", space, "--runs", tmp_path)
    assert "alias candidate" in output
    registry = f"sqlite:///{tmp_path / 'mlflow.db'}"
    output = head.submit("promote", "agggen@candidate", "--registry", registry)
    assert "models:/agggen@champion is version 1" in output
    assert "no version to roll back to" in head.submit(
        "promote", "--rollback", "agggen", "--registry", registry, expect=8
    )
