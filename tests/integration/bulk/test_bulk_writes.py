"""The output of bulk generation, in a local folder and on S3: texts and rejects."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agggen.bundle import load_bundle
from agggen.corpora.prepared import write_records
from agggen.errors import CorpusError
from agggen_platform.bulk.job import Progress
from agggen_platform.bulk.rows import text_schema
from agggen_platform.sharded.config import JobError
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import RECORDS, Bulk, as_row, in_process, numbered_records, published, rejects, texts, write_jsonl


def test_the_texts_are_those_of_the_library(bulk: Bulk) -> None:
    settings = ("n_best=2", "shard_rows=50", "inference.verify=off")
    summary = bulk(*settings).summary
    records, config = list(numbered_records(RECORDS)), in_process(bulk.model, *settings).inference
    generated = load_bundle(bulk.model.address).generator().generate(records, n_best=2, config=config)
    rows = [
        as_row(text, row, rank, bulk.model.fingerprint)
        for row, best in enumerate(generated)
        for rank, text in enumerate(best, start=1)
    ]
    assert texts(bulk.out) == rows
    assert {row["rank"] for row in rows} == {1, 2} and any(row["faults"] for row in rows), "the weights are random"
    (part,) = (bulk.out / "texts").iterdir()
    assert pq.read_schema(part).equals(text_schema())
    assert (summary.records, summary.texts, summary.rejects) == (RECORDS, len(rows), 0)
    assert summary.fulfilled == sum(best[0].fulfilled for best in generated)
    lengths = [len(best[0].plan.states) for best in generated]
    assert summary.plan_lengths == {str(n): lengths.count(n) for n in sorted(set(lengths))}
    assert json.loads((bulk.out / "report.json").read_text())["run"]["records_per_second"] > 0
    files = {path.relative_to(bulk.out).as_posix() for path in bulk.out.rglob("*") if path.is_file()}
    assert {".claim", ".job.json", "manifest.json", "report.json"} == {name for name in files if "/" not in name}
    assert not [name for name in files if name.startswith(".work/input")]


@pytest.mark.usefixtures("ray_cluster")
def test_actors_write_the_same_bytes(bulk: Bulk, fault_free: dict[str, bytes]) -> None:
    reported: list[Progress] = []
    bulk("actors=3", progress=reported.append)
    assert published(bulk.out) == fault_free
    assert [progress.shards for progress in reported] == list(range(1, 7))
    assert reported[-1].counts.records == RECORDS


def test_json_lines_have_the_same_rows_as_parquet(bulk: Bulk, fault_free: dict[str, bytes]) -> None:
    bulk("format=jsonl")
    parts = sorted((bulk.out / "texts").iterdir())
    assert len(parts) == 6
    lines = [json.loads(line) for part in parts for line in part.open(encoding="utf-8")]
    tables = [pq.read_table(pa.BufferReader(fault_free[name])) for name in fault_free if name.startswith("texts/")]
    assert lines == pa.concat_tables(tables).to_pylist()


@pytest.mark.usefixtures("ray_cluster")
def test_pandas_and_ray_data_read_the_folder_of_parts(bulk: Bulk) -> None:
    import ray.data

    bulk()
    ids, parts = [f"r{number}" for number in range(RECORDS)], bulk.out / "texts"
    assert pd.read_parquet(parts)["id"].tolist() == ids
    rows = ray.data.read_parquet(str(parts)).sort("row").take_all()  # Ray Data does not keep the order
    assert [row["id"] for row in rows] == ids


@pytest.mark.parametrize("texts_format", ["parquet", "jsonl"])
def test_single_file_joins_all_parts(texts_format: str, bulk: Bulk, tmp_path: Path) -> None:
    records = [record for record in numbered_records(20) for _ in range(2)]
    source, out = write_jsonl(tmp_path / "in.jsonl", records), bulk.out
    settings = (f"format={texts_format}", "max_reject_share=1")
    bulk(*settings, source=source, single_file=True)
    if texts_format == "jsonl":
        parts = sorted((out / "texts").iterdir())
        assert (out / "texts.jsonl").read_bytes() == b"".join(part.read_bytes() for part in parts)
    else:
        assert pq.read_table(out / "texts.parquet").to_pylist() == texts(out)
    assert [json.loads(line) for line in (out / "rejects.jsonl").open(encoding="utf-8")] == rejects(out)
    assert len(rejects(out)) == 20
    (out / "rejects.jsonl").unlink()
    assert bulk(*settings, source=source, single_file=True).was_already_finished
    assert (out / "rejects.jsonl").exists()


def test_an_input_folder_may_have_files_of_every_format(bulk: Bulk, tmp_path: Path) -> None:
    folder, (first, second, third) = tmp_path / "in", numbered_records(3)
    write_jsonl(folder / "a.jsonl", [first])
    (folder / "b.csv").write_text("id,subject,predicate,object\nr0,a,b,c\nr9,a,b,\n")
    write_records(folder / "c.parquet", [second, third], "x", "y")
    summary = bulk("max_reject_share=0.5", source=folder).summary
    assert [(text["row"], text["id"]) for text in texts(bulk.out)] == [(0, "r0"), (3, "r1"), (4, "r2")]
    assert (summary.records, summary.rejects, summary.unknown_predicates) == (3, 2, {})
    duplicate, incomplete = rejects(bulk.out)
    assert duplicate["reason"] == f"the id 'r0' occurs a second time, first in {folder}/a.jsonl, line 1"
    for reject, expected in ((duplicate, (2, "r0")), (incomplete, (3, "r9"))):
        assert (reject["file"], reject["line"], reject["id"]) == (f"{folder}/b.csv", *expected)


def test_from_s3_to_s3(bulk: Bulk, fault_free: dict[str, bytes], s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agggen_platform.storage.claim.HEARTBEAT_SECONDS", 0.5)
    bucket = Folder(s3)
    bucket.write("in/in.jsonl", bulk.source.read_bytes())
    bulk(source=f"{s3}/in/in.jsonl", out=f"{s3}/out")
    assert published(f"{s3}/out") == fault_free
    assert not bucket.names("out/.work/input")
    assert bulk(source=f"{s3}/in/", out=f"{s3}/out/").was_already_finished


def test_too_many_rejects_publish_only_the_rejects(bulk: Bulk, tmp_path: Path) -> None:
    first, *later_records = numbered_records(9)
    path = write_jsonl(tmp_path / "in.jsonl", [first, first, *later_records])
    with pytest.raises(JobError, match=r"1 of 10 records were rejected \(10.0%, max_reject_share is 1.0%"):
        bulk(source=path)
    assert [reject["line"] for reject in rejects(bulk.out)] == [2]
    assert not published(bulk.out)
    progress = bulk("max_reject_share=0.1", source=path).progress
    assert progress is not None and progress.reused == progress.total == 2  # no shard is repeated


@pytest.mark.parametrize(("name", "content"), [("in.jsonl", "\n"), ("in.csv", "id,subject,predicate,object\n")])
def test_input_without_records_leaves_the_folder_free(name: str, content: str, bulk: Bulk, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(CorpusError, match="contains no record"):
        bulk(source=tmp_path / name)
    path = write_jsonl(tmp_path / "other.jsonl", numbered_records(2))
    assert bulk(source=path).summary.records == 2
