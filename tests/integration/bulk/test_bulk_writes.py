"""The output of a bulk generation job, on this machine and on S3."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from agggen.bundle import load_bundle
from agggen.corpora.prepared import write_records
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import Model, bulk_config
from agggen_platform.bulk.rows import text_schema
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import RECORDS, as_row, here, numbered_records, published, rejects, texts, write_jsonl


def test_the_texts_are_those_of_the_library(model: Model, source: Path, tmp_path: Path) -> None:
    settings = here(model, "n_best=2", "shard_rows=50", "inference.verify=off")
    report = generate(model, str(source), str(tmp_path), settings)
    records = list(numbered_records(RECORDS))
    generated = load_bundle(model.address).generator().generate(records, n_best=2, config=settings.inference)
    rows = [
        as_row(text, row, rank, model.fingerprint)
        for row, best in enumerate(generated)
        for rank, text in enumerate(best, start=1)
    ]
    assert texts(tmp_path) == rows
    (part,) = (tmp_path / "texts").iterdir()
    assert pq.read_schema(part).equals(text_schema())
    summary = report.summary
    assert (summary.records, summary.texts, summary.rejects) == (RECORDS, len(rows), 0)
    assert summary.fulfilled == sum(best[0].fulfilled for best in generated)
    lengths = [len(best[0].plan.states) for best in generated]
    assert summary.plan_lengths == {str(n): lengths.count(n) for n in sorted(set(lengths))}
    assert json.loads((tmp_path / "report.json").read_text())["run"]["records_per_second"] > 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(
        [".claim", ".job.json", "manifest.json", "report.json"]
    )
    assert not [path for path in (tmp_path / ".work" / "input").rglob("*") if path.is_file()]


def test_actors_write_the_same_bytes(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path, ray_cluster: None
) -> None:
    seen: list[Progress] = []
    config = bulk_config(model, ["actors=3", "shard_rows=8"])
    generate(model, str(source), str(tmp_path), config, progress=seen.append)
    assert published(tmp_path) == undisturbed
    assert [progress.shards for progress in seen] == list(range(1, 7))
    assert seen[-1].counts.records == RECORDS


def test_json_lines_have_the_same_rows_as_parquet(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    generate(model, str(source), str(tmp_path), here(model, "format=jsonl"))
    parts = sorted((tmp_path / "texts").iterdir())
    assert len(parts) == 6
    lines = [json.loads(line) for part in parts for line in part.open(encoding="utf-8")]
    parquet = [pq.read_table(pa.BufferReader(undisturbed[name])) for name in undisturbed if name.startswith("texts/")]
    assert lines == pa.concat_tables(parquet).to_pylist()


def test_engines_read_the_folder_of_parts(model: Model, source: Path, tmp_path: Path, ray_cluster: None) -> None:
    import ray.data

    generate(model, str(source), str(tmp_path), here(model))
    ids = [f"r{number}" for number in range(RECORDS)]
    assert pd.read_parquet(tmp_path / "texts")["id"].tolist() == ids
    assert pa.dataset.dataset(tmp_path / "texts").to_table()["id"].to_pylist() == ids
    rows = ray.data.read_parquet(str(tmp_path / "texts")).sort("row").take_all()  # it keeps no order by itself
    assert [row["id"] for row in rows] == ids


@pytest.mark.parametrize("texts_format", ["parquet", "jsonl"])
def test_single_file_joins_all_parts(texts_format: str, model: Model, tmp_path: Path) -> None:
    records = [record for record in numbered_records(20) for _ in range(2)]
    source = write_jsonl(tmp_path / "in.jsonl", records)
    out, settings = tmp_path / "out", here(model, f"format={texts_format}", "max_reject_share=1")
    generate(model, str(source), str(out), settings, single_file=True)
    parts = sorted((out / "texts").iterdir())
    if texts_format == "jsonl":
        assert (out / "texts.jsonl").read_bytes() == b"".join(part.read_bytes() for part in parts)
    else:
        assert pq.read_table(out / "texts.parquet").to_pylist() == texts(out)
    assert [json.loads(line) for line in (out / "rejects.jsonl").open(encoding="utf-8")] == rejects(out)
    assert len(rejects(out)) == 20
    (out / "rejects.jsonl").unlink()
    assert generate(model, str(source), str(out), settings, single_file=True).finished_before
    assert (out / "rejects.jsonl").exists()


def test_an_input_folder_may_have_files_of_every_format(model: Model, tmp_path: Path) -> None:
    folder, (first, second, third) = tmp_path / "in", numbered_records(3)
    write_jsonl(folder / "a.jsonl", [first])
    (folder / "b.csv").write_text("id,subject,predicate,object\nr0,a,b,c\nr9,a,b,\n")
    write_records(folder / "c.parquet", [second, third], "x", "y")
    report = generate(model, str(folder), str(tmp_path / "out"), here(model, "max_reject_share=0.5"))
    assert [(text["row"], text["id"]) for text in texts(tmp_path / "out")] == [(0, "r0"), (3, "r1"), (4, "r2")]
    assert report.summary.unknown_predicates == {}
    rejected = rejects(tmp_path / "out")
    assert [(reject["file"], reject["line"], reject["id"]) for reject in rejected] == [
        (f"{folder}/b.csv", 2, "r0"),
        (f"{folder}/b.csv", 3, "r9"),
    ]
    assert rejected[0]["reason"] == f"the id 'r0' occurs a second time, first in {folder}/a.jsonl, line 1"
    assert (report.summary.records, report.summary.rejects) == (3, 2)


def test_from_s3_to_s3(
    model: Model, source: Path, undisturbed: dict[str, bytes], s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agggen_platform.storage.claim.BEAT", 0.5)
    bucket = Folder(s3)
    bucket.write("in/in.jsonl", source.read_bytes())
    generate(model, f"{s3}/in/in.jsonl", f"{s3}/out", here(model))
    assert published(f"{s3}/out") == undisturbed
    assert not bucket.names("out/.work/input")
    assert generate(model, f"{s3}/in/", f"{s3}/out/", here(model)).finished_before
