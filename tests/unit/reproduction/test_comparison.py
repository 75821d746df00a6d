"""Rows of a table: means and spread over seeds, the order, what is missing, and what never stands together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agggen.errors import ConfigError
from agggen_platform.reproduction import show
from agggen_platform.reproduction.comparison import compare
from agggen_platform.reproduction.records import RunRecord, Value
from agggen_platform.reproduction.tables import AGGGEN, TABLES, Recipe, of_board
from tests.unit.reproduction.made import board, record

TABLE = of_board("toy", "A toy", Recipe("toy", "toy", "tiny"), board())


def test_ours_stand_below_their_namesakes_and_the_others_last() -> None:
    rows = compare(TABLE, [record("transformer"), record("agggen"), record("agggen-od")]).rows
    assert [(row.system, row.ours) for row in rows] == [
        ("Elsewhere", False),
        ("AggGen", False),
        ("AggGen", True),
        ("Transformer", True),
        ("AggGen -OD", True),
    ]


@pytest.mark.parametrize(
    ("values", "shown", "n"),
    [
        ([50.0], "50.00", "ours, n=1"),
        ([50.0, 51.0], "50.50 (50.00 to 51.00)", "ours, n=2"),
        ([50.0, 51.0, 53.0], "51.33 ± 1.53", "ours, n=3"),
    ],
)
def test_spread_over_seeds(values: list[float], shown: str, n: str) -> None:
    found = compare(TABLE, [record(seed=seed, bleu=value) for seed, value in enumerate(values)])
    assert show.columns_of(found) == ["system", "bleu", "chrf", "from"]
    name, bleu, _, source = show.rows_of(found)[2]
    assert (name, bleu, source) == ("AggGen", shown, n)
    row = show.to_json(found)["rows"][2]
    assert (row["n"], row["scores"]["bleu"]["min"]) == (len(values), 50.0)
    assert row["scores"]["bleu"]["deviation"] == (pytest.approx(1.527525) if len(values) == 3 else None)
    assert [run["scores"]["bleu"]["value"] for run in row["runs"]] == values
    assert row["runs"][0]["scores"]["bleu"]["interval_95"] == (49.0, 51.0)


def test_each_published_row_has_its_source_and_absent_numbers_are_hyphens() -> None:
    found = compare(TABLE, [])
    assert show.rows_of(found) == [["Elsewhere", "61.50", "70.25", "[1]"], ["AggGen", "58.50", "-", "[2]"]]
    notes = show.notes_of(found, "in DIR")
    assert notes[:3] == [
        "[1] Somebody 2020.",
        "[2] The paper, table 1; mean of 3.",
        "Published: protocol plain: by hand.",
    ]
    assert notes[3].startswith("None of ours is among the records in DIR. To train and evaluate them: agggen reproduce")


def test_signatures_and_the_recipe_stand_below() -> None:
    notes = "\n".join(show.notes_of(compare(TABLE, [record(), record("transformer")]), "in DIR"))
    assert "plain/bleu: bleu|v1" in notes and "plain/chrf: chrf|v1" in notes
    assert "trained by tiny." in notes and "(3 records)" in notes


def test_what_was_not_computed_is_a_hyphen_and_said() -> None:
    found = compare(TABLE, [record(chrf="no Java"), record("transformer", chrf="no Java")])
    assert [row[2] for row in show.rows_of(found)[2:]] == ["-", "-"]
    assert found.missing == ("chrf has no number for any of ours: no Java",)


def test_a_row_has_no_mean_of_a_part_of_its_seeds() -> None:
    found = compare(TABLE, [record(seed=1), record(seed=2, chrf="no Java")])
    assert show.rows_of(found)[2][1:3] == ["50.00 (50.00 to 50.00)", "-"]
    assert found.missing == ("chrf has no number for agggen-2: no Java",)


CHANGES: list[tuple[str, Callable[[RunRecord], RunRecord]]] = [
    ("corpus fingerprint", lambda r: replace(r, corpus_fingerprint="other")),
    ("protocol", lambda r: replace(r, protocol="e2e")),
    ("recipe", lambda r: replace(r, recipe=("tiny", "model.width=9"))),
    ("inference setting retries", lambda r: replace(r, settings={**r.settings, "retries": 1})),
    ("inference setting beam.beam", lambda r: replace(r, settings={**r.settings, "beam.beam": 99})),
    (
        "signature of plain/bleu",
        lambda r: replace(r, scores={**r.scores, "plain/bleu": Value(50.0, signature="bleu|v2")}),
    ),
]


@pytest.mark.parametrize(("what", "change"), CHANGES, ids=[what for what, _ in CHANGES])
def test_runs_that_do_not_compare_are_refused_by_name(what: str, change: Callable[[RunRecord], RunRecord]) -> None:
    records = [record(seed=1), record(seed=2), change(record(seed=3))]
    with pytest.raises(ConfigError, match=rf"toy/agggen-1\.json and toy/agggen-3\.json cannot .*: the {what} of"):
        compare(TABLE, records)


def test_systems_write_differently_but_about_the_same_records() -> None:
    plain = record("transformer")
    compare(TABLE, [record(), replace(plain, settings={**plain.settings, "ablation": "plain"})])
    with pytest.raises(ConfigError, match="corpus fingerprint"):
        compare(TABLE, [record(), replace(plain, corpus_fingerprint="other")])


def test_a_setting_that_did_not_exist_yet_had_its_default() -> None:
    older = record(seed=1)
    compare(
        TABLE, [replace(older, settings={k: v for k, v in older.settings.items() if k != "retries"}), record(seed=2)]
    )


def test_one_evaluation_gives_the_model_and_the_people() -> None:
    scores = {
        "plans/nmi_avg": Value(0.65, signature="s"),
        "plans/human_nmi_avg": Value(0.84, signature="among people"),
        "plans/reference_groups": Value(2.5, signature="g"),
    }
    table = TABLES["plans"]
    found = compare(table, [record(AGGGEN.key, table="plans", scores=scores)])
    place = show.columns_of(found).index("nmi_avg")
    assert [(row[0], row[place], row[-1][:4]) for row in show.rows_of(found)] == [
        ("people, among themselves", "0.8415", "[1]"),
        ("people, among themselves", "0.8400", "ours"),
        ("AggGen", "0.6416", "[1]"),
        ("AggGen", "0.6500", "ours"),
    ]
    assert show.rows_of(found)[1][show.columns_of(found).index("groups")] == "2.50"


def test_markdown_has_the_table_and_its_notes() -> None:
    lines = show.to_markdown(compare(TABLE, [record()]), "in DIR").splitlines()
    assert lines[:3] == [
        "| system | bleu | chrf | from |",
        "|---|---|---|---|",
        r"| Elsewhere | 61.50 | 70.25 | \[1\] |",
    ]
    assert r"- plain/bleu: bleu\|v1" in lines
