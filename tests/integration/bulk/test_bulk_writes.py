"""The output of bulk generation, in a local folder and on S3: texts, rejects and scores of a critic; `agggen bulk`."""

import csv
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agggen.bundle import load_bundle
from agggen.checks import RISK_THRESHOLD, check_all
from agggen.corpora.prepared import write_records
from agggen.errors import ConfigError, CorpusError
from agggen.records import Record, Triple
from agggen_platform.bulk.job import Progress
from agggen_platform.bulk.model import Model
from agggen_platform.bulk.rows import SCORES, text_schema
from agggen_platform.sharded.config import JobError
from agggen_platform.storage.critics import open_critic
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import RECORDS, Bulk, as_row, in_process, numbered_records, published, rejects, texts, write_jsonl
from tests.command import Run


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
def test_actors_write_the_same_bytes_which_pandas_and_ray_data_read(bulk: Bulk, fault_free: dict[str, bytes]) -> None:
    import ray.data

    reported: list[Progress] = []
    bulk("actors=3", progress=reported.append)
    assert published(bulk.out) == fault_free
    assert [progress.shards for progress in reported] == list(range(1, 7))
    assert reported[-1].counts.records == RECORDS
    ids, parts = [f"r{number}" for number in range(RECORDS)], bulk.out / "texts"
    assert pd.read_parquet(parts)["id"].tolist() == ids
    rows = ray.data.read_parquet(str(parts)).sort("row").take_all()  # Ray Data does not keep the order
    assert [row["id"] for row in rows] == ids


def test_json_lines_have_the_same_rows_as_parquet(bulk: Bulk, fault_free: dict[str, bytes]) -> None:
    bulk("format=jsonl")
    parts = sorted((bulk.out / "texts").iterdir())
    assert len(parts) == 6
    lines = [json.loads(line) for part in parts for line in part.open(encoding="utf-8")]
    tables = [pq.read_table(pa.BufferReader(fault_free[name])) for name in fault_free if name.startswith("texts/")]
    assert lines == pa.concat_tables(tables).to_pylist()


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


# --- a critic ---------------------------------------------------------------------------------------------------------

CRITIC_SETTINGS = ("critic=included", "n_best=2", "inference.verify=off")


def test_scores_of_texts_equal_the_librarys(bulk: Bulk) -> None:
    report = bulk(*CRITIC_SETTINGS, single_file=True, review=5)
    rows, records = texts(bulk.out), list(numbered_records(RECORDS))
    config = in_process(bulk.model, *CRITIC_SETTINGS).inference
    generated = load_bundle(bulk.model.address).generator().generate(records, n_best=2, config=config)
    checks = check_all([r for r in records for _ in range(2)], [text.text for best in generated for text in best])
    assert len(rows) == 2 * RECORDS
    for row, check in zip(rows, checks, strict=True):
        assert {name: row[name] for name in SCORES} == pytest.approx({"risk": check.risk} | check.scores, abs=2e-4)
    assert report.summary.risky == sum(float(str(row["risk"])) > RISK_THRESHOLD for row in rows if row["rank"] == 1)
    assert pq.read_table(bulk.out / "texts.parquet").to_pylist() == rows
    riskiest = sorted(rows, key=lambda row: (-float(str(row["risk"])), row["row"], row["rank"]))[:5]
    assert [(checked.record.id, checked.text) for checked in report.review] == [
        (row["id"], row["text"]) for row in riskiest
    ]
    assert report.review[0].risk == pytest.approx(riskiest[0]["risk"], abs=2e-4)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_the_command_also_reviews_a_finished_job(model: Model, tmp_path: Path, run: Run, form: str) -> None:
    rows = "".join(f'{n % 3},"E{n}",symbol,"S{n % 3}"\n' for n in (0, 1, 2)) + '0,"E0",period,"5"\n'
    (tmp_path / "in.csv").write_text(f"id,subject,predicate,object\n{rows}", encoding="utf-8")  # copied by the driver
    arguments = ["bulk", model.address, "in.csv", "--out", "out", "--actors", "0", "critic=included", f"format={form}"]
    code, _, err = run(*arguments, "--worst", "2", "--review", "first.csv")
    assert code == 0, err
    assert f"of 3 records have a risk over {RISK_THRESHOLD}" in err
    assert f"agggen adapt {model.address} first.csv" in err
    code, _, err = run(*arguments, "--worst", "2", "--review", "second.csv")
    assert (code, "already has the texts" in err) == (0, True)
    assert (tmp_path / "first.csv").read_bytes() == (tmp_path / "second.csv").read_bytes()
    with (tmp_path / "first.csv").open(encoding="utf-8-sig", newline="") as file:
        reviewed = list(csv.DictReader(file))
    assert len(reviewed) == 2
    for row in reviewed:
        assert ["E" + row["id"], "symbol", "S" + row["id"]] in json.loads(row["triples"])
    assert not list((tmp_path / "out" / ".work").glob("input/*"))


