"""Human plans and alignments: synthetic files and the published annotations."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.corpora.annotated import PLANS, SOURCES, TEXTS, alnum, attach_facts, read_annotated
from agggen.corpora.catalogue import load
from agggen.corpora.rejects import Reject, split_rejects
from agggen.errors import CorpusError
from agggen.evaluation.held_out import alignments
from agggen.records import Fact, Plan, Record, Reference
from tests.unit.annotated import annotated_texts
from tests.unit.score_files import alignment_scores

# Predicates with blanks, a repeated predicate, and two texts that differ by a comma.
MILL = Record.of(
    {
        "id": "mill",
        "triples": [["The_Mill", "was part of", "A_(B)"], ["The_Mill", "isPartOf", "C"], ["The_Mill", "isPartOf", "D"]],
        "references": [
            "The Mill (in C) was part of A (B), and it's in D.",
            "The Mill is in C and D, and was part of A (B).",
            "The Mill is in C and D and was part of A (B).",
        ],
        "category": "Building",
    }
)
DOOR_TRIPLES = [["Door", "is", "red"], ["Door", "has", "a lock"]]
DOOR = Record.of({"id": "door", "triples": DOOR_TRIPLES, "references": ["The Door's red; locked."]})
MILL_SOURCE = "The Mill was part of A ( B )\tThe Mill isPartOf C\tThe Mill isPartOf D\twas_part_of|isPartOf|isPartOf_2"
DOOR_SOURCE = "Door is red\tDoor has a lock\tis|has"


def read(tmp_path: Path, *rows: tuple[str, str, str]) -> tuple[list[Record], list[Reject]]:
    """The records and rejects of rows (source, plan, facts separated by tabs)."""
    for name, column in zip((SOURCES, PLANS, TEXTS), zip(*rows, strict=True), strict=True):
        lines = [f"(S)\t{text}" if name == TEXTS else text for text in column]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return split_rejects(read_annotated(tmp_path, [MILL, DOOR]))


def test_references_have_the_raw_texts_and_predicates_of_the_record(tmp_path: Path) -> None:
    records, rejects = read(
        tmp_path,
        (MILL_SOURCE, "isPartOf|was_part_of|isPartOf_2", "The Mill ( in C )\twas part of A ( B ) ,\tand it 's in D ."),
        (DOOR_SOURCE, "|has&&is", "The Door\t's red ; locked ."),
        (MILL_SOURCE, "isPartOf_2&&isPartOf|was_part_of", "The Mill is in C and D\tand was part of A ( B ) ."),
        (MILL_SOURCE, "isPartOf&&isPartOf_2|was_part_of", "The Mill is in C and D ,\tand was part of A ( B ) ."),
    )
    assert rejects == []
    mill, door = records
    assert (mill.id, mill.triples, mill.category) == (MILL.id, MILL.triples, MILL.category)
    assert mill.references[0] == Reference(
        "The Mill (in C) was part of A (B), and it's in D.",
        (
            Fact("The Mill (in C) ", ("isPartOf",)),
            Fact("was part of A (B), ", ("was part of",)),
            Fact("and it's in D.", ("isPartOf_2",)),
        ),
        Plan((("isPartOf",), ("was part of",), ("isPartOf_2",))),
    )
    assert [reference.text for reference in mill.references[1:]] == [MILL.references[2].text, MILL.references[1].text]
    assert str(mill.references[1].plan) == '[isPartOf_2 isPartOf] ["was part of"]'
    # A fact without a triple is not a group of the plan.
    assert door.references[0].facts == (Fact("The Door", ()), Fact("'s red; locked.", ("has", "is")))
    assert str(door.references[0].plan) == "[has is]"


def test_a_text_without_a_raw_match_keeps_the_tokenised_form(tmp_path: Path) -> None:
    records, _ = read(tmp_path, (DOOR_SOURCE, "is|has", "The Door is red ,\tand locked ."))
    assert [fact.text for fact in records[0].references[0].facts or ()] == ["The Door is red , ", "and locked ."]


@pytest.mark.parametrize("plan", ["is|", "is|is&&has", "|"])
def test_texts_with_omitted_or_repeated_triples_have_facts_but_no_plan(tmp_path: Path, plan: str) -> None:
    records, _ = read(tmp_path, (DOOR_SOURCE, plan, "The Door 's red ;\tlocked ."))
    (reference,) = records[0].references
    assert reference.plan is None
    expected = [fact.predicates for fact in reference.facts or ()]
    assert expected == [tuple(slot.split("&&")) if slot else () for slot in plan.split("|")]


def test_invalid_rows_are_rejected_and_the_other_rows_are_read(tmp_path: Path) -> None:
    text = "The Door 's red ;\tlocked ."
    invalid = [
        (("Gate is red\tis", "is", "The gate is red ."), "no record of WebNLG has the triples 'Gate is red'"),
        ((DOOR_SOURCE, "is", text), "the plan has 1 groups for 2 facts"),
        ((DOOR_SOURCE, "is|lock", text), "the plan has 'lock'; the predicates are is, has"),
        (("Door is red\tDoor has a lock\tis", "is|has", text), "2 triples but 1 predicates"),
        (("Door is red\tDoor has a lock\tis|is", "is|has", text), "2 triples but 1 predicates"),
        ((DOOR_SOURCE, "is|has", "The Door 's red ;\t "), "fact 2 is empty"),
    ]
    records, rejects = read(tmp_path, (DOOR_SOURCE, "is|has", text), *(row for row, _ in invalid))
    assert [(record.id, len(record.references)) for record in records] == [("door", 1)]
    assert [reject.id for reject in rejects] == [None, *["door"] * 5]
    for line, (reject, (_, reason)) in enumerate(zip(rejects, invalid, strict=True), start=2):
        assert (reject.file, reject.line, reason in reject.reason) == (str(tmp_path / PLANS), line, True)


def test_files_of_different_lengths_or_missing_files_raise_errors(tmp_path: Path) -> None:
    read(tmp_path, (DOOR_SOURCE, "is|has", "The Door 's red ;\tlocked ."))
    (tmp_path / PLANS).write_text("is|has\nis|has\n")
    with pytest.raises(CorpusError, match=rf"{SOURCES} has 1, .*{PLANS} has 2, .*{TEXTS} has 1 lines"):
        list(read_annotated(tmp_path, [DOOR]))
    (tmp_path / TEXTS).unlink()
    with pytest.raises(CorpusError, match=rf"cannot read .*{TEXTS}"):
        list(read_annotated(tmp_path, [DOOR]))


@pytest.mark.parametrize(
    ("marked", "facts"),
    [
        ("A row, in B.  |It is old.", ["A row , in B .", "It is old ."]),
        ("One fact", ["One fact"]),
        ("Nice.|It is old", ["Nice .", "It is old"]),
        # The tokeniser replaced quotes and dashes.
        (
            'The "Mill" |\u2013 as always \u2013 is open, |isn\u2019t it',
            ["The `` Mill ''", "- as always - is open ,", "isn't it"],
        ),
        # The segmenter dropped a comma, which belongs to the fact before it.
        ("It was built in 1901, |which makes it old.", ["It was built in 1901", "which makes it old ."]),
    ],
)
def test_fact_boundaries_are_transferred_to_the_raw_text(marked: str, facts: list[str]) -> None:
    """Bars separate the facts of the raw text."""
    assert attach_facts(marked.replace("|", ""), facts) == tuple(marked.split("|"))


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), min_size=1, max_size=5)
)
def test_facts_of_any_text_concatenate_to_it_and_keep_their_letters(facts: list[str]) -> None:
    pieces = attach_facts(" ".join(facts), facts)
    assert "".join(pieces) == " ".join(facts)
    assert list(map(alnum, pieces)) == list(map(alnum, facts))


# --- the real annotations ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records(data_home: Path) -> list[Record]:
    return split_rejects(load("webnlg-plans", "test"))[0]


def test_texts_equal_those_of_webnlg_and_facts_the_annotations(data_home: Path, records: list[Record]) -> None:
    """The texts of a record are consecutive in the annotation's files."""
    raw = {r.id: r for r in load("webnlg", "test-seen") if isinstance(r, Record)}
    for record in records:
        texts = {reference.text for reference in raw[record.id].references}
        assert record.triples == raw[record.id].triples
        assert texts.issuperset(reference.text for reference in record.references)
    references = [reference for record in records for reference in record.references]
    for reference, (_, texts, groups) in zip(references, annotated_texts(data_home), strict=True):
        facts = reference.facts or ()
        assert [alnum(fact.text) for fact in facts] == list(map(alnum, texts))
        assert [[name.replace(" ", "_") for name in fact.predicates or ()] for fact in facts] == groups
        assert reference.plan == Plan(tuple(fact.predicates for fact in facts if fact.predicates))


def test_golden_rule_based_alignment_of_the_raw_texts(records: list[Record]) -> None:
    aligner = SimpleNamespace(align=lambda records, facts: [])
    scores = alignment_scores(*alignments(aligner, records)["rule_based"])  # type: ignore[arg-type]
    assert (scores["precision"], scores["recall"], scores["accuracy"]) == (92.64, 100, 92.64)
