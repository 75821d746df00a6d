"""What a lexicon is learned from: training texts read against their records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agggen.records import Record
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.lexicon import BOOLEANS, Lexicon, neighbours, suspicious
from agggen.verification.normal import Word, words
from agggen.verification.values import FUNCTION_WORDS, Sides, negated, ways

LONGEST = 5
"""Words of a learned wording."""
_FEWEST = 3
"""Texts in which people use a wording before it is accepted."""
_PRECISION = 0.8
_CONTRAST = 3
"""How many times more often a wording stands where the value is not said than where it is."""
_MANY = 5
"""Texts needed for a wording that looks unlike the value."""
_BOOLEAN_PRECISION = 0.95
_PART = 0.9
"""Of a wording's texts, the share in which it is a part of longer wordings, from which on these are taken instead."""


@dataclass(frozen=True)
class _Text:
    """A training text read against its record."""

    record: Record
    sides: Sides
    places: tuple[frozenset[tuple[int, int]], ...]
    """Where the value of each triple stands, by rule."""
    subjects: frozenset[tuple[int, int]]

    def said(self) -> tuple[Word, ...]:
        return self.sides.whole.words

    def explained(self) -> list[bool]:
        spans = [span for places in self.places for span in places] + list(self.subjects)
        return [any(start <= word.start and word.end <= end for start, end in spans) for word in self.said()]


def _read(records: Iterable[Record]) -> Iterator[_Text]:
    for record in records:
        for reference in record.references:
            sides = Sides(reference.text)
            places = tuple(
                frozenset(place for way in ways(triple.object) for place in sides.places(way))
                for triple in record.triples
            )
            names = dict.fromkeys(triple.subject for triple in record.triples)
            subjects = frozenset(place for name in names for way in ways(name) for place in sides.places(way))
            yield _Text(record, sides, places, subjects)


def _grams(said: Sequence[Word], free: Sequence[bool], longest: int) -> set[tuple[str, ...]]:
    return {gram for _, gram in _grams_at(said, free, longest)}


