"""The review table: written by `agggen check`, corrected, and read back as training data."""

import csv
import json
from pathlib import Path

import pytest

from agggen.datasets import load_dataset, load_records
from agggen.errors import ConfigError
from agggen.report.review import COLUMNS, check_review
from tests.command import command

TRIPLES = [["Silicon | \u00c5", "period", '3, "x"'], ["Silicon | \u00c5", "discovered by", "Berzelius;\nwith others"]]
TEXTS = ["Silicon is in period 3.", "Boron was found by Curie, who\nnever saw it.", "=1+1", "Silicon is."]


def with_corrections(path: Path, corrections: dict[str, str]) -> Path:
    """Writes the table with `corrections` by record id, with semicolons and without BOM like spreadsheets."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.with_name("done.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=";")
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
    assert list(rows[0]) == list(COLUMNS)
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
    with pytest.raises(ConfigError, match="there is no folder"):
        check_review(tmp_path / "absent" / "review.csv")
