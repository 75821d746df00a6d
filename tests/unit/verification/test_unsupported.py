"""Words that express a predicate that the record lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agggen.records import Record
from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from agggen.verification.values import OPINIONS
from tests.unit.verification.texts import CITIES, example, record

KINDS = ("Inn", "Bar", "Hall", "Mill", "Tavern")


def inns(predicate: str, text: str, values: tuple[str, ...], kinds: tuple[str, ...] = KINDS) -> list[Record]:
    """Records of one triple; `text` has placeholders for subject and value."""
    return [
        example(f"{city} {kind}", predicate, value, text.format(f"{city} {kind}", value))
        for number, city in enumerate(CITIES)
        for kind in kinds
        for value in values[number % len(values) :][:1]
    ]


RATED = inns("rating", "{} is rated {} by guests.", ("1", "3", "5"))
FED = inns("food", "{} serves {} food to guests.", ("Thai", "Greek"))
LEXICON = learn([*RATED, *FED])


@pytest.mark.parametrize(
    ("item", "text", "words"),
    [
        (record("food = Thai"), "Zyx serves Thai food.", ()),
        (record("food = Thai"), "Zyx serves highly rated Thai food.", ("rated",)),
        (record("food = Thai"), "Zyx serves Thai food to guests.", ()),
        (record("rating = 5"), "Zyx is rated 5 and serves food.", ("serves", "food")),
        (record("food = Thai", "rating = 5"), "Zyx is rated 5 and serves Thai food.", ()),
        (record("food = rated soup"), "Zyx is rated for rated soup.", ()),
        # `stars` is unknown from training
        (record("food = Thai", "stars = 5"), "Zyx is rated with 5 stars and serves Thai food.", ()),
    ],
)
def test_a_word_of_a_missing_predicate_is_a_fault(item: Record, text: str, words: tuple[str, ...]) -> None:
    check = Checker(LEXICON).check(item, text)
    assert check.unsupported == words
    assert [fault for fault in check.faults if "no triple" in fault] == [
        f"{word!r} says what no triple says" for word in words
    ]


def test_a_pair_of_words_may_imply_a_predicate_that_neither_word_implies() -> None:
    priced = inns("price", "{} is average priced at {} dollars.", ("1", "3", "5"))
    liked = inns("rating", "{} has average guests of grade {}.", ("1", "3", "5"))
    cheap = inns("deal", "{} is low priced on {}.", ("Friday", "Monday"))
    lexicon = learn([*priced, *liked, *cheap])
    assert lexicon.implies["average priced"] == "price" and {"average", "priced"}.isdisjoint(lexicon.implies)
    for item, text, words in (
        (record("deal = Friday"), "Zyx is average priced on Friday.", ("average priced",)),
        (record("deal = Friday"), "On average priced, Zyx is low priced on Friday.", ("average priced",)),
        (record("deal = Friday"), "Zyx is low priced on average. Priced on Friday.", ()),
        (record("price = 3"), "Zyx is average priced at 3 dollars.", ()),
    ):
        assert Checker(lexicon).check(item, text).unsupported == words, text
    assert "average priced" not in lexicon.merged(Lexicon(lower=frozenset(("average", "priced")))).implies
    assert "average priced" in lexicon.merged(Lexicon(lower=frozenset(("average",)))).implies


@pytest.mark.parametrize(("with_other_value", "implied"), [(0, True), (1, True), (10, False)])
def test_a_value_must_be_in_the_record_if_texts_with_another_value_seldom_contain_it(
    with_other_value: int, implied: bool
) -> None:
    """E2E: 45 % of the texts without a type contain "restaurant", and 5 % of those about pubs."""
    hotels = inns("type", "{} is a {} in town.", ("hotel",))
    pubs = inns("type", "{} is a {} in town.", ("pub",))
    mixed = inns("type", "{} is a {} and hotel in town.", ("pub",))[:with_other_value]
    untyped = inns("rating", "{} is a hotel rated {} by guests.", ("1", "3", "5"))
    lexicon = learn([*hotels, *pubs, *mixed, *untyped])
    assert "hotel" not in lexicon.value_words and ("hotel" in lexicon.implies) == implied
    checker, fault = Checker(lexicon), ("hotel",) if implied else ()
    assert checker.check(record("rating = 5"), "Zyx is a hotel rated 5.").unsupported == fault
    assert checker.check(record("type = pub"), "Zyx is a hotel. It is a pub.").unsupported == fault
    assert checker.check(record("type = hotel"), "Zyx is a hotel.").unsupported == ()


def test_a_phrase_for_a_truth_value_does_not_cover_a_value_that_the_record_lacks() -> None:
    """E2E: "a friendly restaurant near" was a phrase for family-friendly, and allowed the restaurant."""
    hotels = inns("type", "{} is a {} in town.", ("hotel",))
    pubs = inns("type", "{} is a {} in town.", ("pub",))
    untyped = inns("rating", "{} is a hotel rated {} by guests.", ("1", "3", "5"))
    friendly = inns("friendly", "{} is a friendly hotel.", ("yes",)) + inns("friendly", "{} is for adults.", ("no",))
    lexicon = learn([*hotels, *pubs, *untyped, *friendly])
    checker = Checker(lexicon)
    assert checker.check(record("friendly = yes"), "Zyx is a friendly hotel.").unsupported == ("hotel",)
    assert not checker.check(record("friendly = yes", "type = hotel"), "Zyx is a friendly hotel.").unsupported


def test_words_in_few_texts_or_of_a_predicate_of_nearly_all_records_imply_nothing() -> None:
    few = inns("rating", "{} is rated {} by guests.", ("1", "3", "5"), KINDS[:3])
    assert "rated" not in learn([*few, *FED]).implies
    assert learn(RATED).implies.keys() <= OPINIONS, "all records have a rating"
    assert "rated" not in learn([*RATED, *FED, *inns("food", "{} serves rated {}.", ("Thai",), KINDS[:1])]).implies


def test_of_predicates_that_always_occur_together_the_first_by_name_is_implied() -> None:
    """Regression: which one depended on the hash seed of the process."""
    names = ("year", "place", "by", "with", "for", "reason", "cost")
    founded = [
        example(f"{city} {kind}", "at", f"{city}ville", f"{city} {kind} was founded.", **dict.fromkeys(names, "x"))
        for city in CITIES
        for kind in KINDS
    ]
    assert learn([*founded, *FED]).implies["founded"] == "at"


def test_an_opinion_without_a_reason_in_the_record_is_a_fault() -> None:
    checker = Checker(LEXICON)
    for item, text, words in (
        (record("food = Thai"), "Zyx, a popular and Famous place, serves traditional Thai food.", 3),
        (record("food = Traditional Thai"), "Zyx serves traditional Thai food.", 0),
        (record("food = traditional"), "Zyx serves traditional food.", 0),
        (record("food = Thai", "stars = 5"), "Zyx is popular and serves Thai food.", 0),  # `stars` may mean popularity
    ):
        assert len(checker.check(item, text).unsupported) == words, text


@pytest.mark.parametrize(("with_opinion", "implied"), [(3, "popular"), (30, None)])
def test_an_opinion_in_many_texts_of_a_predicate_expresses_it(with_opinion: int, implied: str | None) -> None:
    records = []
    for predicate in ("likes", "views"):
        popular = inns(predicate, "{} is popular: {} " + predicate, ("70", "90"))
        counted = inns(predicate, "{} has {} " + predicate, ("70", "90"))
        records += [*popular[:with_opinion], *counted[with_opinion:]]
    lexicon = learn(records)
    assert (lexicon.implies.get("popular"), lexicon.implies["famous"]) == (implied, "famous")


def test_words_of_a_users_sentence_are_supported() -> None:
    item, text = record("food = Thai"), "Zyx is highly rated for Thai."
    assert Checker(LEXICON).check(item, text).unsupported == ("rated",)
    own = replace(LEXICON, templates={"food": "{subject} is highly rated for {object}."})
    assert Checker(own).check(item, text).unsupported == ()


def test_a_word_without_the_predicate_in_another_corpus_implies_nothing() -> None:
    assert LEXICON.implies["rated"] == "rating"
    assert LEXICON.merged(Lexicon()).implies == LEXICON.implies == Lexicon().merged(LEXICON).implies
    assert "rated" not in LEXICON.merged(Lexicon(lower=frozenset(("rated",)))).implies
    assert "rated" not in LEXICON.merged(replace(LEXICON, implies={"rated": "film rating"})).implies


@pytest.mark.parametrize(
    ("corpus", "max_others", "max_opinions"), [("elements", 0, 0), ("webnlg", 0.01, 0.02), ("e2e_cleaned", 0.01, 0.02)]
)
def test_few_references_have_unsupported_words(
    corpus: str, max_others: float, max_opinions: float, request: pytest.FixtureRequest
) -> None:
    checker, _, records_of = request.getfixturevalue(corpus)
    texts = [(item, text.text) for item in records_of("dev") for text in item.references]
    found = [{word.lower() for word in checker.check(item, text).unsupported} for item, text in texts]
    assert len(checker.lexicon.implies) > 10 + len(OPINIONS)
    assert sum(bool(words - OPINIONS) for words in found) <= max_others * len(texts)
    assert sum(bool(words & OPINIONS) for words in found) <= max_opinions * len(texts)
