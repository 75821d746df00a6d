"""Choices, plans, bundles and corpora that do not fit are refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Run
from tests.unit.cli_write.examples import (
    RESTAURANTS,
    json_lines,
    parsed,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plan", "[fod] [near]"), "record '1': the record has no predicate 'fod'; did you mean food?"),
        (("--plan", "[food]"), "plan for record '1' omits near; add them, or"),
        (("--plan", "[food near] [food]"), "column 14 of plan '[food near] [food]': 'food' occurs a second time"),
        (("--plan", "[food] [food]", "--complete"), "column 9 of plan '[food] [food]': 'food' occurs a second time"),
        (("--plan", "[fod]", "--complete"), "did you mean food?"),
        (("--plan", "[food near"), "column 1 of plan '[food near': this group is never closed"),
        (("--plan", "food near"), "column 1 of plan 'food near': expected '[', found 'f'"),
        (("--plan", "[food [near]]"), "column 7 of plan '[food [near]]': groups do not nest"),
        (("--plan", ""), "the plan is empty"),
        (("--complete",), "--complete goes with --plan"),
        (("--plan", "[food] [near]", "--level", "1"), "--level does not go with --plan"),
        (("--plan", "[food] [near]", "--ablation", "plain"), "--ablation does not go with --plan"),
        (("--level", "4"), "aggregation level 4 exceeds this model's largest group of 3 predicates"),
        (("--planner", "exakt"), "'planner' must be one of 'exact', 'two-stage', 'sample', not 'exakt'"),
        (("--ablation", "x"), "'ablation' must be one of"),
        (("--verify", "retry"), "'strict', 'off'"),
    ],
)
def test_a_choice_that_does_not_fit_is_one_line_and_exit_code_2(
    run: Run, bundle: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    path = json_lines(tmp_path / "one.jsonl", RESTAURANTS[:1])
    code, out, err = run("generate", bundle, "-i", path, *options)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_plan_that_fits_some_records_rejects_the_others(run: Run, bundle: Path, records: Path) -> None:
    code, out, err = run("generate", bundle, "-i", records, "--plan", "[near food]")
    assert (code, [line["id"] for line in parsed(out)]) == (0, ["1"])
    assert "4 of 5 records rejected, first: plan for record '2' omits eatType" in err
    assert "--output FILE lists all in FILE.rejects.jsonl" in err


def test_a_missing_input_is_named(run: Run, bundle: Path) -> None:
    expected = (2, "", "error: cannot read nowhere.jsonl: No such file or directory\n")
    assert run("generate", bundle, "-i", "nowhere.jsonl") == expected


@pytest.mark.parametrize("command", ["generate", "plan", "align", "inspect"])
def test_an_unknown_bundle_is_exit_code_3(run: Run, command: str) -> None:
    assert run(command, "nowhere") == (
        3,
        "",
        "error: there is no bundle at nowhere; `agggen train` writes one and prints its place\n",
    )
