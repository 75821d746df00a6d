"""Files of plans and alignments: what they may hold, how they are matched, and what is said about what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from agggen.errors import CorpusError
from agggen.evaluation.plan_files import read_alignments, read_plans

GOLD = [
    {"id": "1", "plan": "[a b] [c]"},
    {"id": "1", "plan": "[c] [] [a b]"},
    {"id": 2, "plan": "[a]", "predicates": ["a", "z"]},
]
TEXTS = [
    {"id": "1", "plan": "[a] [] [b]", "facts": ["One ", "and ", "two."]},
    {"id": "2", "plan": "[c]", "facts": ["Three."]},
]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines), encoding="utf-8")
    return path


def test_plans_are_matched_by_id(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", GOLD)
    plans = write(tmp_path / "plans.jsonl", ["", {"id": "2", "plan": "[z] []"}, {"id": 1, "plan": "[a]", "score": 1}])
    read = read_plans(gold, plans)
    assert read.ids == ("1", "2")
    assert [str(plan) for plan in read.plans] == ["[a]", "[z]"]
    assert [[str(plan) for plan in of] for of in read.references] == [["[a b] [c]", "[c] [a b]"], ["[a]"]]
    assert read.predicates == (("a", "b", "c"), ("a", "z"))


def test_what_the_commands_write_can_be_read(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", GOLD)
    planned = {"id": "1", "plans": [{"plan": "[a] [b] [c]", "log_probability": -1.0}, {"plan": "[a b c]"}]}
    written = {"id": "2", "text": "A.", "plan": "[a]", "facts": [{"start": 0, "text": "A.", "predicates": ["a"]}]}
    read = read_plans(gold, write(tmp_path / "plans.jsonl", [planned, written]))
    assert [str(plan) for plan in read.plans] == ["[a] [b] [c]", "[a]"]

    aligned = [
        {
            "id": "1",
            "reference": 1,
            "facts": [{"text": "Two ", "predicates": ["c d"]}, {"text": "!", "predicates": []}],
        },
        {"id": "1", "reference": 0, "facts": [{"text": "One.", "predicates": ["a"]}]},
    ]
    gold = write(tmp_path / "aligned.jsonl", aligned)
    result = read_alignments(gold, write(tmp_path / "found.jsonl", aligned[::-1]))
    assert list(result.predicted) == list(result.gold) == [{"c d": 0}, {"a": 0}]


def test_alignments_are_matched_and_positions_count_empty_facts(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", TEXTS)
    ours = [
        {"id": "2", "plan": "[]", "facts": ["three ."]},
        {"id": "1", "plan": "[b a] [b] []", "facts": ["One", "and", "2."]},
    ]
    read = read_alignments(gold, write(tmp_path / "ours.jsonl", ours))
    assert read.gold == ({"a": 0, "b": 2}, {"c": 0})
    assert read.predicted == ({"a": 0, "b": 1}, {})
    assert (read.rephrased, read.repeated) == (("1",), ("1",))


def test_several_texts_of_one_id_are_told_apart_by_their_words(tmp_path: Path) -> None:
    texts = [{**TEXTS[0], "id": "x"}, {**TEXTS[1], "id": "x"}]
    gold = write(tmp_path / "gold.jsonl", texts)
    read = read_alignments(gold, write(tmp_path / "ours.jsonl", [{**texts[1], "facts": ["THREE ."]}, texts[0]]))
    assert read.gold == read.predicted
    second = {"id": "x", "plan": "[c]", "facts": ["Another."]}
    with pytest.raises(CorpusError, match=r"line 2, id 'x': .* has 2 texts of this id, and .* none"):
        read_alignments(gold, write(tmp_path / "ours.jsonl", [texts[0], second]))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"id": "1", "plan": "[a b q]"}], r"plans.jsonl, line 1, id '1': .* no predicate 'q'; they have a, b, c"),
        ([{"id": "1", "plan": "[a]"}], r"plans.jsonl has no plan for \S*gold.jsonl, line 3, id '2'"),
        ([{"id": "2", "plan": "[a]"}, {"id": "3", "plan": "[a]"}], "line 2, id '3': .*gold.jsonl has no such id"),
        ([{"id": "2", "plan": "[a]"}, {"id": 2, "plan": "[a]"}], "line 2, id '2': line 1 has the same id"),
        ([{"id": "2", "plan": ""}], "line 1, id '2': the plan is empty"),
        ([{"id": "2", "plan": "[a"}], "line 1, id '2': column 1 of plan"),
        ([{"id": "2", "plan": "[a] [a]"}], "line 1, id '2': column 6 .*second time"),
        ([{"id": "2", "plan": ["a"]}], "line 1, id '2': needs a 'plan'"),
        ([{"plan": "[a]"}], "line 1: needs an 'id'"),
        ([{"id": True, "plan": "[a]"}], "line 1: needs an 'id'"),
        ([{"id": "2", "plan": "[a]", "predicates": "a"}], "line 1, id '2': 'predicates' must be a list"),
        (["", " "], "contains no line"),
    ],
)
def test_bad_plans_are_refused(tmp_path: Path, lines: list[Any], message: str) -> None:
    gold, plans = write(tmp_path / "gold.jsonl", GOLD), write(tmp_path / "plans.jsonl", lines)
    with pytest.raises(CorpusError, match=message):
        read_plans(gold, plans)


def test_missing_ids_are_counted(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", [{"id": i, "plan": "[a]"} for i in range(5)])
    with pytest.raises(CorpusError, match=r"has no plan for .*line 2, id '1', nor for 3 other lines"):
        read_plans(gold, write(tmp_path / "plans.jsonl", [{"id": 0, "plan": "[a]"}]))


def test_gold_that_names_nothing_is_refused(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", [{"id": 1, "plan": "[]"}])
    with pytest.raises(CorpusError, match=r"gold.jsonl, line 1, id '1': no gold line of this id has a predicate"):
        read_plans(gold, write(tmp_path / "plans.jsonl", [{"id": 1, "plan": "[]"}]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"plan": "[a] [b]", "facts": ["One ", "two."]}, "has 2 facts here but 3 in .*gold.jsonl, line 1"),
        ({"plan": "[a] [b]", "facts": ["a", "b", "c"]}, "2 groups but 3 facts; write one group per fact"),
        ({"plan": "[a] [b] []"}, "needs 'facts'"),
        ({"plan": "[a] [b] []", "facts": ["a", {"text": "b"}, "c"]}, "'facts' must be a list"),
        ({"facts": [{"text": "b", "predicates": "a"}]}, "'facts' must be a list"),
        ({"plan": "[a] [q] []", "facts": ["a", "b", "c"]}, "no predicate 'q'; they have a, b"),
        ({"plan": "[a] [] []", "facts": ["a", "b", "c"], "reference": "1"}, "'reference' must be an integer"),
        ({"plan": "[a] [] []", "facts": ["a", "b", "c"], "reference": 1}, "reference 1: .*no such id and reference"),
    ],
)
def test_bad_alignments_are_refused(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    gold = write(tmp_path / "gold.jsonl", TEXTS)
    ours = write(tmp_path / "ours.jsonl", [TEXTS[1], {"id": "1", **line}])
    with pytest.raises(CorpusError, match=f"ours.jsonl, line 2, id '1'.*{message}"):
        read_alignments(gold, ours)


def test_texts_aligned_twice_or_not_at_all_are_refused(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", TEXTS)
    with pytest.raises(CorpusError, match=r"ours.jsonl, line 3, id '1': line 1 aligns the same text"):
        read_alignments(gold, write(tmp_path / "ours.jsonl", [*TEXTS, TEXTS[0]]))
    with pytest.raises(CorpusError, match=r"ours.jsonl has no alignment for \S*gold.jsonl, line 2, id '2'$"):
        read_alignments(gold, write(tmp_path / "ours.jsonl", TEXTS[:1]))
    with pytest.raises(CorpusError, match=r"gold.jsonl, line 3, id '2': line 2 has the same id and the same text"):
        read_alignments(write(tmp_path / "gold.jsonl", [*TEXTS, TEXTS[1]]), gold)
