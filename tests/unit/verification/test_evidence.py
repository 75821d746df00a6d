"""The strict check on corpora: references pass, substituted words and swapped values are detected."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from agggen.records import Record, Triple
from agggen.text.linearise import entity_words
from agggen.verification.check import Checker
from agggen.verification.cues import foreign_words, triples_without_cue, wrong_roles
from agggen.verification.e2e import slot_errors, slot_of
from agggen.verification.normal import Word, letters, words
from agggen.verification.record_words import value_type
from agggen.verification.values import FUNCTION_WORDS, OPINIONS, MatchedText
from tests.unit.verification.conftest import Learned
from tests.unit.verification.texts import texts_of

_MAX_SUBSTITUTIONS = 20  # mentions of a value in one text


def content(text: str) -> list[Word]:
    return [word for word in words(text) if not word.optional and word.form not in FUNCTION_WORDS]


def _mentions(checker: Checker, records: Iterable[Record]) -> Iterator[tuple[Record, str, int, str]]:
    """(record, text, index, mention) of values that references mention contiguously; no truth values."""
    for record, text in texts_of(records):
        for index, value in enumerate(checker.values(record, text)):
            if value.span is not None and value.kind != "phrase":
                yield record, text, index, text[slice(*value.span)]


def _outcome(checker: Checker, record: Record, index: int, text: str, new_mention: Callable[[str], str | None]) -> str:
    """Replaces the mentions of a value: ``detected``, ``undetected: ...``, or ``skipped`` for a paraphrase, for which
    `new_mention` returns None.
    """
    for _ in range(_MAX_SUBSTITUTIONS):
        span = checker.values(record, text)[index].span
        if span is None:
            return "detected"
        new = new_mention(text[slice(*span)])
        if new is None:
            return "skipped"
        text = text[: span[0]] + new + text[span[1] :]
    return f"undetected: {record.triples[index]}: {text}"


def substitute_words(
    checker: Checker, records: Sequence[Record], train: Sequence[Record], rng: random.Random
) -> Iterator[str]:
    """Replaces a word of each value by one of another value; yields each `_outcome`."""
    values = {triple.object for record in train for triple in record.triples}
    others = sorted({word.raw for value in values for word in content(entity_words(value))})
    for record, text, index, mention in _mentions(checker, records):
        if not content(mention):
            continue
        form, new = rng.choice(content(mention)).form, rng.choice(others)
        if form in {word.form for word in words(new)}:
            continue

        def new_mention(mention: str, form: str = form, new: str = new) -> str | None:
            old = next((word for word in words(mention) if word.form == form), None)
            return old and mention[: old.start] + new + mention[old.end :]

        yield _outcome(checker, record, index, text, new_mention)


def substitute_values(
    checker: Checker, records: Sequence[Record], train: Sequence[Record], rng: random.Random
) -> Iterator[str]:
    """Replaces all mentions of each value by another value of its predicate; yields each `_outcome`.

    Also skipped: other values that contain the value ("Austin, Texas, United States") or are synonyms ("cheap").
    """

    def normal(value: str) -> str:
        return letters(words(entity_words(value)), 0)

    values: dict[str, dict[str, str]] = {}
    for triple in (triple for record in train for triple in record.triples):
        values.setdefault(triple.predicate, {})[normal(triple.object)] = triple.object
    for record, text, index, _ in _mentions(checker, records):
        triple = record.triples[index]
        own = {normal(part) for triple in record.triples for part in (triple.subject, triple.object)}
        others = [other for key, other in values.get(triple.predicate, {}).items() if key not in own]
        if not others:
            continue
        new = entity_words(rng.choice(others))

        def new_mention(mention: str, triple: Triple = triple, new: str = new) -> str | None:
            return new if checker.values(Record("r", (triple,)), mention)[0].whole else None

        yield "skipped" if new_mention(new) else _outcome(checker, record, index, text, new_mention)


def swap_values(
    checker: Checker, records: Sequence[Record], chosen: Callable[[str], bool]
) -> Iterator[tuple[bool, bool, str]]:
    """Swaps two of the chosen values; yields whether all such values differ, whether it is detected, and the text."""
    for record, text in texts_of(records):
        values = [value for value in checker.values(record, text) if value.span and chosen(value.triple.object)]
        forms = [(content(value.triple.object) or words(value.triple.object))[0].form for value in values]
        for left, right in combinations(values, 2):
            (first, second) = sorted((left.span or (0, 0), right.span or (0, 0)))
            same = left.triple.predicate == right.triple.predicate or left.triple.object == right.triple.object
            if same or first[1] > second[0]:
                continue
            changed = text[: first[0]] + text[slice(*second)] + text[first[1] : second[0]]
            changed += text[slice(*first)] + text[second[1] :]
            pairs = {frozenset(pair) for pair in checker.check(record, changed).swapped}
            detected = frozenset((left.triple.predicate, right.triple.predicate)) in pairs
            yield len(set(forms)) == len(forms), detected, changed


# --- references ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "count"), [("train", 3384), ("dev", 216), ("test", 216)])
def test_references_of_elements_have_no_fault(elements: Learned, split: str, count: int) -> None:
    checker, _, records = elements
    faults = [(text, checker.check(record, text).faults) for record, text in texts_of(records(split))]
    assert len(faults) == count
    assert [(text, result) for text, result in faults if result] == []


def test_facts_of_references_express_exactly_their_own_triples(elements: Learned) -> None:
    """Except "The gas becomes liquid at 25 K.", which says more than the melting point."""
    checker, train, records = elements
    facts, faults = 0, Counter[tuple[str, ...]]()
    for record in [*train, *records("dev"), *records("test")]:
        for fact in [fact for reference in record.references for fact in reference.facts or ()]:
            own = [record.predicates.index(name) for name in fact.predicates or ()]
            result = checker.check(record, fact.text, own, subjects=())
            facts += 1
            assert result.whole, (fact, result)
            faults.update([result.faults] if result.faults else [])
    assert set(faults) <= {("'gas' belongs to another fact",), ("'gas' is repeated",)}
    assert 0 < sum(faults.values()) < 0.003 * facts


@pytest.mark.slow
def test_references_of_webnlg_express_95_percent_of_the_values_and_have_few_faults(webnlg: Learned) -> None:
    """Measured: 95.0 %. The others are incomplete (typos, "Menasha" without Wisconsin) or paraphrased. 1.98 % of the
    texts have invented words, most of them real errors: typos, other years.
    """
    checker, _, records = webnlg
    checks = [(checker.check(record, text), text) for record, text in texts_of(records("dev"))]
    values = [value for check, _ in checks for value in check.values]
    kinds = Counter(value.kind for value in values)
    assert kinds.total() > 6800
    misses = Counter(str(value) for value in values if not value.whole)
    assert misses.total() <= 0.05 * kinds.total(), f"{kinds}\nmost frequent: {misses.most_common(20)}"
    assert kinds["lexicon"] < 0.02 * kinds.total(), "too few values match literally or by rule"
    invented = [(check.invented, text) for check, text in checks if check.invented]
    assert len(invented) <= 0.02 * len(checks), invented[:20]
    assert not any(check.elsewhere for check, _ in checks), "only facts have words of other facts"
    assert sum(bool(check.swapped) for check, _ in checks) <= 0.001 * len(checks)
    assert sum(bool(check.repeated) for check, _ in checks) <= 0.005 * len(checks)


@pytest.mark.parametrize(
    ("corpus", "cues", "maxima"),  # triples_without_cue, foreign words, wrong roles, opinions, unsupported words
    [
        ("elements", 10, (0.015, 0.02, 0.0, 0.0, 0.0)),
        ("webnlg", 133, (0.075, 0.06, 0.025, 0.02, 0.01)),
        ("e2e_cleaned", 0, (0.0, 0.0, 0.002, 0.02, 0.01)),
    ],
)
def test_few_references_contradict_the_learned_rules(
    corpus: str, cues: int, maxima: tuple[float, ...], request: pytest.FixtureRequest
) -> None:
    checker, _, records = request.getfixturevalue(corpus)
    lexicon, rows = checker.lexicon, []
    for record, reference in texts_of(records("dev")):
        text = MatchedText.by_rule(record, reference)
        unsupported = {word.lower() for word in checker.check(record, reference).unsupported}
        faults = (
            triples_without_cue(text, lexicon.cues),
            foreign_words(text, lexicon.predicates_of, ()),
            wrong_roles(text, lexicon.roles_after, lexicon.contexts),
            unsupported & OPINIONS,
            unsupported - OPINIONS,
        )
        rows.append([bool(fault) for fault in faults])
    assert len(lexicon.cues) == cues and len(lexicon.implies) > 10 + len(OPINIONS)
    shares = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    assert all(share <= most for share, most in zip(shares, maxima, strict=True)), shares


@pytest.mark.slow
def test_the_check_agrees_with_the_published_patterns_on_omitted_values(e2e_cleaned: Learned, data_home: Path) -> None:
    """Measured: 98 % of the values of TGen's texts. The check does not use the patterns of Dušek et al. (2019)."""
    checker, _, records = e2e_cleaned
    path = data_home / "outputs/e2e_cleaning/train-clean_test-clean/tgen-std.run0.txt"
    agree: Counter[bool] = Counter()
    for record, text in zip(records("test"), path.read_text("utf-8").splitlines(), strict=True):
        errors = slot_errors(record, text)
        omitted = {error.slot for error in (*errors.missed, *errors.wrong)}
        agree.update(
            value.whole != (slot_of(value.triple.predicate) in omitted) for value in checker.check(record, text).values
        )
    assert agree.total() > 9000
    assert agree[True] >= 0.97 * agree.total(), agree


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("corpus", "seed", "every", "min_total", "max_skipped"),
    [
        *(("elements", seed, 1, 1700, (0.02, 1.0)) for seed in (1, 2, 3)),
        pytest.param("webnlg", 1, 1, 5000, (0.03, 0.06), marks=pytest.mark.slow),
        pytest.param("e2e_cleaned", 1, 3, 3000, (0.03, 0.06), marks=pytest.mark.slow),
    ],
)
def test_substituted_words_and_values_are_detected(
    corpus: str, seed: int, every: int, min_total: int, max_skipped: tuple[float, float], request: pytest.FixtureRequest
) -> None:
    checker, train, records = request.getfixturevalue(corpus)
    held_out = [*records("dev"), *(records("test") if corpus == "elements" else ())][::every]
    for substitute, max_share in zip((substitute_words, substitute_values), max_skipped, strict=True):
        results = list(substitute(checker, held_out, train, random.Random(seed)))
        undetected = [result for result in results if result.startswith("undetected")]
        total = len(undetected) + results.count("detected")
        assert total > min_total
        assert results.count("skipped") < max_share * total
        assert len(undetected) <= 0.001 * total, undetected[:10]


