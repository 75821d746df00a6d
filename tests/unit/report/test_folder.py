"""The report on disk: the content of its files, atomic writing, protection of other files."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.errors import ConfigError
from agggen.report import write_report
from agggen.report.folder import FILES, check_target
from tests.unit.report.examples import NASTY, report, row

ROWS = [row(1, 2, 1), row(2, 3), row(3, 3, 2)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def report_folder(tmp_path: Path) -> Path:
    """The folder of a report."""
    write_report(tmp_path / "r", report([*ROWS, row(4, 2, 1, slots=True, text=NASTY)]))
    return tmp_path / "r"


def test_report_json_has_every_score_with_its_signature(report_folder: Path) -> None:
    result = json.loads((report_folder / "report.json").read_text(encoding="utf-8"))
    assert result["scores"]["text"]["measures"] == [
        {"name": "bleu", "value": 41.25, "interval_95": [40.0, 42.5], "signature": "nrefs:var|tok:13a"},
        {"name": "tau", "value": None, "interval_95": None, "signature": "kendall"},
        {"name": "meteor", "value": None, "not_computed": "there is no Java here"},
    ]
    assert [part["records"] for part in result["by_triples"]] == [2, 2]
    assert result["partial"] is None


def test_records_jsonl_has_a_line_per_record_with_its_errors(report_folder: Path) -> None:
    lines = [json.loads(line) for line in (report_folder / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["r1", "r2", "r3", "r4"]
    first, second, third, last = lines
    assert (first["not_whole"], first["invented"]) == ({"p0": "part"}, [])
    assert first["faults"] == ["'value 0' (p0) is incomplete"]
    assert first["not_mentioned_lenient"] == {"p0": "no word of it"}
    assert "".join(fact["text"] for fact in first["facts"]) == first["text"]
    assert (second["not_whole"], second["faults"]) == ({}, [])
    assert (list(third["not_whole"]), third["invented"]) == (["p0", "p1"], ["Oslo"])
    assert "slot_errors" not in first
    assert last["slot_errors"] == [{"kind": "missed", "slot": "p0", "value": "x", "why": "p0: 'x' is missing"}]
    assert last["text"] == NASTY


def test_only_a_report_of_the_same_evaluation_is_replaced(report_folder: Path) -> None:
    files_before = files(report_folder)
    other_report = replace(report(ROWS), identity={"bundle": "cd34", "limit": 0})
    with pytest.raises(ConfigError, match=r"has the report of another evaluation \(its bundle differs\)"):
        write_report(report_folder, other_report)
    assert files(report_folder) == files_before
    write_report(report_folder, report(ROWS[:1]))
    assert files(report_folder) != files_before
    assert [path.name for path in report_folder.parent.iterdir()] == ["r"]


@pytest.mark.parametrize("name", ["thesis.txt", "report.json"])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match="name another folder"):
        write_report(tmp_path, report(ROWS))
    assert files(tmp_path) == {name: b"{}"}


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("file", "it is a file"),
        ("link", "is a symbolic link"),
        ("file/r", "file is a file, not a folder"),
        (".", "is the working directory or a mount point"),
        ("/", "is the working directory or a mount point"),
        ("empty", None),
        ("new/report", None),
    ],
)
def test_a_report_is_written_to_a_new_or_empty_folder(
    tmp_path: Path, folder: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").write_text("x")
    Path("link").symlink_to("empty")
    if message is None:
        write_report(Path(folder), report(ROWS))
        assert [path.name for path in Path(folder).parent.glob("**/*.json")] == ["report.json"]
        assert sorted(files(Path(folder))) == sorted(FILES)
    else:
        with pytest.raises(ConfigError, match=message):
            check_target(Path(folder), {})


def test_a_failed_write_keeps_the_earlier_report(report_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files_before = files(report_folder)
    rename = os.rename

    def refuse(source: str | Path, target: str | Path) -> None:
        if Path(source).name == "new":
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_report(report_folder, report(ROWS[:1]))
    assert files(report_folder) == files_before
    assert [path.name for path in report_folder.parent.iterdir()] == ["r"]
