"""The bulk generation job from records to texts: what it writes, refuses, repeats and resumes, here and on S3."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from agggen.bundle import load_bundle
from agggen.corpora.prepared import write_records
from agggen.errors import CorpusError
from agggen.records import Record, Triple
from agggen_platform.bulk import job as job_module
from agggen_platform.bulk import rows as rows_module
from agggen_platform.bulk.config import BulkError
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import Model, bulk_config, open_model
from agggen_platform.bulk.rows import text_schema
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.worker import ATTEMPTS
from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import as_row, here, published, rejects, some_records, texts, write_jsonl
from tests.command import command
from tests.unit.serve.conftest import save_tiny_model

RECORDS = 44  # six shards of eight


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_model(str(save_tiny_model(tmp_path_factory.mktemp("model") / "bundle")))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("source") / "in.jsonl", some_records(RECORDS))


@pytest.fixture(scope="module")
def undisturbed(model: Model, source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The output of an undisturbed job of one process."""
    out = tmp_path_factory.mktemp("undisturbed")
    generate(model, str(source), str(out), here(model))
    return published(out)


# --- what it writes ------------------------------------------------------------------------------------------------


def test_the_texts_are_those_of_the_library(model: Model, source: Path, tmp_path: Path) -> None:
    settings = here(model, "n_best=2", "shard_rows=50", "inference.verify=off")
    report = generate(model, str(source), str(tmp_path), settings)
    records = list(some_records(RECORDS))
    found = load_bundle(model.address).generator().generate(records, n_best=2, config=settings.inference)
    rows = [
        as_row(one, row, rank, model.fingerprint)
        for row, best in enumerate(found)
        for rank, one in enumerate(best, start=1)
    ]
    assert texts(tmp_path) == rows
    (part,) = (tmp_path / "texts").iterdir()
    assert pq.read_schema(part).equals(text_schema())
    summary = report.summary
    assert (summary.records, summary.texts, summary.rejects) == (RECORDS, len(rows), 0)
    assert summary.fulfilled == sum(best[0].fulfilled for best in found)
    lengths = [len(best[0].plan.states) for best in found]
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
    assert [one.shards for one in seen] == list(range(1, 7))
    assert seen[-1].counts.records == RECORDS