def test_a_part_without_texts_is_reviewed(bulk: Bulk, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", numbered_records(2))
    source.write_text(8 * "{}\n" + source.read_text())
    report = bulk("critic=included", "format=jsonl", "max_reject_share=0.9", source=source, review=5)
    assert sorted(checked.record.id for checked in report.review) == ["r0", "r1"]


def test_a_review_needs_a_critic(bulk: Bulk) -> None:
    with pytest.raises(ConfigError, match="set critic=included"):
        bulk(review=5)


def test_another_critic_is_another_job(bulk: Bulk, tmp_path: Path) -> None:
    open_critic("included")[0].save(tmp_path / "critic")
    source = write_jsonl(tmp_path / "in.jsonl", numbered_records(8))
    bulk(f"critic={tmp_path / 'critic'}", source=source)
    description = json.loads((tmp_path / "critic" / "critic.json").read_text())
    (tmp_path / "critic" / "critic.json").write_text(json.dumps(description | {"temperature": 2.0}))
    with pytest.raises(CorpusError, match=r"contains another job's texts \(critic:"):
        bulk(f"critic={tmp_path / 'critic'}", source=source)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_its_configuration_and_writes_the_texts(
    model: Model, source: Path, tmp_path: Path, run: Run
) -> None:
    arguments = ["bulk", model.address, source, "--out", "out", "--actors", "0"]
    code, stdout, _ = run(*arguments, "--print-config", "inference.plans=3")
    assert (code, json.loads(stdout)["inference"]["plans"]) == (0, 3)
    assert not (tmp_path / "out").exists()
    code, stdout, stderr = run(*arguments)
    assert code == 0
    assert stdout.splitlines()[1].startswith(f"{RECORDS}\t{RECORDS}\t")
    assert stdout.splitlines()[-1] == "out"
    assert "records/s after start-up" in stderr
    assert "already has the texts of this job" in run(*arguments)[2]
    code, _, stderr = run(*arguments, "format=jsonl")
    assert (code, "format: parquet in the folder, jsonl requested" in stderr) == (2, True)


def test_unknown_predicates_are_counted_by_record(model: Model, tmp_path: Path, run: Run) -> None:
    strange = (Triple("Neon", "used in", "signs"), Triple("Neon", "used for", "light"))
    records = [Record(record.id, (*record.triples, *strange[: n % 3])) for n, record in enumerate(numbered_records(18))]
    write_jsonl(tmp_path / "in.jsonl", records)
    arguments = ["bulk", model.address, "in.jsonl", "--out", "out", "--actors", 0]
    code, _, stderr = run(*arguments, "shard_rows=4")
    assert code == 0
    assert "not in the training data, with their number of records: used in (12), used for (6)\n" in stderr
    manifest, report = (json.loads(Path("out", name).read_text()) for name in ("manifest.json", "report.json"))
    assert manifest["summary"]["unknown_predicates"] == {"used for": 6, "used in": 12}
    assert report["unknown_predicates"] == {"used for": 6, "used in": 12}
    assert "used in (12), used for (6)" in run(*arguments)[2]