def _grams_at(said: Sequence[Word], free: Sequence[bool], longest: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The sequences of unexplained words that neither begin nor end with a function word, each with its start."""
    for start, first in enumerate(said):
        if not free[start] or first.form in FUNCTION_WORDS or first.optional:
            continue
        for end in range(start + 1, min(len(said), start + longest) + 1):
            last = said[end - 1]
            if not free[end - 1]:
                break
            if last.form not in FUNCTION_WORDS and not last.optional and last.kind != "number":
                yield start, tuple(word.form for word in said[start:end])


def learn(records: Sequence[Record]) -> Lexicon:
    """The lexicon of training records with their references."""
    texts = list(_read(records))
    lower, value_words = _word_kinds(texts)
    booleans_of = _boolean_predicates(records)
    return Lexicon(
        variants=_variants(texts, booleans_of),
        booleans=_booleans(texts, booleans_of),
        wordings=_wordings(texts, value_words, lower),
        templates=_templates(records, value_words, lower),
        contexts=_contexts(texts),
        value_words=value_words,
        lower=lower,
    )


def _boolean_predicates(records: Sequence[Record]) -> frozenset[str]:
    values: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for triple in record.triples:
            values[triple.predicate].add(entity_words(triple.object).lower())
    return frozenset(name for name, said in values.items() if said <= BOOLEANS)


def _word_kinds(texts: Sequence[_Text]) -> tuple[frozenset[str], frozenset[str]]:
    lower: set[str] = set()
    openers: set[str] = set()
    inner: set[str] = set()
    from_values: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for text in texts:
        for word, explained in zip(text.said(), text.explained(), strict=True):
            if word.kind != "word":
                continue
            if not explained:
                kind = lower if word.raw[:1].islower() else openers if word.initial else inner
                kind.add(word.form)
            (from_values if explained else other)[word.form] += 1
    value_words = frozenset(
        form
        for form, count in from_values.items()
        if form not in FUNCTION_WORDS and len(form) > 2 and count >= 9 * other[form]
    )
    return frozenset(lower | (openers - inner - from_values.keys())), value_words


Said = tuple[str, str]
"""A predicate and its value."""


def _variants(texts: Sequence[_Text], booleans: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Word sequences that people use for a value where they do not say it, and not where its predicate has another."""
    unsaid: dict[Said, Counter[tuple[str, ...]]] = defaultdict(Counter)
    subjects: dict[tuple[Said, tuple[str, ...]], set[str]] = defaultdict(set)
    texts_of: dict[bool, Counter[Said]] = {True: Counter(), False: Counter()}
    free_grams: list[set[tuple[str, ...]]] = []
    for text in texts:
        grams = _grams(text.said(), [not explained for explained in text.explained()], LONGEST - 1)
        free_grams.append(grams)
        for triple, places in zip(text.record.triples, text.places, strict=True):
            if triple.predicate in booleans:
                continue
            pair = (triple.predicate, triple.object)
            texts_of[bool(places)][pair] += 1
            if not places:
                unsaid[pair].update(grams)
                for gram in grams:
                    subjects[pair, gram].add(triple.subject)
    candidates: dict[tuple[str, ...], list[Said]] = defaultdict(list)
    for pair, counts in unsaid.items():
        for gram, count in counts.items():
            least = 0.05 if _alike(gram, pair[1]) else 0.15
            enough = count >= _FEWEST and count >= least * texts_of[False][pair] and len(subjects[pair, gram]) >= 2
            if enough and _may_stand_for(gram, pair[1]):
                candidates[gram].append(pair)
    written: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    where_said: Counter[tuple[Said, tuple[str, ...]]] = Counter()
    where_other: Counter[tuple[Said, tuple[str, ...]]] = Counter()
    for text, grams in zip(texts, free_grams, strict=True):
        pairs = {
            (triple.predicate, triple.object): bool(places)
            for triple, places in zip(text.record.triples, text.places, strict=True)
        }
        names = {predicate for predicate, _ in pairs}
        for gram in grams & candidates.keys():
            written[gram][_surface(text, gram)] += 1
            for pair in candidates[gram]:
                if pair in pairs:
                    where_said[pair, gram] += pairs[pair]
                else:
                    where_other[pair, gram] += pair[0] in names
    found: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for gram, pairs_of in candidates.items():
        for pair in pairs_of:
            count = unsaid[pair][gram]
            precise = count >= _PRECISION * (count + where_other[pair, gram])
            share, share_said = count / texts_of[False][pair], where_said[pair, gram] / max(1, texts_of[True][pair])
            if precise and share >= _CONTRAST * share_said and (_alike(gram, pair[1]) or count >= _MANY):
                found[pair[1]][gram] += count
    return {value: tuple(written[gram].most_common(1)[0][0] for gram in _fewest(said)) for value, said in found.items()}


def _surface(text: _Text, gram: tuple[str, ...]) -> str:
    """The first place of a word sequence in a text, as it is written."""
    said = text.said()
    forms = [word.form for word in said]
    start = next(i for i in range(len(forms)) if tuple(forms[i : i + len(gram)]) == gram)
    return text.sides.text[said[start].start : said[start + len(gram) - 1].end]


def _alike(gram: tuple[str, ...], value: str) -> bool:
    """Whether a wording and a value have a word that begins alike: ``italian`` and ``Italy``."""
    own = {word.form[:4] for word in words(entity_words(value)) if len(word.form) > 3}
    return any(form[:4] in own for form in gram)


def _may_stand_for(gram: tuple[str, ...], value: str) -> bool:
    """Whether a wording has all words of a value, none of them, or those before its comma."""
    own = {word.form for word in words(entity_words(value)) if word.form not in FUNCTION_WORDS}
    before = tuple(word.form for word in words(entity_words(value).split(",")[0]))
    return own <= set(gram) or not own & set(gram) or gram == before


def _fewest(grams: Mapping[tuple[str, ...], int], longest: int = LONGEST) -> tuple[tuple[str, ...], ...]:
    """The most frequent wordings of at most `longest` words first, none of which holds another or is nearly always a
    part of longer ones.
    """
    longer: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for gram, count in grams.items():
        longer[gram[1:]][0] += count
        longer[gram[:-1]][1] += count
    kept: list[tuple[str, ...]] = []
    for gram in sorted(grams, key=lambda gram: (-grams[gram], gram)):
        part = gram in longer and max(longer[gram]) >= _PART * grams[gram]
        if len(gram) <= longest and not part and not any(_holds(gram, shorter) for shorter in kept):
            kept.append(gram)
    return tuple(kept)


def _holds(longer: tuple[str, ...], shorter: tuple[str, ...]) -> bool:
    span = len(shorter)
    return any(longer[start : start + span] == shorter for start in range(len(longer) - span + 1))


def _booleans(texts: Sequence[_Text], predicates: frozenset[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Phrases that stand where a truth value is the one and not where it is the other, with ``not`` before those that
    stand behind a negation: ``not family friendly``."""
    if not predicates:
        return {}
    counts: dict[tuple[str, str], Counter[tuple[bool, tuple[str, ...]]]] = defaultdict(Counter)
    everywhere: Counter[tuple[bool, tuple[str, ...]]] = Counter()
    texts_of: Counter[Said] = Counter()
    for text in texts:
        said, free = text.said(), [not explained for explained in text.explained()]
        grams = {(negated(said, start), gram) for start, gram in _grams_at(said, free, LONGEST - 1)}
        everywhere.update(grams)
        for triple in text.record.triples:
            if triple.predicate in predicates:
                said_of = triple.predicate, entity_words(triple.object).lower()
                counts[said_of].update(grams)
                texts_of[said_of] += 1
    found: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for (predicate, value), grams_of in counts.items():
        phrases: list[str] = []
        for negation in (False, True):
            precise = {
                gram: count
                for (negative, gram), count in grams_of.items()
                if negative == negation
                and count >= max(_FEWEST, 0.003 * texts_of[predicate, value])
                and count >= _BOOLEAN_PRECISION * everywhere[negative, gram]
            }
            phrases += ["not " * negation + " ".join(gram) for gram in _fewest(precise, 3)]
        found[predicate][value] = tuple(phrases)
    return dict(found)


def _wordings(texts: Sequence[_Text], value_words: frozenset[str], lower: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Names, numbers and value words that people say of a predicate with different subjects and values."""
    pairs: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    near: Counter[tuple[str, str]] = Counter()
    said: Counter[str] = Counter()
    with_predicate: Counter[str] = Counter()
    for text in texts:
        loose = {
            word.form
            for word, explained in zip(text.said(), text.explained(), strict=True)
            if not explained and suspicious(word, value_words, lower)
        }
        said.update(loose)
        for triple in text.record.triples:
            with_predicate[triple.predicate] += 1
            for form in loose:
                pairs[triple.predicate, form].add((triple.subject, triple.object))
                near[triple.predicate, form] += 1
    found: dict[str, list[str]] = defaultdict(list)
    for (predicate, form), different in pairs.items():
        share, everywhere = near[predicate, form] / with_predicate[predicate], said[form] / len(texts)
        if len(different) >= _FEWEST and share >= 3 * everywhere:
            found[predicate].append(form)
    return {predicate: tuple(sorted(forms)) for predicate, forms in found.items()}


def _templates(records: Sequence[Record], value_words: frozenset[str], lower: frozenset[str]) -> dict[str, str]:
    """From texts of one triple: subject and object exchanged for places, the most frequent text without other names."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        if len(record.triples) > 1:
            continue
        (triple,) = record.triples
        subject, value = entity_words(triple.subject), entity_words(triple.object)
        for reference in record.references:
            text = reference.text
            if text.count(subject) == 1 and text.count(value) == 1 and subject not in value and value not in subject:
                template = text.replace(subject, "{subject}").replace(value, "{object}")
                bare = template.replace("{subject}", "").replace("{object}", "")
                own = {word.form for word in words(predicate_words(triple.predicate))}
                loose = (word for word in words(bare) if suspicious(word, value_words, lower) and word.form not in own)
                if not any(char in bare for char in "{}") and bare.rstrip().endswith(".") and not any(loose):
                    counts[triple.predicate][template.strip()] += 1
    return {
        predicate: min(templates, key=lambda template: (-templates[template], len(template), template))
        for predicate, templates in counts.items()
    }


def _contexts(texts: Sequence[_Text]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        said, explained = text.said(), text.explained()
        for triple, places in zip(text.record.triples, text.places, strict=True):
            if len(places) != 1:
                continue
            ((start, end),) = places
            inside = [index for index, word in enumerate(said) if start <= word.start and word.end <= end]
            if inside:
                counts[triple.predicate].update(neighbours(said, inside[0], inside[-1] + 1, explained))
    return {
        predicate: {word: count for word, count in own.items() if count > 1 or word.startswith("L1 ")}
        | {"": sum(own.values())}
        for predicate, own in counts.items()
    }
