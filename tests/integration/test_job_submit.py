"""``ray job submit`` of every job, as in jobs/README.md, on a head that requires a token, with S3; autoscaling."""

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
from tests.bulk_jobs import numbered_records, texts, write_jsonl
from tests.conftest import new_bucket
from tests.processes import Running
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
    rows = [json.loads(line) for line in (store.read("texts/texts.jsonl") or b"").splitlines()]
    assert [row["id"] for row in rows] == [record.id for record in records]
    assert {row["bundle"] for row in rows} == {bundle_hash}


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


def test_a_bulk_job_makes_a_cluster_grow_to_three_nodes_and_shrink_again(bundle: Path, tmp_path: Path) -> None:
    """Nodes have one CPU, so each actor must request its own."""
    source = write_jsonl(tmp_path / "in.jsonl", numbered_records(450))
    with ExitStack() as stack:
        head = Head(tmp_path, stack, cpus=1, more_nodes=2)
        head.running.wait_until(lambda: head.nodes() == 1, "first node")
        command = ["-m", "agggen_platform.cli.main", "bulk", str(bundle), str(source), "--out", "out"]
        settings = ["inference.plans=20", "shard_rows=4"]
        job = stack.enter_context(Running([*command, *settings], tmp_path, head.env | {"RAY_ADDRESS": head.gcs}))
        job.wait_until(lambda: head.nodes() == 3, "two more nodes")
        assert job.finish() == 0, job.output()
        head.running.wait_until(lambda: head.nodes() == 1, "removal of idle nodes")
    assert [text["id"] for text in texts(tmp_path / "out")] == [f"r{number}" for number in range(450)]
