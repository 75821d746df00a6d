"""The rule-based aligner and its pruning, with golden scores on human annotations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.alignment import HardAlignment, align, hard_constraints, words
from agggen.errors import AggGenError
from agggen.evaluation.alignments import positions
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
        ("kids friendly", "familyFriendly"),
        ("OCLC_number", "OCLC number"),
    ],
)
def test_words_that_mean_the_same_have_one_normal_form(first: str, second: str) -> None:
    assert words(first) == words(second) != ()


def test_the_pronoun_us_is_not_a_country() -> None:
    assert words("it helps us") != words("it helps US")


def test_a_day_first_date_is_read_both_ways_round() -> None:
    assert set(words("31/12/1999")) == set(words("12/31/1999")) == set(words("1999-12-31"))
    assert words("99/99/1999") == ("99", "99", "1999")


def test_each_triple_is_aligned_to_the_fact_with_the_largest_overlap() -> None:
    alignment = align(FIG, ["The Fig serves Thai food ", "near Cafe Rouge ", "and is not family friendly."])
    assert alignment.fact_of == (0, 1, 2)
    assert alignment.overlap[0] == (1.0, 0.0, 0.0)
    assert alignment.overlap[1] == (0.0, 1.0, 0.0)


def test_the_subject_breaks_ties_then_the_first_fact_wins() -> None:
    two = record(("Ann", "birthPlace", "Rome"), ("Bob", "birthPlace", "Rome"))
    assert align(two, ["Bob is of Rome, ", "so is Ann of Rome."]).fact_of == (1, 0)
    assert align(two, ["She is of Rome, ", "he is of Rome."]).fact_of == (0, 0)


def test_a_triple_without_overlap_is_aligned_to_the_free_fact_or_not_at_all() -> None:
    two = record(("Ann", "food", "Thai"), ("Ann", "motto", "Never rest"))
    facts = ["Something unsaid. ", "Ann eats Thai food."]
    assert align(two, facts).fact_of == (1, 0)
    assert align(two, facts, complete=False).fact_of == (1, None)


def test_pruning_requires_where_aligned_and_forbids_elsewhere() -> None:
    hard = hard_constraints(FIG, ["The Fig serves Thai food ", "near Cafe Rouge ", "and is kids friendly."])
    assert hard.required == (frozenset({0}), frozenset({1}), frozenset({2}))
    assert hard.forbidden == (frozenset({1, 2}), frozenset({0, 2}), frozenset({0, 1}))
    assert hard.max_size == 1


def test_the_papers_pruning_forbids_nothing() -> None:
    hard = hard_constraints(FIG, ["The Fig serves Thai food ", "near Cafe Rouge."], mode="paper")
    assert hard.required == (frozenset({0}), frozenset({1}))
    assert hard.forbidden == (frozenset(), frozenset())
    assert hard.max_size == 3


@pytest.mark.parametrize(("n_facts", "cap"), [(4, 1), (3, 1), (2, 2), (1, 3)])
def test_the_maximum_group_size_depends_on_triples_minus_facts(n_facts: int, cap: int) -> None:
    assert hard_constraints(FIG, ["nothing at all "] * n_facts).max_size == cap


def test_a_triple_with_votes_of_two_facts_is_not_constrained() -> None:
    hard = hard_constraints(FIG, ["Thai food here, ", "Thai food there."])
    assert hard.fact_of == (None, None, None)


def test_a_fact_whose_triples_are_all_aligned_elsewhere_keeps_its_groups() -> None:
    hard = hard_constraints(FIG, ["It is near Café Rouge, ", "has Thai food, ", "is family friendly ", "and more."])
    assert hard.fact_of == (1, 0, 2)
    assert hard.forbidden[3] == frozenset()


def test_of_too_many_required_triples_the_best_covered_are_kept() -> None:
    four = record(*(("Ann", f"p{name}", f"{name} Rome") for name in ("Alpha", "Beta", "Gamma", "Delta")))
    hard = hard_constraints(four, ["Alpha Rome, Beta Rome, Gamma Rome, Delta"], mode="paper", max_size=2)
    assert hard.fact_of == (0, 0, 0, 0)
    assert hard.required == (frozenset({0, 1}),)
    assert hard.max_size == 2


PHRASES = ("serves Thai food", "near Cafe Rouge", "family friendly", "The Fig", "food", "Rouge", "nothing", "it")
SAYINGS = st.lists(st.sampled_from(PHRASES), max_size=4)


def _allowed(hard: HardAlignment, fact: int, n_triples: int) -> list[set[int]]:
    sets = (set(s) for k in range(1, hard.max_size + 1) for s in combinations(range(n_triples), k))
    return [s for s in sets if hard.required[fact] <= s and not hard.forbidden[fact] & s]


@given(facts=st.lists(SAYINGS.map(" ".join), min_size=1, max_size=5), max_size=st.integers(1, 3))
@pytest.mark.parametrize("mode", ["paper", "release"])
def test_every_fact_keeps_a_group(mode: Literal["paper", "release"], facts: list[str], max_size: int) -> None:
    hard = hard_constraints(FIG, facts, mode=mode, max_size=max_size)
    assert 1 <= hard.max_size <= max_size
    assert all(_allowed(hard, fact, 3) for fact in range(len(facts)))


@given(facts=st.lists(SAYINGS.map(" ".join), min_size=1, max_size=4))
def test_overlaps_are_fractions_and_every_triple_is_aligned(facts: list[str]) -> None:
    alignment = align(FIG, facts)
    assert all(0 <= share <= 1 for row in alignment.overlap for share in row)
    assert all(fact is not None and 0 <= fact < len(facts) for fact in alignment.fact_of)


@pytest.mark.parametrize("align_to", [align, hard_constraints])
def test_a_text_without_facts_is_refused(align_to: Callable[[Record, list[str]], object]) -> None:
    with pytest.raises(AggGenError, match="record 'r': there are no facts"):
        align_to(FIG, [])


@pytest.fixture(scope="module")
def annotated(data_home: Path) -> list[tuple[Record, list[str], dict[str, int]]]:
    """The 274 annotated references: record, facts, and the human position of each predicate."""
    return [(record, facts, positions(plan)) for record, facts, plan in annotated_texts(data_home)]


def test_golden_surface_rule_equals_the_published_scores(annotated: list) -> None:
    predicted = [
        dict(zip(first.predicates, align(first, facts, rule="surface").fact_of, strict=True))
        for first, facts, _ in annotated
    ]
    scores = alignment_scores(predicted, [plan for *_, plan in annotated])
    assert [scores[name] for name in ("precision", "recall", "f1")] == [86.20, 100.00, 92.59]


def test_golden_normal_rule_beats_the_published_aligner(annotated: list) -> None:
    predicted = [dict(zip(first.predicates, align(first, facts).fact_of, strict=True)) for first, facts, _ in annotated]
    scores = alignment_scores(predicted, [plan for *_, plan in annotated])
    assert [scores[name] for name in ("precision", "recall", "f1")] == [92.64, 100.00, 96.18]


@pytest.mark.parametrize(("mode", "aligned", "precision"), [("release", 0.73, 0.96), ("paper", 0.89, 0.94)])
def test_golden_hard_alignments(
    annotated: list, mode: Literal["paper", "release"], aligned: float, precision: float
) -> None:
    predicted = [
        dict(zip(first.predicates, hard_constraints(first, facts, mode).fact_of, strict=True))
        for first, facts, _ in annotated
    ]
    scores = alignment_scores(predicted, [plan for *_, plan in annotated])
    assert scores["recall"] >= 100 * aligned
    assert scores["precision"] >= 100 * precision
