"""The sections of a report: values equal those of the modules that define them, intervals are over records."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from agggen.corpora.elements import elements_records
from agggen.evaluation.alignments import Positions, positions
from agggen.evaluation.report import measures
from agggen.evaluation.report.build import reference_groups, rows_of
from agggen.evaluation.report.content import Measure, Row, Section
from agggen.facts.config import segmenter
from agggen.records import Plan, Record
from tests.unit.evaluation.report_examples import Piece

ELEMENTS = [record for record in elements_records("dev") if len(record.triples) > 1][:40]


def shuffled(plan: Plan, dice: random.Random) -> Plan:
    """Another plan of the same predicates."""
    names = list(plan.predicates)
    dice.shuffle(names)
    cut = sorted(dice.sample(range(1, len(names)), dice.randrange(len(names))))
    return Plan(tuple(tuple(names[a:b]) for a, b in zip([0, *cut], [*cut, len(names)], strict=True)))


def plans_of(records: Sequence[Record]) -> list[Plan]:
    """The first reference's plan, in every other record shuffled."""
    dice = random.Random(1)
    first = [record.references[0].plan for record in records]
    return [shuffled(plan, dice) if number % 2 else plan for number, plan in enumerate(first) if plan]


def references_of(records: Sequence[Record]) -> list[list[Plan]]:
    return [[reference.plan for reference in record.references if reference.plan] for record in records]


def rows(records: Sequence[Record]) -> list[Row]:
    """The first reference as a system's text, with its gold facts; every third text is the next record's."""
    texts, facts = [], []
    for number, record in enumerate(records):
        other = records[(number + 1) % len(records)] if number % 3 == 0 else record
        texts.append(other.references[0].text)
        start, pieces = 0, []
        for fact in record.references[0].facts or ():
            end = min(start + len(fact.text), len(texts[-1]))
            pieces.append(Piece(start, end, tuple(fact.predicates or ())))
            start = end
        facts.append(pieces)
    return rows_of(records, texts, [record.references[0].plan for record in records], facts)


def gold(records: Sequence[Record]) -> tuple[list[Positions], list[Positions]]:
    """Gold alignments, and the same with a fault in every fourth text."""
    right = [positions(f.predicates or () for f in r.facts or ()) for record in records for r in record.references]
    wrong: list[Positions] = [dict(one) for one in right]
    for number, one in enumerate(wrong):
        if number % 4 == 0:
            wrong[number] = {
                name: None if i else place + 1 for i, (name, place) in enumerate(one.items()) if place is not None
            }
    return wrong, right


def sections(records: Sequence[Record], seed: int = 0) -> list[Section]:
    made = rows(records)
    offered = [[(row.text, row.plan), (row.text + " More.", row.plan)] for row in made if row.plan]
    found = [
        measures.faithfulness(made, seed),
        measures.plans("plans", "Plans", plans_of(records), references_of(records), seed),
        measures.adherence(made, seed),
        measures.alignment({"viterbi": gold(records)}, seed),
        measures.diversity([row.text for row in made], offered, seed),
    ]
    return [section for section in found if section]


def computed(found: list[Section]) -> dict[str, Measure]:
    return {f"{section.key}/{measure.name}": measure for section in found for measure in section.measures}


def test_every_interval_holds_the_value_and_depends_on_the_seed_alone() -> None:
    first = computed(sections(ELEMENTS))
    with_interval = {name: measure for name, measure in first.items() if measure.interval}
    assert set(first) - set(with_interval) == {"plans/coverage", "diversity/distinct_1", "diversity/distinct_2"}
    for name, measure in with_interval.items():
        assert measure.score is not None
        low, high = measure.interval or (math.nan, math.nan)
        assert low - 1e-9 <= measure.score.value <= high + 1e-9, name
    again, other = computed(sections(ELEMENTS)), computed(sections(ELEMENTS, seed=1))
    assert again == first
    assert other["plans/nmi_avg"].interval != first["plans/nmi_avg"].interval


