"""Values in contexts of other predicates, and words that imply a predicate that the record lacks."""

from dataclasses import replace

import pytest

from agggen.records import Record
from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from agggen.verification.results import TextCheck
from agggen.verification.values import OPINIONS
from tests.unit.verification.texts import CITIES, example, record

KINDS = ("Inn", "Bar", "Hall", "Mill", "Tavern")


def inns(predicate: str, text: str, values: tuple[str, ...], kinds: tuple[str, ...] = KINDS) -> list[Record]:
    """Records of one triple each; `text` has placeholders for subject and value."""
    return [
        example(f"{city} {kind}", predicate, value, text.format(f"{city} {kind}", value))
        for number, city in enumerate(CITIES)
        for kind in kinds
        for value in values[number % len(values) :][:1]
    ]


def check(lexicon: Lexicon, triples: str, text: str) -> TextCheck:
    """The check of a text about a record such as ``food = Thai; rating = 5``."""
    return Checker(lexicon).check(record(*triples.split("; ")), text)


def unsupported(lexicon: Lexicon, triples: str, text: str) -> tuple[str, ...]:
    return check(lexicon, triples, text).unsupported


# --- contexts --------------------------------------------------------------------------------------------------------

INNS = learn(
    [
        *inns("price", "{} is a {} priced place.", ("low", "high")),
        *inns("rating", "{} has a {} customer rating.", ("low", "poor", "high")),
        *inns("height", "{} has a high tower of {} m.", ("9",), ("A",)),
    ]
)


@pytest.mark.parametrize(
    ("triples", "text", "misplaced", "invented"),
    [
        ("rating = high", "Zyx is a high priced place.", ["rating"], ()),
        ("rating = high", "Zyx has a high customer rating.", [], ()),
        ("rating = high", "Zyx is a high priced place and has a high customer rating.", [], ()),
        ("rating = high; price = low", "A high priced place, Zyx has a low customer rating.", ["rating", "price"], ()),
        ("rating = poor", "Zyx is a poor priced place.", [], ()),  # "poor" is no price, so it may be a paraphrase
        # ordinary words in pairs of a predicate that the record lacks
        ("rating = poor", "Zyx is a high priced place with a poor customer rating.", [], ("high",)),
        ("rating = poor", "Zyx has a poor customer rating and a high tower.", [], ()),
        ("rating = poor", "Zyx is high. Priced alike, it has a poor customer rating.", [], ()),
        ("rating = poor; price = high", "Zyx is a high priced place with a poor customer rating.", [], ()),
    ],
)
def test_a_value_in_the_context_of_another_predicate_is_misplaced_or_invented(
    triples: str, text: str, misplaced: list[str], invented: tuple[str, ...]
) -> None:
    """Regression: "a high-priced venue" was accepted for a record without a price."""
    result = check(INNS, triples, text)
    assert ([triple.predicate for triple in result.misplaced], result.invented) == (misplaced, invented)


@pytest.mark.parametrize(
    ("text", "misplaced"),
    [
        ("Zyx is cheap.", []),
        ("Zyx has a fair rating and is a priced place of 3 dollars.", []),
        ("Zyx is a fair priced place of 3 dollars.", ["rating"]),
        ("Zyx has a fair. Priced place of 3 dollars.", []),
        ("Zyx has a fair, priced place of 3 dollars.", []),
        ("Zyx is a fair priced place of 3 dollars with a fair rating.", []),
    ],
)
def test_a_value_in_a_pair_of_words_of_another_predicate_is_misplaced(text: str, misplaced: list[str]) -> None:
    """Regression: "a low price range of less than £20" was accepted for a low customer rating."""
    priced = inns("price", "{} is a fair priced place of {} dollars.", ("1", "3", "5"))
    lexicon = learn([*priced, *inns("rating", "{} has a {} rating.", ("fair", "poor"))])
    assert lexicon.unrelated_pairs == {"rating": ("fair priced",)} == lexicon.merged(Lexicon()).unrelated_pairs
    assert [triple.predicate for triple in check(lexicon, "rating = fair; price = 3", text).misplaced] == misplaced


# --- words of missing predicates -------------------------------------------------------------------------------------


RATED = inns("rating", "{} is rated {} by guests.", ("1", "3", "5"))
FED = inns("food", "{} serves {} food to guests.", ("Thai", "Greek"))
LEXICON = learn([*RATED, *FED])


@pytest.mark.parametrize(
    ("triples", "text", "words"),
    [
        ("food = Thai", "Zyx serves Thai food to guests.", ()),
        ("food = Thai", "Zyx serves highly rated Thai food.", ("rated",)),
        ("rating = 5", "Zyx is rated 5 and serves food.", ("serves", "food")),
        ("food = Thai; rating = 5", "Zyx is rated 5 and serves Thai food.", ()),
        ("food = rated soup", "Zyx is rated for rated soup.", ()),
        # `stars` is unknown from training
        ("food = Thai; stars = 5", "Zyx is rated with 5 stars, popular, and serves Thai food.", ()),
        # opinions that the record does not support
        ("food = Thai", "Zyx, popular and Famous, serves traditional Thai.", ("popular", "Famous", "traditional")),
        ("food = Traditional Thai", "Zyx serves traditional Thai food.", ()),
        ("food = traditional", "Zyx serves traditional food.", ()),
    ],
)
def test_a_word_of_a_missing_predicate_and_an_opinion_are_faults(
    triples: str, text: str, words: tuple[str, ...]
) -> None:
    result = check(LEXICON, triples, text)
    assert result.unsupported == words
    messages = [fault for fault in result.faults if "not supported" in fault]
    assert messages == [f"{word!r} is not supported by any triple" for word in words]