def test_json_lines_hold_the_same_as_parquet(
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
def test_one_file_of_all_parts_when_asked_for(texts_format: str, model: Model, tmp_path: Path) -> None:
    records = [record for record in some_records(20) for _ in range(2)]
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


def test_parquet_that_changes_under_the_job_is_not_published(model: Model, tmp_path: Path) -> None:
    records, source, out = list(some_records(20)), tmp_path / "in.parquet", tmp_path / "out"
    write_records(source, records, "x", "y")

    def change(now: Progress) -> None:
        if now.shards == 1:
            write_records(source, records[::-1], "x", "y")

    with pytest.raises(BulkError, match=r"in\.parquet changed while it was read"):
        generate(model, str(source), str(out), here(model), progress=change)
    assert not published(out)


def test_a_claim_that_is_lost_publishes_no_manifest(
    model: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def lost(folder: Folder) -> Iterator[Callable[[], None]]:
        def check() -> None:
            raise ClaimedError("another job took over")

        yield check

    monkeypatch.setattr(job_module, "claim", lost)
    with pytest.raises(ClaimedError, match="took over"):
        generate(model, str(source), str(tmp_path), here(model))
    assert len([*(tmp_path / "texts").iterdir()]) == 6 and not (tmp_path / "manifest.json").exists()


def test_a_folder_of_files_of_every_kind(model: Model, tmp_path: Path) -> None:
    folder, (first, second, third) = tmp_path / "in", some_records(3)
    write_jsonl(folder / "a.jsonl", [first])
    (folder / "b.csv").write_text("id,subject,predicate,object\nr0,a,b,c\nr9,a,b,\n")
    write_records(folder / "c.parquet", [second, third], "x", "y")
    report = generate(model, str(folder), str(tmp_path / "out"), here(model, "max_reject_share=0.5"))
    assert [(text["row"], text["id"]) for text in texts(tmp_path / "out")] == [(0, "r0"), (3, "r1"), (4, "r2")]
    assert report.summary.unknown_predicates == {}
    found = rejects(tmp_path / "out")
    assert [(reject["file"], reject["line"], reject["id"]) for reject in found] == [
        (f"{folder}/b.csv", 2, "r0"),
        (f"{folder}/b.csv", 3, "r9"),
    ]
    assert found[0]["reason"] == f"the id 'r0' occurs a second time, first in {folder}/a.jsonl, line 1"
    assert (report.summary.records, report.summary.rejects) == (3, 2)


def test_predicates_that_training_never_saw_are_counted_by_record(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = (Triple("Neon", "used in", "signs"), Triple("Neon", "used for", "light"))
    records = [Record(each.id, (*each.triples, *strange[: n % 3])) for n, each in enumerate(some_records(18))]
    out = tmp_path / "out"
    arguments = ["bulk", model.address, write_jsonl(tmp_path / "in.jsonl", records), "--out", out, "--actors", 0]
    code, _, noted = command(capsys)(*arguments, "shard_rows=4", "--runs", tmp_path / "runs")
    assert code == 0
    assert "never saw, and how many records have each: used in (12), used for (6)\n" in noted
    manifest, report = (json.loads((out / name).read_text()) for name in ("manifest.json", "report.json"))
    assert manifest["summary"]["unknown_predicates"] == {"used for": 6, "used in": 12}
    assert report["unknown_predicates"] == {"used for": 6, "used in": 12}
    assert "used in (12), used for (6)" in command(capsys)(*arguments, "--runs", tmp_path / "runs")[2]


def test_too_many_rejects_publish_nothing_but_the_reasons(model: Model, tmp_path: Path) -> None:
    first, *more = some_records(9)
    path = write_jsonl(tmp_path / "in.jsonl", [first, first, *more])
    out = tmp_path / "out"
    with pytest.raises(BulkError, match=r"1 of 10 records were rejected \(10.0%, at most 1.0% allowed"):
        generate(model, str(path), str(out), here(model))
    assert [reject["line"] for reject in rejects(out)] == [2]
    assert not published(out)
    report = generate(model, str(path), str(out), here(model, "max_reject_share=0.1"))
    assert report.progress is not None
    assert report.progress.found == report.progress.total == 2  # nothing is written anew


@pytest.mark.parametrize(("content", "message"), [(b"\n", "holds no record"), (b"\xff\n", "line 1: not UTF-8")])
def test_input_that_cannot_be_read_leaves_no_trace(model: Model, tmp_path: Path, content: bytes, message: str) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        generate(model, str(path), str(out), here(model))
    write_jsonl(path, some_records(2))
    assert generate(model, str(path), str(out), here(model)).summary.records == 2


# --- again, and something else ---------------------------------------------------------------------------------------


def test_a_finished_job_is_not_done_again(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(model, str(source), str(tmp_path), here(model))
    with monkeypatch.context() as patch:
        patch.delattr(rows_module.RowWriter, "texts")
        again = generate(model, str(source), str(tmp_path), here(model, "shard_rows=5", "max_reject_share=0"))
    assert again.finished_before
    assert again.summary.records == RECORDS
    assert not generate(model, str(source), str(tmp_path), here(model), fresh=True).finished_before
    next((tmp_path / "texts").iterdir()).write_bytes(b"half")  # a damaged part is, by itself
    mended = generate(model, str(source), str(tmp_path), here(model)).progress
    assert mended is not None and mended.found == mended.total - 1
    assert published(tmp_path) == undisturbed


def test_another_jobs_output_is_refused_and_replaced_when_told(model: Model, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(model, str(source), str(out), here(model))
    before = published(out)
    other = here(model, "inference.plans=1")
    with pytest.raises(CorpusError, match=r"another job's texts \(inference.plans: 2 there, 1 now\).*--fresh"):
        generate(model, str(source), str(out), other)
    changed = write_jsonl(tmp_path / "in.jsonl", some_records(5))
    with pytest.raises(CorpusError, match=r"another job's texts \(input: "):
        generate(model, str(changed), str(out), here(model))
    retrained = open_model(str(save_tiny_model(tmp_path / "bundle", seed=6)))
    with pytest.raises(CorpusError, match=r"another job's texts \(bundle: "):
        generate(retrained, str(source), str(out), here(retrained))
    assert published(out) == before
    (out / "notes.txt").write_text("mine")
    generate(retrained, str(source), str(out), here(retrained, "format=jsonl"), fresh=True)
    assert {path.suffix for path in (out / "texts").iterdir()} == {".jsonl"}
    assert (out / "notes.txt").read_text() == "mine"


def test_what_no_generation_wrote_is_never_touched(model: Model, source: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "0.parquet").write_bytes(b"precious")
    for fresh in (False, True):
        with pytest.raises(CorpusError, match=r"holds texts/0\.parquet, which no bulk generation wrote"):
            generate(model, str(source), str(tmp_path), here(model), fresh=fresh)
    assert (tmp_path / "texts" / "0.parquet").read_bytes() == b"precious"
    segmented = tmp_path / "segmented"
    Folder(str(segmented)).write(".job.json", b'{"job": "x", "splits": ["dev"], "config": {}}')
    Folder(str(segmented)).write("manifest.json", b'{"job": "x", "splits": {}}')
    for fresh in (False, True):
        with pytest.raises(CorpusError, match="holds what a segmentation wrote"):
            generate(model, str(source), str(segmented), here(model), fresh=fresh)
    assert (segmented / "manifest.json").exists()
    with pytest.raises(CorpusError, match="is the folder of the input"):
        generate(model, str(source), str(source.parent), here(model))


# --- cut off, and two at once ----------------------------------------------------------------------------------------


def test_a_job_that_was_cut_off_goes_on(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    class CutError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.shards == 4:
            raise CutError

    with pytest.raises(CutError):
        generate(model, str(source), str(tmp_path), here(model), progress=stop)
    assert not published(tmp_path)
    parts = sorted((tmp_path / "texts").iterdir())
    parts[2].write_bytes(b"PAR1 and no more")
    begun = tmp_path / ".work" / "texts" / parts[0].stem.replace("000000", "000004") / "begun-0"
    begun.parent.mkdir()
    begun.touch()  # a worker was at it
    report = generate(model, str(source), str(tmp_path), here(model))
    assert report.progress is not None
    assert (report.progress.found, report.progress.total, report.redone) == (3, 6, 1)
    assert published(tmp_path) == undisturbed


def test_a_job_over_several_files_goes_on_with_shards_of_another_size(model: Model, tmp_path: Path) -> None:
    class CutError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.shards == 3:
            raise CutError

    records, source, out = list(some_records(16)), tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for name, some in (("a", records[:8]), ("b", records[8:12]), ("c", records[12:])):
        write_records(tmp_path / "whole.parquet", some, "x", "dev")
        pq.write_table(pq.read_table(tmp_path / "whole.parquet"), source / f"{name}.parquet", row_group_size=4)
    with pytest.raises(CutError):
        generate(model, str(source), str(out), here(model, "shard_rows=4"), progress=stop)
    generate(model, str(source), str(out), here(model, "shard_rows=8"))
    assert [row["id"] for row in texts(out)] == [record.id for record in some_records(16)]


def test_a_shard_that_kills_its_workers_ends_the_job(model: Model, source: Path, tmp_path: Path) -> None:
    def leave_traces_of_deaths(progress: Progress) -> None:
        (first,) = (tmp_path / "texts").iterdir()
        for attempt in range(ATTEMPTS):
            name = first.stem.replace("000000", "000001")
            Folder(str(tmp_path)).write(f".work/texts/{name}/begun-{attempt}", b"")

    with pytest.raises(BulkError, match=f"{ATTEMPTS} workers died over rows 7 to 13 of {source}: out of memory"):
        generate(model, str(source), str(tmp_path), here(model), progress=leave_traces_of_deaths)
    report = generate(model, str(source), str(tmp_path), here(model))
    assert (report.summary.records, report.redone) == (RECORDS, ATTEMPTS)


def test_an_error_in_an_actor_reaches_the_user(model: Model, source: Path, tmp_path: Path, ray_cluster: None) -> None:
    other = Model(model.address, "0" * 64, model.inference, model.largest_group)
    with pytest.raises(JobError, match="the job's is 000000000000: it was replaced"):
        generate(other, str(source), str(tmp_path), bulk_config(model, ["actors=1"]))
    with pytest.raises(JobError, match="2 actors with 1 GPUs each: the cluster has 0"):
        generate(model, str(source), str(tmp_path / "gpu"), bulk_config(model, ["actors=2", "gpus_per_actor=1"]))


def test_a_worker_that_outlived_another_job_spoils_nothing(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """Parts are named after their job, and those that the manifest does not name are removed."""

    def write_late(progress: Progress) -> None:
        if progress.shards == 6:
            (tmp_path / "texts" / "000000-0123456789abcdef.parquet").write_bytes(b"of another job")

    generate(model, str(source), str(tmp_path), here(model), progress=write_late)
    assert published(tmp_path) == undisturbed


def test_a_second_job_on_one_folder_is_refused(model: Model, source: Path, tmp_path: Path) -> None:
    with claim(Folder(str(tmp_path))), pytest.raises(ClaimedError, match=r"another job works on .*process \d+ on"):
        generate(model, str(source), str(tmp_path), here(model))


# --- S3, and the command ---------------------------------------------------------------------------------------------


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


@pytest.mark.slow
def test_the_command_on_s3_with_actors_of_its_own(model: Model, source: Path, s3: str, tmp_path: Path) -> None:
    bucket = Folder(s3)
    bucket.write("in/in.jsonl", source.read_bytes())
    for path in Path(model.address).iterdir():
        bucket.upload(f"model/{path.name}", path)
    script = Path(__file__).parents[2] / "jobs" / "generate.py"
    call = [sys.executable, str(script), f"{s3}/model", f"{s3}/in", "--out", f"{s3}/out", "shard_rows=8"]
    done = subprocess.run([*call, "--actors", "2"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert f"\n{RECORDS}\t{RECORDS}\t" in done.stdout
    ids = [row["id"] for name in bucket.names("out/texts") for row in pq.read_table(bucket.open(name)).to_pylist()]
    assert ids == [f"r{number}" for number in range(RECORDS)]
    log = next(tmp_path.glob("runs/generate-*/tracking.jsonl")).read_text().splitlines()
    metrics = [json.loads(line)["values"] for line in log if json.loads(line)["event"] == "metrics"]
    assert metrics[-1]["records"] == RECORDS
    assert {"records_per_second", "fulfilled_share", "redone_shards", "mean_plan_length"} <= metrics[-1].keys()


def test_the_command(model: Model, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = command(capsys)
    arguments = ["bulk", model.address, source, "--out", tmp_path / "out", "--runs", tmp_path / "runs", "--actors", "0"]
    code, said, _ = run(*arguments, "--print-config", "inference.plans=3")
    assert (code, json.loads(said)["inference"]["plans"]) == (0, 3)
    assert not (tmp_path / "out").exists()
    code, said, noted = run(*arguments)
    assert code == 0
    assert said.splitlines()[1].startswith(f"{RECORDS}\t{RECORDS}\t")
    assert said.splitlines()[-1] == str(tmp_path / "out")
    assert "records/s at work" in noted
    assert "nothing was done" in run(*arguments)[2]
    code, _, noted = run(*arguments, "format=jsonl")
    assert (code, "format: parquet there, jsonl now" in noted) == (2, True)