def test_of_equal_records_the_interval_is_the_value_itself() -> None:
    """Sums that are not those of the measure would give another ratio."""
    for place in (3, 10, 11):
        record = ELEMENTS[place]
        same = [Record(f"{n}", record.triples, record.references, record.category) for n in range(8)]
        made = rows(same)
        plan = [shuffled(made[0].plan or Plan(()), random.Random(place))] * 8
        found = [
            measures.faithfulness(made, 0),
            measures.plans("plans", "Plans", plan, references_of(same), 0),
            measures.adherence(made, 0),
        ]
        for name, measure in computed([section for section in found if section]).items():
            if measure.interval is not None:
                assert measure.score is not None
                assert measure.interval == pytest.approx([measure.score.value] * 2, abs=1e-9), name


def test_alignment_scores_have_the_intervals_of_their_own_ratios() -> None:
    found = computed([s for s in [measures.alignment({"viterbi": gold(ELEMENTS)}, 0)] if s])
    ends = {name.rpartition("_")[2]: measure.interval for name, measure in found.items()}
    assert set(ends) == {"precision", "recall", "f1", "accuracy"}
    assert all(ends.values())
    values = {name.rpartition("_")[2]: float(m.score or 0) for name, m in found.items()}
    assert values["accuracy"] == pytest.approx(values["precision"] * values["recall"] / 100)


def test_slot_errors_are_counted_where_the_predicates_are_slots_of_e2e() -> None:
    one = Record.of({"id": "1", "triples": [["Aromi", "food", "Thai"], ["Aromi", "area", "riverside"]]})
    (row,) = rows_of([one], ["Aromi serves Italian food."])
    assert row.mistakes is not None
    assert sorted((mistake.kind, mistake.slot) for mistake in row.mistakes) == [("missed", "area"), ("wrong", "food")]
    assert row.slots == 3  # the name is one
    names = [measure.name for measure in measures.faithfulness([row], 0).measures]
    parts = ("add", "miss", "wrong", "ser")
    assert names == ["coverage", *(f"ser.{part}" for part in parts), *(f"ser_plain.{part}" for part in parts)]
    other = Record.of({"id": "2", "triples": [["Mill", "builtIn", "1800"]]})
    assert [row.mistakes for row in rows_of([one, other], ["a", "b"])] == [None, None]


def test_what_a_text_does_not_mention_is_named() -> None:
    one = Record.of({"id": "1", "triples": [["Rome", "country", "Italy"], ["Rome", "leader", "Ann Black"]]})
    (row,) = rows_of([one], ["Rome is in Italy."], scores={"bleu": [7.0]})
    assert (list(row.unmentioned), row.errors, row.scores) == (["leader"], 1, {"bleu": 7.0})
    assert "black" in row.unmentioned["leader"]


def test_groups_of_references_come_from_their_plans_or_else_from_rules() -> None:
    planned = [record for record in ELEMENTS if len(record.references[0].plan.states) > 1][:5]  # type: ignore[union-attr]
    sizes, whose = reference_groups(planned, segmenter("clauses"))
    assert sizes == [len(state) for plans in references_of(planned) for plan in plans for state in plan.states]
    assert "own plans" in whose
    bare = Record.of(
        {
            "id": "1",
            "triples": [["Rome", "country", "Italy"], ["Rome", "leader", "Ann Black"], ["Rome", "river", "Tiber"]],
            "references": ["Rome is in Italy and on the Tiber. Its mayor is Ann Black.", "Rome is a city."],
        }
    )
    sizes, whose = reference_groups([bare], segmenter("sentences"))
    assert sorted(sizes) == [1, 2]
    assert "'sentences'" in whose


def test_a_measure_that_a_sample_may_leave_undefined_has_no_interval() -> None:
    """Of two records one has two groups: tau counts there alone."""
    records = [record for record in ELEMENTS if len(record.triples) > 2][:2]
    found = [Plan((record.predicates,)) for record in records[:1]] + plans_of(records)[1:]
    section = measures.plans("plans", "Plans", found, references_of(records), 0)
    assert section is not None
    intervals = {measure.name: measure.interval for measure in section.measures}
    assert intervals["nmi_avg"] is not None
    assert intervals["tau_avg"] is None
