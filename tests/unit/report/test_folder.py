"""The report on disk and its page: content, escaping, atomic writing, protection of other files; the review table."""

import csv
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agggen.datasets import load_dataset, load_records
from agggen.errors import ConfigError
from agggen.evaluation import Score
from agggen.evaluation.protocols import measure
from agggen.generation.results import WrittenFact
from agggen.records import Plan, Record
from agggen.report import Measure, Report, Row, Section, write_report
from agggen.report.build import breakdowns
from agggen.report.folder import (
    FILES,
    MAX_ROWS,
    REVIEW_COLUMNS,
    check_review,
    check_target,
    most_faulty,
    pieces,
    sample_rows,
    to_html,
)
from agggen.verification.e2e import SlotError, SlotErrors
from agggen.verification.results import TextCheck, ValueCheck
from tests.command import command

NASTY = '</style></mark><script>alert("x")</script> & <b>\x07 \ud800 | `a` \u202eright'


def row(number: int, size: int, wrong: int = 0, slots: bool = False, text: str = "One two three.") -> Row:
    """A row with one fact per triple, in which both checks find the first `wrong` values incomplete."""
    triples = [["Mill", f"p{i}", f"value {i}"] for i in range(size)]
    category = "Food" if number % 2 else "City"
    record = Record.of({"id": f"r{number}", "triples": triples, "references": [text], "category": category})
    names = record.predicates
    cuts = [*range(0, len(text) - len(text) % size, len(text) // size), len(text)]
    facts = [WrittenFact(cuts[i], cuts[i + 1], (names[i],), names[i : i + 1] if i < wrong else ()) for i in range(size)]
    values = tuple(ValueCheck(triple, "part" if i < wrong else "literal") for i, triple in enumerate(record.triples))
    missed = tuple(SlotError(name, "x", None, None, None) for name in names[:wrong])
    return Row(
        record,
        text,
        TextCheck(values, invented=("Oslo",) if wrong > 1 else ()),
        Plan(tuple((name,) for name in names)),
        facts,
        {"bleu": 12.5},
        dict.fromkeys(names[:wrong], "no word of it"),
        SlotErrors((), missed, (), size) if slots else None,
    )


def report(rows: list[Row], title: str = "Toy", seed: int = 0, partial: str = "") -> Report:
    references = [[reference.text for reference in row.record.references] for row in rows]
    statistics = measure("plain", [row.text for row in rows], references)
    measures = (
        Measure("bleu", Score(41.25, "nrefs:var|tok:13a"), (40.0, 42.5)),
        Measure("tau", Score(float("nan"), "kendall")),
        Measure("meteor", None, None, "no Java here"),
    )
    identity, run = {"bundle": "ab12", "limit": 0}, {"bundle": title, "records": len(rows)}
    sections = [Section("text", "Texts", measures)]
    tables = {"published": None, **breakdowns(rows, statistics, ([1, 1, 2], "By rules."))}
    return Report(title, identity, run, sections, rows, tables, "None are on file.", partial, seed)


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
        {"name": "meteor", "value": None, "not_computed": "no Java here"},
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


# --- the page --------------------------------------------------------------------------------------------------------

PAGE_ROWS = [row(number, 1 + number % 4, wrong=number % 3) for number in range(40)]


def parsed(page: str) -> ElementTree.Element:
    """The page, which is well-formed XML apart from its doctype and `meta`."""
    return ElementTree.fromstring(re.sub("<(!doctype|meta)[^>]*>", "", page, flags=re.IGNORECASE))


def text_in(page: ElementTree.Element, tag: str) -> str:
    return "".join(text for element in page.iter(tag) for text in element.itertext())


def test_the_page_has_scores_samples_and_reasons_and_loads_nothing() -> None:
    page = parsed(to_html(report(PAGE_ROWS, partial="Only 40 of 100 records.")))
    for text in (
        *("Only 40 of 100 records.", "41.25", "40.00 to 42.50", "nrefs:var|tok:13a", "undefined", "None are on file."),
        *("not computed: no Java here", "Drawn at random with seed 0.", "Mill | p0 | value 0"),
        *("'value 0' (p0) is incomplete", "p0: no word of it", "References: 1"),
    ):
        assert text in text_in(page, "body")
    assert not {element.tag for element in page.iter()} & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert all(element.get("href", "#").startswith("#") for element in page.iter())
    assert not re.search(r"url\(|@import", text_in(page, "style"))


@pytest.mark.parametrize("slots", [False, True])
def test_all_texts_are_escaped(slots: bool) -> None:
    html = to_html(report([row(1, 1, wrong=1, slots=slots, text=NASTY)], title=NASTY))
    page = parsed(html)
    assert page.find(".//script") is None and len(page.findall(".//style")) == 1
    assert 'alert("x")' in text_in(page, "mark")
    assert ("missed: p0" in text_in(page, "body")) == slots
    html.encode("utf-8")  # no lone surrogates


@pytest.mark.parametrize("size", [1, 3, 7])
def test_marked_pieces_concatenate_to_the_text(size: int) -> None:
    text = "  Mill — a café,\tserves  日本 🍣 food & <b> .  "
    parts = pieces(row(5, size, text=text))
    assert [number for number, _ in parts if number] == list(range(1, size + 1))
    assert "".join(piece for _, piece in parts) == text


def test_facts_that_overlap_are_not_marked_twice() -> None:
    base_row = row(5, 2, text="abcdef")
    first, second = base_row.facts
    overlapping = replace(base_row, facts=(replace(first, end=4), replace(second, start=2)))
    assert pieces(overlapping) == [(0, ""), (1, "abcd"), (0, "ef")]


def test_samples_are_drawn_by_the_seed_in_the_order_of_the_corpus() -> None:
    ids = [[r.record.id for r in sample_rows(report(PAGE_ROWS, seed=seed))] for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert len(set(ids[0])) == MAX_ROWS < len(PAGE_ROWS)
    assert ids[0] == sorted(ids[0], key=lambda name: int(name[1:]))
    assert sample_rows(report(PAGE_ROWS[:9])) == PAGE_ROWS[:9]


def test_rows_with_the_most_faults_come_first() -> None:
    rows = [row(1, 3, 0), row(2, 3, 1), row(3, 4, 2), row(4, 2, 2)]
    assert [r.record.id for r in most_faulty(report(rows))] == ["r4", "r3", "r2"]
    assert len(most_faulty(report(rows * 20))) == MAX_ROWS
    assert "No text has a fault (strict)" in to_html(report(rows[:1]))


# --- the review table ------------------------------------------------------------------------------------------------

TRIPLES = [["Silicon | \u00c5", "period", '3, "x"'], ["Silicon | \u00c5", "discovered by", "Berzelius;\nwith others"]]
TEXTS = ["Silicon is in period 3.", "Boron was found by Curie, who\nnever saw it.", "=1+1", "Silicon is."]


def with_corrections(path: Path, corrections: dict[str, str]) -> Path:
    """Writes the table with `corrections` by record id, with semicolons and without BOM like spreadsheets."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.with_name("done.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, REVIEW_COLUMNS, delimiter=";")
        writer.writeheader()
        writer.writerows(row | {"corrected": corrections.get(row["id"], "")} for row in rows)
    return path.with_name("done.csv")


def test_corrected_texts_are_training_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"id": f"r{n}", "triples": [*TRIPLES, ["a", "b", str(n)]], "text": text} for n, text in enumerate(TEXTS)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["check", tmp_path / "texts.jsonl", "--review", tmp_path / "review.csv", "--worst", "4"]
    code, _, err = command(capsys)(*arguments)
    assert code == 0, err
    code, _, err = command(capsys)(*arguments)
    assert (code, "may contain corrections" in err) == (2, True)
    table = tmp_path / "review.csv"
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(REVIEW_COLUMNS)
    risks = [float(row["risk"]) for row in rows]
    assert risks == sorted(risks, reverse=True) and len(risks) == 4
    assert all(row["corrected"] == "" and row["faults"] for row in rows)
    assert {row["text"] for row in rows} == set(TEXTS)

    corrections = {"r0": "Right: it's in 3.", "r1": "Another\nline.", "r3": "A third one."}
    corrected_table = with_corrections(table, corrections)
    records = {record.id: record for record in load_records(corrected_table)}
    texts = {name: "".join(reference.text for reference in record.references) for name, record in records.items()}
    assert texts == {"r0": "", "r1": "", "r2": "", "r3": ""} | corrections
    assert records["r1"].as_dict()["triples"] == [*TRIPLES, ["a", "b", "1"]]
    splits = load_dataset(corrected_table).splits
    assert sum(len(record.references) for split in splits.values() for record in split) == 3

    corrected_table = with_corrections(table, {f"r{n}": f"Text {n}." for n in range(4)})
    corrected_table.write_text(corrected_table.read_text().replace('""b"", ""2""]]', '""b"", ""2""'), encoding="utf-8")
    with pytest.warns(UserWarning, match="'triples' must be a JSON list"):
        assert len(load_records(corrected_table)) == 3


def test_a_table_in_an_absent_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder"):
        check_review(tmp_path / "absent" / "review.csv")
