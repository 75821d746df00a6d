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


def test_a_report_has_all_files_and_leaves_no_temporary_ones(tmp_path: Path) -> None:
    write_report(tmp_path / "new" / "report", report(ROWS))
    assert sorted(files(tmp_path / "new" / "report")) == sorted(FILES)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report"]


def test_report_json_has_every_score_with_its_signature(tmp_path: Path) -> None:
    write_report(tmp_path / "r", report(ROWS))
    result = json.loads((tmp_path / "r" / "report.json").read_text(encoding="utf-8"))
    assert result["scores"]["text"]["measures"] == [
        {"name": "bleu", "value": 41.25, "interval_95": [40.0, 42.5], "signature": "nrefs:var|tok:13a"},
        {"name": "tau", "value": None, "interval_95": None, "signature": "kendall"},
        {"name": "meteor", "value": None, "not_computed": "there is no Java here"},
    ]
    assert [part["records"] for part in result["by_triples"]] == [1, 2]
    assert result["partial"] is None


def test_records_jsonl_has_a_line_per_record_with_its_errors(tmp_path: Path) -> None:
    write_report(tmp_path / "r", report([*ROWS, row(4, 2, 1, slots=True, text=NASTY)]))
    lines = [json.loads(line) for line in (tmp_path / "r" / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["r1", "r2", "r3", "r4"]
    assert (lines[0]["not_whole"], lines[0]["invented"]) == ({"p0": "part"}, [])
    assert lines[0]["faults"] == ["'value 0' (p0) is incomplete"]
    assert lines[0]["not_mentioned_lenient"] == {"p0": "no word of it"}
    assert (lines[1]["not_whole"], lines[1]["faults"]) == ({}, [])
    assert (list(lines[2]["not_whole"]), lines[2]["invented"]) == (["p0", "p1"], ["Oslo"])
    assert "slot_errors" not in lines[0]
    assert lines[3]["slot_errors"] == [{"kind": "missed", "slot": "p0", "value": "x", "why": "p0: 'x' is missing"}]
    assert lines[3]["text"] == NASTY
    assert "".join(fact["text"] for fact in lines[0]["facts"]) == lines[0]["text"]


def test_the_same_evaluation_replaces_its_report(tmp_path: Path) -> None:
    write_report(tmp_path / "r", report(ROWS))
    before = files(tmp_path / "r")
    write_report(tmp_path / "r", report(ROWS[:1]))
    assert files(tmp_path / "r") != before
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_another_evaluations_report_is_never_overwritten(tmp_path: Path) -> None:
    write_report(tmp_path / "r", report(ROWS))
    before = files(tmp_path / "r")
    other = replace(report(ROWS), identity={"bundle": "cd34", "limit": 0})
    with pytest.raises(ConfigError, match=r"has the report of another evaluation \(its bundle differs\)"):
        write_report(tmp_path / "r", other)
    assert files(tmp_path / "r") == before


@pytest.mark.parametrize("name", ["thesis.txt", "report.json"])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / name).write_text("{}")
    with pytest.raises(ConfigError, match="name another folder"):
        write_report(tmp_path / "r", report(ROWS))
    assert files(tmp_path / "r") == {name: b"{}"}


def test_an_empty_folder_is_used_and_a_file_or_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_report(tmp_path / "empty", report(ROWS))
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name, message in (
        ("file", "it is a file"),
        ("link", "is a symbolic link"),
        ("file/r", "file is a file, not a folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            write_report(tmp_path / name, report(ROWS))


def test_a_folder_that_cannot_be_renamed_is_refused_before_the_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (Path("."), tmp_path, Path("/")):  # the last is a mount point
        with pytest.raises(ConfigError, match="is the working directory or a mount point"):
            check_target(folder, {})


def test_a_failed_write_keeps_the_earlier_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(tmp_path / "r", report(ROWS))
    before = files(tmp_path / "r")
    rename = os.rename

    def refuse(source: str | Path, target: str | Path) -> None:
        if Path(source).name == "new":
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_report(tmp_path / "r", report(ROWS[:1]))
    assert files(tmp_path / "r") == before
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
