"""The rule-based aligner and its pruning, with golden scores on human annotations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.alignment import align, hard_constraints, words
from agggen.errors import AggGenError
from agggen.evaluation.plans import positions
from agggen.records import Record, Triple
from tests.unit.annotated import annotated_texts
from tests.unit.score_files import alignment_scores


def record(*triples: tuple[str, str, str]) -> Record:
    return Record("r", tuple(Triple(*triple) for triple in triples))


FIG = record(("The Fig", "food", "Thai"), ("The Fig", "near", "Café Rouge"), ("The Fig", "familyFriendly", "no"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("leaderName", "the leader's names"),
        ("16,000", "16000"),
        ("1969-09-01", "1969 - 09 - 01"),
        ("1969-09-01", "1969, September 1st"),
        ("September 2nd", "sept 2"),
        ("Café_Rouge", "cafe rouge"),
        ("A.C. Milan", "AC Milan"),
        ("in the U.S.", "United States"),
        ("31/12/1999", "1999-12-31"),
        ("12/31/1999", "1999-12-31"),
        ("kids friendly", "familyFriendly"),
        ("OCLC_number", "OCLC number"),
    ],
)
def test_words_that_mean_the_same_have_one_normal_form(first: str, second: str) -> None:
    assert words(first) == words(second) != ()


def test_the_pronoun_us_is_not_a_country_and_99_not_a_month() -> None:
    assert words("it helps us") != words("it helps US")
    assert words("99/99/1999") == ("99", "99", "1999")


@pytest.mark.parametrize(
    ("triples", "facts", "complete", "fact_of"),
    [
        # the fact with the largest overlap
        ([("Ann", "born", "Old Rome"), ("Ann", "food", "Thai")], "Rome has Thai food, |Old Rome.", True, (1, 0)),
        # ties: a mention of the subject decides, then the first fact
        ([("Ann", "born", "Rome"), ("Bob", "born", "Rome")], "Bob is of Rome, |so is Ann of Rome.", True, (1, 0)),
        ([("Ann", "born", "Rome"), ("Bob", "born", "Rome")], "She is of Rome, |he is of Rome.", True, (0, 0)),
        # a triple without overlap is aligned to the fact without a triple, if any
        ([("Ann", "food", "Thai"), ("Ann", "motto", "Rest")], "Something. |Ann eats Thai food.", True, (1, 0)),
        ([("Ann", "food", "Thai"), ("Ann", "motto", "Rest")], "Something. |Ann eats Thai food.", False, (1, None)),
    ],
)
def test_ties_and_triples_without_overlap(triples: list, facts: str, complete: bool, fact_of: tuple) -> None:
    assert align(record(*triples), facts.split("|"), complete=complete).fact_of == fact_of


@pytest.mark.parametrize(
    ("mode", "facts", "expected"),
    [
        # a triple is required in its fact and forbidden in others
        ("release", "Thai food |near Cafe Rouge |is kids friendly", ([{0}, {1}, {2}], [{1, 2}, {0, 2}, {0, 1}], 1)),
        ("paper", "The Fig serves Thai food |near Cafe Rouge", ([{0}, {1}], [set(), set()], 3)),
        # a triple that two facts match is not constrained
        ("release", "Thai food here, |Thai food there", ([set(), set()], [set(), set()], 2)),
        # the last fact has no aligned triple, so its groups are not pruned
        ("release", "Thai food |near Rouge |kids |more", ([{0}, {1}, {2}, set()], [{1, 2}, {0, 2}, {0, 1}, set()], 1)),
        ("release", "nothing at all", ([set()], [set()], 3)),
    ],
)
def test_required_and_forbidden_triples(mode: Literal["paper", "release"], facts: str, expected: object) -> None:
    hard = hard_constraints(FIG, facts.split("|"), mode)
    assert (list(hard.required), list(hard.forbidden), hard.max_size) == expected


def test_of_too_many_required_triples_the_best_covered_are_kept() -> None:
    four = record(*(("Ann", f"p{name}", f"{name} Rome") for name in ("Alpha", "Beta", "Gamma", "Delta")))
    hard = hard_constraints(four, ["Alpha Rome, Beta Rome, Gamma Rome, Delta"], mode="paper", max_size=2)
    assert hard.required == (frozenset({0, 1}),)
    assert hard.max_size == 2


PHRASES = ("serves Thai food", "near Cafe Rouge", "family friendly", "The Fig", "food", "Rouge", "nothing", "it")
SAYINGS = st.lists(st.sampled_from(PHRASES), max_size=4)


@given(facts=st.lists(SAYINGS.map(" ".join), min_size=1, max_size=5), max_size=st.integers(1, 3))
@pytest.mark.parametrize("mode", ["paper", "release"])
def test_every_fact_keeps_a_group(mode: Literal["paper", "release"], facts: list[str], max_size: int) -> None:
    hard = hard_constraints(FIG, facts, mode=mode, max_size=max_size)
    assert 1 <= hard.max_size <= max_size
    groups = [set(group) for size in range(1, hard.max_size + 1) for group in combinations(range(3), size)]
    for required, forbidden in zip(hard.required, hard.forbidden, strict=True):
        assert any(required <= group and not forbidden & group for group in groups)


@given(facts=st.lists(SAYINGS.map(" ".join), min_size=1, max_size=4))
def test_overlaps_are_fractions_and_every_triple_is_aligned(facts: list[str]) -> None:
    alignment = align(FIG, facts)
    assert all(0 <= share <= 1 for row in alignment.overlap for share in row)
    assert all(fact is not None and 0 <= fact < len(facts) for fact in alignment.fact_of)


@pytest.mark.parametrize("align_to", [align, hard_constraints])
def test_a_text_without_facts_is_refused(align_to: Callable[[Record, list[str]], object]) -> None:
    with pytest.raises(AggGenError, match="record 'r': no facts"):
        align_to(FIG, [])


@pytest.fixture(scope="module")
def annotated(data_home: Path) -> list[tuple[Record, list[str], list[list[str]]]]:
    return annotated_texts(data_home)


def scores_of(annotated: list, facts_of: Callable[[Record, list[str]], list[int | None]]) -> dict[str, float]:
    predicted = [dict(zip(r.predicates, facts_of(r, facts), strict=True)) for r, facts, _ in annotated]
    return alignment_scores(predicted, [positions(plan) for *_, plan in annotated])


def test_golden_alignments(annotated: list) -> None:
    """The published aligner has a precision of 86.20 and an F1 of 92.59."""
    scores = scores_of(annotated, lambda record, facts: list(align(record, facts).fact_of))
    assert (scores["precision"], scores["recall"], scores["f1"]) == (92.64, 100, 96.18)


@pytest.mark.parametrize(("mode", "aligned", "precision"), [("release", 73, 96), ("paper", 88, 94)])
def test_golden_hard_alignments(
    annotated: list, mode: Literal["paper", "release"], aligned: float, precision: float
) -> None:
    def required_facts(record: Record, facts: list[str]) -> list[int | None]:
        required = hard_constraints(record, facts, mode=mode).required
        return [next((n for n, group in enumerate(required) if i in group), None) for i in range(len(record.triples))]

    scores = scores_of(annotated, required_facts)
    assert scores["recall"] >= aligned
    assert scores["precision"] >= precision