def test_swapped_numbers_are_detected(elements: Learned) -> None:
    """Measured: 95.9 %; all if no two numbers of the record are equal."""
    checker, _, records = elements
    result = list(swap_values(checker, records("dev") + records("test"), lambda value: value_type(value) == "number"))
    assert len(result) > 500
    assert sum(detected for _, detected, _ in result) >= 0.945 * len(result)
    assert [text for different, detected, text in result if different and not detected] == []


@pytest.mark.parametrize(
    ("corpus", "min_total", "min_detected"),
    [("elements", 80, 0.95), pytest.param("webnlg", 6000, 0.46, marks=pytest.mark.slow)],
)
def test_swapped_names_are_detected(
    corpus: str, min_total: int, min_detected: float, request: pytest.FixtureRequest
) -> None:
    """Measured: 98.9 % and 48.3 %."""
    checker, _, records = request.getfixturevalue(corpus)
    swaps = swap_values(checker, records("dev"), lambda value: entity_words(value)[:1].isupper())
    result = [detected for _, detected, _ in swaps]
    assert len(result) > min_total
    assert sum(result) >= min_detected * len(result)


@pytest.mark.parametrize(("corpus", "by_cues", "by_both"), [("elements", 0.65, 0.9), ("webnlg", 0.54, 0.74)])
def test_most_texts_are_rejected_if_a_triple_has_another_predicate(
    corpus: str, by_cues: float, by_both: float, request: pytest.FixtureRequest
) -> None:
    checker, train, records = request.getfixturevalue(corpus)
    predicates = sorted({triple.predicate for record in train for triple in record.triples})
    rng, rejected = random.Random(1), []
    for record, reference in texts_of(records("dev")):
        number, other = rng.randrange(len(record.triples)), rng.choice(predicates)
        if MatchedText.by_rule(record, reference).values[number] and other not in record.predicates:
            text = MatchedText.by_rule(_with_triple(record, number, predicate=other), reference)
            without_cue = bool(triples_without_cue(text, checker.lexicon.cues))
            rejected.append((without_cue, without_cue or bool(foreign_words(text, checker.lexicon.predicates_of, ()))))
    shares = [sum(column) / len(rejected) for column in zip(*rejected, strict=True)]
    assert shares[0] >= by_cues and shares[1] >= by_both


@pytest.mark.parametrize(("corpus", "min_rejected"), [("elements", 0.5), ("webnlg", 0.4), ("e2e_cleaned", 0.1)])
def test_many_texts_are_rejected_if_subject_and_value_are_exchanged(
    corpus: str, min_rejected: float, request: pytest.FixtureRequest
) -> None:
    checker, _, records = request.getfixturevalue(corpus)
    lexicon, rng, rejected = checker.lexicon, random.Random(1), []
    for record, reference in texts_of(records("dev")):
        triple = record.triples[number := rng.randrange(len(record.triples))]
        if triple.subject:
            exchanged = _with_triple(record, number, subject=triple.object, object=triple.subject)
            text = MatchedText.by_rule(exchanged, reference)
            rejected.append(bool(wrong_roles(text, lexicon.roles_after, lexicon.contexts)))
    assert sum(rejected) >= min_rejected * len(rejected)


def _with_triple(record: Record, number: int, **changes: str) -> Record:
    triples = list(record.triples)
    triples[number] = replace(triples[number], **changes)
    return Record("changed", tuple(triples))