def test_a_pair_of_words_may_imply_a_predicate_that_neither_word_implies() -> None:
    priced = inns("price", "{} is average priced at {} dollars.", ("1", "3", "5"))
    liked = inns("rating", "{} has average guests of grade {}.", ("1", "3", "5"))
    cheap = inns("deal", "{} is low priced on {}.", ("Friday", "Monday"))
    lexicon = learn([*priced, *liked, *cheap])
    assert lexicon.implies["average priced"] == "price" and {"average", "priced"}.isdisjoint(lexicon.implies)
    for triples, text, words in (
        ("deal = Friday", "Zyx is average priced on Friday.", ("average priced",)),
        ("deal = Friday", "On average priced, Zyx is low priced on Friday.", ("average priced",)),
        ("deal = Friday", "Zyx is low priced on average. Priced on Friday.", ()),
        ("price = 3", "Zyx is average priced at 3 dollars.", ()),
    ):
        assert unsupported(lexicon, triples, text) == words, text
    assert "average priced" not in lexicon.merged(Lexicon(lower=frozenset(("average", "priced")))).implies
    assert "average priced" in lexicon.merged(Lexicon(lower=frozenset(("average",)))).implies


HOTELS, PUBS = (inns("type", "{} is a {} in town.", (kind,)) for kind in ("hotel", "pub"))
UNTYPED = inns("rating", "{} is a hotel rated {} by guests.", ("1", "3", "5"))


@pytest.mark.parametrize(("with_other_value", "implied"), [(0, True), (1, True), (10, False)])
def test_a_value_must_be_in_the_record_if_texts_with_another_value_seldom_contain_it(
    with_other_value: int, implied: bool
) -> None:
    """E2E: "restaurant" is in 45 % of the texts without a type, but in 5 % of those about pubs."""
    mixed = inns("type", "{} is a {} and hotel in town.", ("pub",))[:with_other_value]
    lexicon = learn([*HOTELS, *PUBS, *mixed, *UNTYPED])
    assert "hotel" not in lexicon.value_words and ("hotel" in lexicon.implies) == implied
    fault = ("hotel",) if implied else ()
    assert unsupported(lexicon, "rating = 5", "Zyx is a hotel rated 5.") == fault
    assert unsupported(lexicon, "type = pub", "Zyx is a hotel. It is a pub.") == fault
    assert unsupported(lexicon, "type = hotel", "Zyx is a hotel.") == ()


def test_a_phrase_for_a_truth_value_does_not_cover_a_value_that_the_record_lacks() -> None:
    """E2E: "a friendly restaurant near" was a phrase for family-friendly, and allowed the restaurant."""
    friendly = inns("friendly", "{} is a friendly hotel.", ("yes",)) + inns("friendly", "{} is for adults.", ("no",))
    lexicon = learn([*HOTELS, *PUBS, *UNTYPED, *friendly])
    assert unsupported(lexicon, "friendly = yes", "Zyx is a friendly hotel.") == ("hotel",)
    assert unsupported(lexicon, "friendly = yes; type = hotel", "Zyx is a friendly hotel.") == ()


def test_words_in_few_texts_or_of_a_predicate_of_nearly_all_records_imply_nothing() -> None:
    few = inns("rating", "{} is rated {} by guests.", ("1", "3", "5"), KINDS[:3])
    assert "rated" not in learn([*few, *FED]).implies
    assert learn(RATED).implies.keys() <= OPINIONS, "a predicate of all records is not implied"
    assert "rated" not in learn([*RATED, *FED, *inns("food", "{} serves rated {}.", ("Thai",), KINDS[:1])]).implies


def test_of_predicates_that_always_occur_together_the_first_by_name_is_implied() -> None:
    """Regression: which one depended on the hash seed of the process."""
    others = dict.fromkeys(("year", "place", "by", "with", "for", "reason", "cost"), "x")
    names = [f"{city} {kind}" for city in CITIES for kind in KINDS]
    founded = [example(name, "at", f"{name}ville", f"{name} was founded.", **others) for name in names]
    assert learn([*founded, *FED]).implies["founded"] == "at"


@pytest.mark.parametrize(("with_opinion", "implied"), [(3, "popular"), (30, None)])
def test_an_opinion_in_many_texts_of_a_predicate_expresses_it(with_opinion: int, implied: str | None) -> None:
    records = []
    for predicate in ("likes", "views"):
        popular = inns(predicate, "{} is popular: {} " + predicate, ("70", "90"))
        counted = inns(predicate, "{} has {} " + predicate, ("70", "90"))
        records += [*popular[:with_opinion], *counted[with_opinion:]]
    lexicon = learn(records)
    assert (lexicon.implies.get("popular"), lexicon.implies["famous"]) == (implied, "famous")


def test_words_of_user_defined_sentences_are_supported() -> None:
    own = replace(LEXICON, templates={"food": "{subject} is highly rated for {object}."})
    results = [unsupported(lexicon, "food = Thai", "Zyx is highly rated for Thai.") for lexicon in (LEXICON, own)]
    assert results == [("rated",), ()]


def test_a_word_without_the_predicate_in_another_corpus_implies_nothing() -> None:
    assert LEXICON.implies["rated"] == "rating"
    assert LEXICON.merged(Lexicon()).implies == LEXICON.implies == Lexicon().merged(LEXICON).implies
    assert "rated" not in LEXICON.merged(Lexicon(lower=frozenset(("rated",)))).implies
    assert "rated" not in LEXICON.merged(replace(LEXICON, implies={"rated": "film rating"})).implies
