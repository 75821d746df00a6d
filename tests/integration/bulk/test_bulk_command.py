"""`agggen bulk` in this process."""

import json
from pathlib import Path

import pytest

from agggen.records import Record, Triple
from agggen_platform.bulk.model import Model
from tests.bulk_jobs import RECORDS, numbered_records, write_jsonl
from tests.command import command


def test_the_command_prints_its_configuration_and_writes_the_texts(
    model: Model, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = command(capsys)
    arguments = ["bulk", model.address, source, "--out", tmp_path / "out", "--runs", tmp_path / "runs", "--actors", "0"]
    code, stdout, _ = run(*arguments, "--print-config", "inference.plans=3")
    assert (code, json.loads(stdout)["inference"]["plans"]) == (0, 3)
    assert not (tmp_path / "out").exists()
    code, stdout, stderr = run(*arguments)
    assert code == 0
    assert stdout.splitlines()[1].startswith(f"{RECORDS}\t{RECORDS}\t")
    assert stdout.splitlines()[-1] == str(tmp_path / "out")
    assert "records/s after start-up" in stderr
    assert "already has the texts of this job" in run(*arguments)[2]
    code, _, stderr = run(*arguments, "format=jsonl")
    assert (code, "format: parquet in the folder, jsonl requested" in stderr) == (2, True)


def test_unknown_predicates_are_counted_by_record(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = (Triple("Neon", "used in", "signs"), Triple("Neon", "used for", "light"))
    records = [Record(record.id, (*record.triples, *strange[: n % 3])) for n, record in enumerate(numbered_records(18))]
    out = tmp_path / "out"
    arguments = ["bulk", model.address, write_jsonl(tmp_path / "in.jsonl", records), "--out", out, "--actors", 0]
    code, _, stderr = command(capsys)(*arguments, "shard_rows=4", "--runs", tmp_path / "runs")
    assert code == 0
    assert "not in the training data, with their number of records: used in (12), used for (6)\n" in stderr
    manifest, report = (json.loads((out / name).read_text()) for name in ("manifest.json", "report.json"))
    assert manifest["summary"]["unknown_predicates"] == {"used for": 6, "used in": 12}
    assert report["unknown_predicates"] == {"used for": 6, "used in": 12}
    assert "used in (12), used for (6)" in command(capsys)(*arguments, "--runs", tmp_path / "runs")[2]
