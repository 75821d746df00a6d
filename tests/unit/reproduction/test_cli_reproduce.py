"""`agggen reproduce` as users run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agggen_platform.reproduction import records as module
from agggen_platform.reproduction.records import write_record
from agggen_platform.reproduction.tables import TABLES, Recipe, of_board
from tests.command import Run, command
from tests.unit.reproduction.made import board, record


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command beside a toy table, with no record shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "shipped", lambda: tmp_path / "shipped")
    monkeypatch.setitem(
        TABLES, "toy", of_board("toy", "A toy", Recipe("toy", "elements", "elements"), board("elements"))
    )
    return command(capsys)


def cells(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines() if "\t" in line]


def test_without_a_table_it_says_what_there_is(run: Run, tmp_path: Path) -> None:
    for each in (record("transformer", 1), record("agggen", 1), record("agggen", 2)):
        write_record(tmp_path / "runs", each)
    code, out, err = run("reproduce")
    assert (code, [row[0] for row in cells(out)[1:]]) == (0, list(TABLES))
    assert {row[-1] for row in cells(out)[1:]} == {"none"}
    assert "that ship with agggen" in err
    _, out, _ = run("reproduce", "--runs", "runs")
    assert cells(out)[-1][-1] == "transformer 1; agggen 1, 2"
    needs = {row[0]: row[2] for row in cells(out)}
    assert needs["e2e-cross"].startswith("corpora e2e, e2e-cleaned; ")
    _, out, _ = run("reproduce", "--runs", "runs", "--json")
    found = {one["table"]: one["records"] for one in json.loads(out)["tables"]}
    assert found["toy"][-1] == {"system": "agggen", "seed": 2} and found["webnlg"] == []


@pytest.mark.parametrize("table", list(TABLES))
def test_a_table_without_records_has_the_published_rows_and_the_command(run: Run, table: str) -> None:
    code, out, _ = run("reproduce", table)
    assert code == 0
    assert [row[0] for row in cells(out)[1:]] == [system.system for system in TABLES[table].published]
    assert f"To train and evaluate them: agggen reproduce {table} --runs runs --seeds 1,2,3" in out


def test_records_make_the_table_in_three_forms(run: Run, tmp_path: Path) -> None:
    write_record(tmp_path / "runs", record(bleu=57.25))
    _, out, _ = run("reproduce", "toy", "--runs", "runs")
    assert cells(out)[3] == ["AggGen", "57.25", "60.00", "ours, n=1"]
    assert "plain/bleu: bleu|v1" in out and f"in {Path('runs') / 'records'}" in out
    _, out, _ = run("reproduce", "toy", "--runs", "runs", "--markdown")
    assert "| AggGen | 57.25 | 60.00 | ours, n=1 |" in out
    _, out, _ = run("reproduce", "toy", "--runs", "runs", "--json")
    found = json.loads(out)
    assert (found["schema"], found["rows"][2]["scores"]["bleu"]["mean"]) == ("agggen.reproduce/1", 57.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("webnlgg",), "no table is called 'webnlgg'; did you mean webnlg"),
        (("toy", "--seeds", "1"), "say where runs and records go with --runs DIR"),
        (("toy", "--fresh"), "nothing is trained or evaluated without --runs DIR and --seeds"),
        (("toy", "training.threads=1", "--runs", "runs"), "nothing is trained or evaluated without"),
        (("toy", "--seeds", "1,1", "--runs", "runs"), "--seeds takes different whole numbers, say 1,2,3, not '1,1'"),
        (("toy", "--seeds", "1,x", "--runs", "runs"), "not '1,x'"),
        (("toy", "--seeds", "1", "--runs", "runs", "corpus.limit=9"), "the table itself decides corpus.limit"),
        (("toy", "--runs", "s3://bucket/runs"), "this can only be a folder of this machine"),
        (("toy", "--json", "--markdown"), "--json and --markdown exclude each other"),
        (("--markdown",), "--markdown needs the name of a table"),
    ],
)
def test_what_cannot_be_is_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("reproduce", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not Path("runs").exists()
