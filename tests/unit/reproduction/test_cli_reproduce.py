"""The command `agggen reproduce`."""

from pathlib import Path

import pytest

from agggen_platform.reproduction.records import write_record
from agggen_platform.reproduction.tables import TABLES
from tests.command import Run, check_refused
from tests.unit.reproduction.examples import example_table, toy_record


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "toy", example_table("elements", "elements"))


def cells(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines() if "\t" in line]


def test_without_a_table_all_are_listed_with_their_records(run: Run, tmp_path: Path) -> None:
    code, out, err = run("reproduce")
    assert (code, [row[0] for row in cells(out)[1:]]) == (0, list(TABLES))
    assert "that ship with agggen" in err
    rows = {row[0]: row for row in cells(out)}
    assert rows["plans"][-1] == "agggen 1, 2, 3" and rows["toy"][-1] == "none"
    assert rows["e2e-cross"][2].startswith("corpora e2e, e2e-cleaned; ")
    for record in (toy_record("transformer", 1), toy_record("agggen", 1), toy_record("agggen", 2)):
        write_record(tmp_path / "runs", TABLES["toy"], record)
    _, out, _ = run("reproduce", "--runs", "runs")
    assert cells(out)[-1][-1] == "transformer 1; agggen 1, 2"


def test_shipped_and_published_numbers_are_shown_together(run: Run) -> None:
    _, out, _ = run("reproduce", "webnlg")
    rows = [row[:2] + row[-1:] for row in cells(out)]
    assert ["AggGen", "58.74", "[2]"] in rows and ["Transformer", "61.36 ± 0.34", "ours, n=3"] in rows


def test_a_table_is_built_from_the_records_of_a_folder(run: Run, tmp_path: Path) -> None:
    write_record(tmp_path / "runs", TABLES["toy"], toy_record(bleu=57.25))
    _, out, _ = run("reproduce", "toy", "--runs", "runs")
    assert cells(out)[3] == ["AggGen", "57.25", "60.00", "ours, n=1"]
    assert "plain/bleu: bleu|v1" in out and f"in {Path('runs') / 'records'}" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("webnlgg",), "no table is called 'webnlgg'; did you mean webnlg"),
        (("toy", "--seeds", "1"), "--seeds needs --runs DIR"),
        (("toy", "--fresh"), "--fresh and settings need --runs DIR and --seeds"),
        (("toy", "--seeds", "1,1", "--runs", "runs"), "--seeds takes different whole numbers, such as 1,2,3, not '1"),
        (("toy", "--seeds", "1,x", "--runs", "runs"), "not '1,x'"),
        (("toy", "--seeds", "1", "--runs", "runs", "corpus.limit=9"), "corpus.limit is set by the table"),
        (("toy", "--runs", "s3://bucket/runs"), "s3://bucket/runs is not a folder of this machine"),
    ],
)
def test_invalid_options_are_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    check_refused(run("reproduce", *arguments), 2, message)
    assert not Path("runs").exists()
