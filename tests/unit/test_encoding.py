"""Encoding of records and texts: predicate table, facts, bit masks of the hard alignment, rejects."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.alignment import hard_constraints
from agggen.corpora.rejects import Reject
from agggen.encoding import UNKNOWN_PREDICATE, Constraints, Encoder, segmented
from agggen.errors import BundleError, RecordError
from agggen.facts.clauses import SentenceSegmenter
from agggen.facts.config import segmenter
from agggen.model.batch import collate
from agggen.records import Fact, Plan, Record, Reference, Triple
from agggen.text import Vocabulary

TEXT = "Oda was born in Bergen. She plays the cello and lives in Ulm."
FACTS = ("Oda was born in Bergen. ", "She plays the cello ", "and lives in Ulm.")


def record(facts: Sequence[str] | None = FACTS, identifier: str = "oda") -> Record:
    values = {"birthPlace": "Bergen", "instrument": "cello", "residence": "Ulm"}
    triples = tuple(Triple("Oda", name, value) for name, value in values.items())
    return Record(identifier, triples, (Reference(TEXT, None if facts is None else tuple(map(Fact, facts))),))


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(Vocabulary.build([record()], min_count=1), Encoder.predicate_table([record()]))


def tokens_of(encoder: Encoder, facts: Sequence[Sequence[int]]) -> list[list[str]]:
    _, extras = encoder.source(record())
    return [encoder.vocabulary.decode(fact, extras) for fact in facts]


# --- predicates ---


def test_the_predicate_table_is_sorted_after_the_unknown_predicate() -> None:
    second = Record("b", (Triple("a", "age", "3"), Triple("a", "birthPlace", "b"), Triple("a", "birthPlace", "c")))
    table = Encoder.predicate_table([record(), second])
    assert table == (UNKNOWN_PREDICATE, "age", "birthPlace", "birthPlace_2", "instrument", "residence")
    assert table == Encoder.predicate_table([second, record()])


def test_an_unknown_predicate_has_id_0(encoder: Encoder) -> None:
    values = {"residence": "Ulm", "hobby": "chess", "birthPlace": "Bergen"}
    source, extras = encoder.source(Record("new", tuple(Triple("Oda", *pair) for pair in values.items())))
    assert encoder.predicates == (UNKNOWN_PREDICATE, "birthPlace", "instrument", "residence")
    assert source.predicates == (3, 0, 1)
    assert extras == ["hobby", "chess"]
    assert source.facts == () and source.id == "new"
    n_words = len(encoder.vocabulary)
    assert [token for token in source.source if token >= n_words] == [n_words, n_words + 1]


def test_a_repeated_predicate_unknown_from_training_has_the_id_of_the_first() -> None:
    encoder = Encoder(Vocabulary.build([record()], 1), (UNKNOWN_PREDICATE, "isPartOf", "isPartOf_2", "population"))
    triples = [Triple("Voss", "isPartOf", position) for position in ("Vestland", "Norway", "Europe")]
    assert encoder.predicate_ids(Record("voss", (*triples, Triple("Voss", "altitude", "57")))) == (1, 2, 1, 0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ((), r"must begin with \[unknown\]"),
        (("birthPlace",), r"must begin with \[unknown\]"),
        ((UNKNOWN_PREDICATE, "a", "b", "a"), "contains a predicate twice"),
    ],
)
def test_an_invalid_predicate_table_is_refused(table: tuple[str, ...], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        Encoder(Vocabulary.build([record()], min_count=1), table)


# --- facts ---


def test_each_fact_has_its_own_tokens(encoder: Encoder) -> None:
    example = encoder.example(record(), FACTS)
    expected = "Oda was born in Bergen ￭.", "She plays the cello", "and lives in Ulm ￭."
    assert tokens_of(encoder, example.facts) == [text.split() for text in expected]
    assert example.n_target == 15 + 3
    assert (example.required, example.forbidden, example.max_size) == ((), (), 99)


@pytest.mark.parametrize("constraints", ["none", "paper", "release"])
@given(positions=st.lists(st.integers(0, 3), min_size=1, max_size=3), blank=st.sampled_from([" ", "  ", "\n", " \t "]))
def test_blank_facts_are_dropped_from_text_and_constraints_alike(
    encoder: Encoder, constraints: Constraints, positions: list[int], blank: str
) -> None:
    facts = list(FACTS)
    for position in positions:
        facts.insert(position, blank)
    result = encoder.example(record(), facts, constraints)
    assert [facts[index] for index in result.kept] == list(FACTS)
    assert replace(result, kept=(0, 1, 2)) == encoder.example(record(), FACTS, constraints)


def test_a_fact_in_which_no_word_starts_is_dropped(encoder: Encoder) -> None:
    example = encoder.example(record(), ["She plays the cel", "lo", " and lives in Ulm."], "release")
    assert tokens_of(encoder, example.facts) == [["She", "plays", "the", "cello"], ["and", "lives", "in", "Ulm", "￭."]]
    assert len(example.required) == len(example.forbidden) == 2


@pytest.mark.parametrize("facts", [[], [""], ["  ", "\n"], ["\uffed"]])
def test_the_error_for_a_text_without_words_names_its_record(encoder: Encoder, facts: list[str]) -> None:
    with pytest.raises(RecordError, match=r"record 'oda': the text .* contains no words"):
        encoder.example(record(), facts)


# --- hard alignment ---


@pytest.mark.parametrize("constraints", ["paper", "release"])
def test_constraints_are_those_of_the_aligner_as_bit_masks(encoder: Encoder, constraints: Constraints) -> None:
    facts = [FACTS[0], FACTS[1] + FACTS[2]]
    example = encoder.example(record(), facts, constraints)
    assert constraints != "none"
    hard = hard_constraints(record(), facts, mode=constraints, max_size=3)
    for bits, groups in ((example.required, hard.required), (example.forbidden, hard.forbidden)):
        assert [{i for i in range(3) if mask >> i & 1} for mask in bits] == list(map(set, groups))
    assert example.max_size == hard.max_size
    assert any(example.required) and collate([example]).required.tolist() == [list(example.required)]


def test_the_group_size_is_limited_by_the_model(encoder: Encoder) -> None:
    small = Encoder(encoder.vocabulary, encoder.predicates, max_group_size=2)
    assert encoder.example(record(), [TEXT], "paper").max_size == 3
    assert small.example(record(), [TEXT], "paper").max_size == 2


# --- corpora ---


def test_without_a_segmenter_the_facts_of_the_corpus_are_kept() -> None:
    assert segmented([record()], None, []) == [record()]
    with pytest.raises(RecordError, match="record 'bare' has a reference without facts; set facts"):
        segmented([record(), record(None, identifier="bare")], None, [])


def test_references_that_cannot_be_segmented_are_rejected() -> None:
    class Picky(SentenceSegmenter):
        def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
            if any("wrong" in text for text in texts):
                raise RuntimeError("wrong")
            return super().segment(texts)

    texts = [f"Oda is {number}{' wrong' if number in (3, 8) else ''}." for number in range(9)]
    subset = Record("a", record().triples, tuple(map(Reference, texts)))
    rejected = Record("b", record().triples, (Reference(texts[3]),))
    rejects: list[Reject] = []
    (kept,) = segmented([subset, rejected], Picky(), rejects, "e2e/train")
    assert [reference.text for reference in kept.references] == [text for text in texts if "wrong" not in text]
    numbers = [("a", 4), ("a", 9), ("b", 1)]
    assert rejects == [Reject("e2e/train", None, id_, f"reference {n}: RuntimeError: wrong") for id_, n in numbers]


@pytest.mark.parametrize("name", ["clauses", "embedded", "sentences"])
def test_a_segmenter_replaces_facts_and_keeps_the_rest(name: str) -> None:
    plan = Plan.parse("[birthPlace] [instrument residence]")
    first = Record("a", record().triples, (Reference(TEXT, (Fact(TEXT),), plan), Reference("Oda is here.")), "Person")
    without_texts = Record("b", record().triples)
    records = segmented([first, without_texts, record(None)], segmenter(name), [])
    assert [r.id for r in records] == ["a", "b", "oda"] and records[1] == without_texts
    assert records[0].category == "Person" and records[0].references[0].plan == plan
    facts = [[fact.text for fact in reference.facts or ()] for r in records for reference in r.references]
    assert [len(pieces) > 1 for pieces in facts] == [True, False, True]
    assert ["".join(pieces) for pieces in facts] == [TEXT, "Oda is here.", TEXT]
