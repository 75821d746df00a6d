"""Texts: tokenisation, linearised records, and the vocabulary with copying."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.errors import BundleError, ConfigError, CorpusError, RecordError
from agggen.records import Record
from agggen.text import JOINER, Vocabulary, detokenise, detokenise_with_offsets, tokenise
from agggen.text.linearise import entity_words, linearise, predicate_words
from agggen.text.vocabulary import SPECIALS

AWKWARD = st.text(
    st.sampled_from("ab1.,;:-'\u2019\"()[]%nts \t\n\u00a0\u200b￭▁@_é\u0301ß😀👩\u200d🇩2e0£")
    | st.characters(exclude_categories=["Cs"]),
    max_size=40,
)


def tokens_of(text: str) -> list[str]:
    return [token.text for token in tokenise(text)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("(Ohio's) 16,000-seat hall.", "(￭ Ohio ￭'s ￭) 16,000 ￭-￭ seat hall ￭."),
        ("It costs £3.50, they're told.", "It costs £￭ 3.50 ￭, they ￭'re told ￭."),
        ("They don't; CAN\u2019T!", "They do ￭n't ￭; CA ￭N\u2019T ￭!"),
        ("5.2e3 on 2006-12-31", "5.2e3 on 2006 ￭-￭ 12 ￭-￭ 31"),
        ('said "Ajo blanco".', 'said "￭ Ajo blanco ￭" ￭.'),
        ("U.S. 3.5kg 1990s", "U ￭.￭ S ￭. 3.5 ￭kg 1990s"),
        ("I\u0307stanbul", "I\u0307stanbul"),
    ],
)
def test_tokens(text: str, tokens: str) -> None:
    assert tokens_of(text) == tokens.split(" ")


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("Arion , otherwise known", "Arion, otherwise known"),
        ("dish,which is ;hot", "dish, which is; hot"),
        ("AS Roma 's ground ( in Rome )", "AS Roma's ground (in Rome)"),
        ("  two  spaces\n\nhere ", "two spaces here"),
        ("is it so ? 5 % of it .", "is it so? 5% of it."),
        ('the " Ajo blanco " dish', 'the " Ajo blanco " dish'),
        ("a￭b", "a b"),
        (" \n", ""),
    ],
)
def test_normalised_spacing(text: str, normalised: str) -> None:
    assert detokenise(tokens_of(text)) == normalised


@given(AWKWARD)
def test_tokens_have_offsets_every_visible_character_and_a_normalised_text(text: str) -> None:
    previous = 0
    for token in tokenise(text):
        assert previous <= token.start < token.end <= len(text)
        previous = token.end
        assert text[token.start : token.end] == token.text.strip(JOINER)
    tokens = tokens_of(text)
    visible = "".join(char for char in text if not char.isspace() and char != JOINER)
    assert "".join(token.strip(JOINER) for token in tokens) == visible
    once, spans = detokenise_with_offsets(tokens)
    assert detokenise_with_offsets(tokens_of(once)) == (once, spans)
    assert spans == [(token.start, token.end) for token in tokenise(once)]


@given(st.lists(st.sampled_from(["a", "￭", "￭a", "a￭", "￭￭￭", ""])))
def test_any_token_sequence_has_a_text_and_spans(tokens: list[str]) -> None:
    text, spans = detokenise_with_offsets(tokens)
    assert len(spans) == len(tokens)
    assert all(0 <= start <= end <= len(text) for start, end in spans)


@settings(deadline=None)
@given(st.sampled_from(["20-" * 100_000, "1" * 300_000, "n" * 300_000, " " * 300_000, "1." * 150_000, "'" * 300_000]))
def test_time_is_linear_in_the_length(text: str) -> None:
    began = time.process_time()
    assert detokenise(tokens_of(text)) == text.strip()
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("words_of", "name", "words"),
    [
        (predicate_words, "buildingStartDate", "building start date"),
        (predicate_words, "5th_runway_SurfaceType", "5th runway surface type"),
        (predicate_words, "IATALocationIdentifier", "IATA location identifier"),
        (predicate_words, "elevation_(in_metres)", "elevation (in metres)"),
        (predicate_words, "isPartOf_2", "is part of 2"),
        (predicate_words, "_", "_"),
        (entity_words, "Cleveland,_Ohio_44114", "Cleveland, Ohio 44114"),
        (entity_words, '"Ajo_blanco"', "Ajo blanco"),
        (entity_words, '"1932-07-27"^^xsd:date', "1932-07-27"),
        (entity_words, '"soldiers"@en-GB', "soldiers"),
        (entity_words, '"soldados"@es-419', "soldados"),
        (entity_words, "someone@example", "someone@example"),
        (entity_words, '"Squeezed" or "smashed"', '"Squeezed" or "smashed"'),
        (entity_words, '""', '""'),
        (entity_words, '"', '"'),
        (entity_words, "_", "_"),
    ],
)
def test_words_of_a_name(words_of: Callable[[str], str], name: str, words: str) -> None:
    assert words_of(name) == words


def test_a_linearised_record() -> None:
    record = Record.of({"id": 1, "triples": [["Neon", "foundBy", '"W._Ramsay"'], ["Neon", "foundBy", "M. Travers"]]})
    source = linearise(record)
    assert " ".join(source.tokens) == "[CLS] Neon found by W ￭. Ramsay [SEP] Neon found by M ￭. Travers [SEP]"
    assert source.triple == [-1, *[0] * 7, *[1] * 7]
    assert source.role == [0, *[1, 2, 2, 3, 3, 3, 0] * 2]  # roles: special, subject, predicate, object


def test_a_name_spelled_like_a_special_token_is_ordinary_text() -> None:
    source = linearise(Record.of({"id": 1, "triples": [["[SEP]", "[CLS]", "[PAD]"]]}))
    assert source.tokens.count("[SEP]") == source.tokens.count("[CLS]") == 1
    assert "[PAD]" not in source.tokens


def record(identifier: int, triples: list[list[str]], *references: Any) -> Record:
    return Record.of({"id": identifier, "triples": triples, "references": list(references)})


TRAIN = [
    record(1, [["Neon", "symbol", "Ne"], ["Neon", "hue", "Red"]], "The symbol of Neon is Ne.", "Neon is red, Ne."),
    record(2, [["Iron", "symbol", "Fe"], ["Iron", "hue", "Grey"]], "The symbol of Iron is Fe.", "Iron is Grey."),
]
NEW = record(3, [["Zinc", "symbol", "Zn"], ["Zinc", "hue", "Red"]])


def test_ids_are_in_the_documented_order() -> None:
    vocabulary = Vocabulary.build(TRAIN)
    assert vocabulary.words[:7] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[FACT]", "[LAST]", "[END]"]
    assert vocabulary.words[7 : vocabulary.n_output] == ["is", "￭.", "Iron", "Ne", "Neon", "The", "of", "symbol"]
    assert vocabulary.words[vocabulary.n_output :] == ["hue"]
    assert len(vocabulary) == 16
    assert [getattr(Vocabulary, name.strip("[]")) for name in SPECIALS] == list(range(7))


def test_a_grown_vocabulary_keeps_the_ids_of_output_words() -> None:
    old = Vocabulary([*SPECIALS, "is", "in", "city"], len(SPECIALS) + 2)
    new = record(1, [["Mira", "city", "Ulm"]], "Mira is in Ulm, Ulm city city")
    assert old.grown([new], 1).words == [*SPECIALS, "is", "in", "Ulm", "city", "Mira", "￭,"]
    few = old.grown([new], 2)
    assert (few.words, few.n_output) == ([*SPECIALS, "is", "in", "Ulm", "city"], len(SPECIALS) + 4)
    assert few.grown([new], 2).to_json() == few.to_json()


def test_out_of_vocabulary_words_of_the_record_are_copied() -> None:
    vocabulary = Vocabulary.build(TRAIN)
    source = vocabulary.encode_source(NEW)
    size = len(vocabulary)
    assert source.extras == ["Zinc", "Zn", "Red"]
    known = {word: number for number, word in enumerate(vocabulary.words)}
    assert source.ids == [2, size, known["symbol"], size + 1, 3, size, known["hue"], size + 2, 3]
    assert source.triple == [-1, 0, 0, 0, 0, 1, 1, 1, 1]
    assert source.role == [0, 1, 2, 3, 0, 1, 2, 3, 0]

    (ids,) = vocabulary.encode_target(["The symbol of (Zinc) is Zn. Iron hue, red"], source).values()
    words = vocabulary.decode(ids, source.extras)
    assert words == ["The", "symbol", "of", "Zinc", "is", "Zn", "￭.", "Iron", "hue"]
    assert ids.count(Vocabulary.UNK) == 4  # (￭ ￭) ￭, red
    without_hue = vocabulary.encode_source(record(4, [["Zinc", "symbol", "Zn"]]))
    assert vocabulary.encode_target(["hue"], without_hue) == {0: [Vocabulary.UNK]}, "no text of TRAIN has the word"


def test_tokens_belong_to_the_fact_in_which_they_start() -> None:
    facts = ["  ", "Neon (", "Ne)", " ", " is", " red."]
    item = record(5, [["Neon", "symbol", "Ne"]], "".join(facts))
    vocabulary = Vocabulary.build([item], min_count=1)
    ids = vocabulary.encode_target(facts, vocabulary.encode_source(item))
    tokens = {fact: vocabulary.decode(fact_ids) for fact, fact_ids in ids.items()}
    assert tokens == {1: ["Neon", "(￭"], 2: ["Ne", "￭)"], 4: ["is"], 5: ["red", "￭."]}
    assert list(ids) == sorted(ids)


@given(st.lists(st.text("abcXY1.,'-é (", min_size=1, max_size=25), min_size=1, max_size=4))
def test_training_texts_are_reproduced_from_their_ids(texts: list[str]) -> None:
    texts = [text for text in texts if text.strip()] or ["a"]
    item = record(1, [["a", "b", "c"]], *texts)
    vocabulary = Vocabulary.build([item], min_count=1)
    source = vocabulary.encode_source(item)
    assert not source.extras
    for text in texts:
        (ids,) = vocabulary.encode_target([text], source).values()
        assert max(ids) < vocabulary.n_output
        assert vocabulary.decode(ids) == [token.text for token in tokenise(text)]


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("an noble", "a"),
        ("a actinide", "an"),
        ("A Italian", "An"),
        ("An German", "A"),
        ("an hour", "an"),
        ("a European", "a"),
        ("a one", "a"),
        ("an FBI", "an"),
        ("a US", "a"),
        ("the actinide", "the"),
    ],
)
def test_the_article_agrees_with_a_copied_word(phrase: str, expected: str) -> None:
    article, word = phrase.split()
    vocabulary = Vocabulary([*SPECIALS, article], len(SPECIALS) + 1)
    assert vocabulary.decode([len(SPECIALS), len(vocabulary)], [word]) == [expected, word]
    known = Vocabulary([*SPECIALS, article, word], len(SPECIALS) + 2)
    assert known.decode([len(SPECIALS), len(SPECIALS) + 1]) == [article, word], "the model has seen the word"


@pytest.mark.parametrize(("name", "article"), [("Camino a Oaxaca", "a"), ("Oaxaca", "an"), ("Camino_a", "an")])
def test_an_article_inside_a_name_is_not_changed(name: str, article: str) -> None:
    vocabulary = Vocabulary([*SPECIALS, "Camino", "a"], len(SPECIALS) + 2)
    ids = [len(SPECIALS), len(SPECIALS) + 1, len(vocabulary)]
    for triple in (["Ann", "album", name], [name, "artist", "Ann"]):
        assert detokenise(vocabulary.decode(ids, ["Oaxaca"], record(1, [triple]))) == f"Camino {article} Oaxaca"


def test_json_is_lossless_and_the_order_of_records_does_not_matter() -> None:
    vocabulary = Vocabulary.build(TRAIN)
    repeated = Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json())))
    assert repeated.to_json() == vocabulary.to_json()
    assert repeated.fingerprint == vocabulary.fingerprint == Vocabulary.build(TRAIN[::-1]).fingerprint
    assert repeated.encode_source(NEW) == vocabulary.encode_source(NEW)
    assert Vocabulary.build(TRAIN[:1]).fingerprint != vocabulary.fingerprint


def changed(**parts: Any) -> dict[str, Any]:
    return {"n_output": 8, "words": [*SPECIALS, "a"]} | parts


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["a"], "must be an object with the keys n_output and words"),
        ({"words": []}, "must be an object with the keys n_output and words"),
        (changed(lower_case=True), "keys n_output and words, and no others"),
        (changed(words=[*SPECIALS, 5]), "words must be a list of strings"),
        (changed(words=["a"]), r"must begin with \[PAD\]"),
        (changed(words=[*SPECIALS, "a", "a"]), "contains 'a' twice"),
        (changed(n_output=9), "between 7 and 8, not 9"),
        (changed(n_output="8"), "n_output must be an integer, not '8'"),
    ],
)
def test_invalid_json_is_refused(data: object, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        Vocabulary.from_json(data)


def test_invalid_input_is_refused() -> None:
    with pytest.raises(ConfigError, match="min_count must be at least 1, not 0"):
        Vocabulary.build(TRAIN, min_count=0)
    with pytest.raises(CorpusError, match="training records need references"):
        Vocabulary.build([NEW])
    vocabulary = Vocabulary.build(TRAIN)
    with pytest.raises(RecordError, match="contains no words"):
        vocabulary.encode_target([" \n"], vocabulary.encode_source(NEW))
