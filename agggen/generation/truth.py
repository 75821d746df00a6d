"""Constraints by which texts pass the strict check: what a fact may say of its triples, and what it must.

Every value of the fact's triples is said whole; numbers, names and words known from values alone come from these
triples; what a verification finds at fault does not end a fact. Where nothing passes, the fact is the corpus's own most
frequent wording of one such triple, a sentence each, or, without one, a plain clause of the predicate's words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from agggen.generation.constraints import Constraint, Spelling
from agggen.generation.hypotheses import PlanPrefix
from agggen.model.batch import FACT, LAST
from agggen.records import NO_SUBJECT, Record, Triple
from agggen.text import detokenise
from agggen.text.linearise import entity_words
from agggen.text.tokenise import JOINER, tokenise
from agggen.text.vocabulary import SPECIALS, Vocabulary
from agggen.verification.check import Checker
from agggen.verification.lexicon import clause, fill, suspicious
from agggen.verification.normal import words
from agggen.verification.record_words import derived, names
from agggen.verification.values import FUNCTION_WORDS, parts, spellings

_STOPS = frozenset(".!?")
_ARTICLE = re.compile(r"^(?:the|an?) ", re.IGNORECASE)
_FINAL_ZEROS = re.compile(r"(?<=\d)\.0+(?!\d)")
_THOUSANDS = re.compile(r"(?<=\d)(?=(?:\d{3})+(?![\d.]))")


class Words:
    """What a checker's lexicon says of each word of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary, checker: Checker) -> None:
        self.vocabulary, self.checker = vocabulary, checker
        self.ids = {word: number for number, word in enumerate(vocabulary.words)}
        self.watched = {
            number: forms
            for number, word in enumerate(vocabulary.words[len(SPECIALS) :], start=len(SPECIALS))
            if (forms := self.forms(word))
        }
        self._by_form: dict[str, list[int]] = defaultdict(list)
        self._by_start: dict[str, set[str]] = defaultdict(set)
        for number, forms in self.watched.items():
            for form in forms:
                self._by_form[form].append(number)
                self._by_start[form[:4]].add(form)
        self.stops = frozenset(self.ids[word] for word in self.ids if word.strip(JOINER) in _STOPS)
        self.full_stop = self.ids.get(f"{JOINER}.")

    def barred(self, allowed: Iterable[str]) -> set[int]:
        """The watched words that are no forms of these, nor derived from them."""
        found = {form for of in allowed for form in self._by_start[of[:4]] if form == of or derived(form, of)}
        given = {number for form in found for number in self._by_form[form] if found.issuperset(self.watched[number])}
        return self.watched.keys() - given

    def forms(self, token: str) -> tuple[str, ...]:
        """The normal forms in a token that need a triple which they come from."""
        lexicon = self.checker.lexicon
        return tuple(
            word.form
            for word in words(token.strip(JOINER))
            if suspicious(word, lexicon.value_words, lexicon.lower) and not (word.initial and not lexicon.lower)
        )


class RecordConstraints:
    """The constraints of one record's facts; called with the plan prefix that ends with the fact."""

    def __init__(self, known: Words, record: Record, extras: list[str], stops_at: frozenset[int] = frozenset()) -> None:
        """The constraints of `record`.

        Args:
            known: what is known of the vocabulary's words.
            record: what is written about.
            extras: its words that the vocabulary lacks; gets those of its fallbacks, too.
            stops_at: after how many facts a sentence must end.
        """
        self.known, self.record, self.extras = known, record, extras
        self.stops_at = stops_at
        self._ids = {word: len(known.vocabulary) + number for number, word in enumerate(extras)}
        self._sentences = [self._encode(sentence(known.checker, triple), new=True) or () for triple in record.triples]
        self._subjects = frozenset(triple.subject for triple in record.triples)
        self._named: dict[tuple[int, ...], tuple[str, ...]] = {}
        self._spelled: dict[int, tuple[Spelling, ...]] = {}
        self._found: dict[tuple[frozenset[int], bool, bool], Constraint] = {}

    def __call__(self, prefix: PlanPrefix) -> Constraint:
        stops = prefix.last or len(prefix.groups) in self.stops_at
        key = prefix.groups[-1], prefix.last, stops
        if key not in self._found:
            self._found[key] = self._constraint(*key)
        return self._found[key]

    def fallback(self, group: Iterable[int]) -> Spelling:
        """Sentences that say these triples."""
        return tuple(word for index in sorted(group) for word in self._sentences[index])

    def _constraint(self, group: frozenset[int], last: bool, stops: bool) -> Constraint:
        known, checker = self.known, self.known.checker
        own = [self.record.triples[index] for index in sorted(group)]
        allowed = checker.allowed(own)
        barred = known.barred(allowed) | {
            number
            for number, forms in self._watched_extras()
            if not all(form in allowed or any(derived(form, of) for of in allowed) for form in forms)
        }
        written = [self._spellings_of(index) for index in sorted(group)]
        subjects = {word for triple in own for word in self._encode(entity_words(triple.subject)) or ()}
        barred -= subjects.union(word for all_ in written for spelling in all_ for word in spelling)
        said = names(self.record)
        elastic = {number for number, triple in enumerate(own) if not written[number] or parts(triple.object, said)}
        binding = {
            word
            for all_ in written
            for spelling in all_
            for word in spelling
            if word not in subjects and self._binds(word)
        }
        indices = sorted(group)

        subjects_of = frozenset(triple.subject for triple in own)
        true: dict[tuple[tuple[int, ...], bool, frozenset[str]], bool] = {}

        def judge(said: Sequence[int], before: Sequence[int]) -> bool:
            if stops and (not said or said[-1] not in known.stops):
                return False
            earlier = [word for word in before if word not in (FACT, LAST)]
            begins = not earlier or earlier[-1] in known.stops
            named = subjects_of
            if len(self._subjects) == 1:
                named = frozenset()
            elif len(subjects_of) == 1:  # "it" is whom the last sentence is about, "which" any of whom this one names
                named = subjects_of.difference(self._salient(tuple(before))[: 1 if begins else None])
            if (key := (tuple(said), begins, named)) not in true:
                true[key] = not checker.check(self.record, self._text(said), indices, named, begins).faults
            return true[key] and not (last and checker.unnamed(self.record, self._text([*earlier, *said])))

        return Constraint(
            frozenset(barred),
            tuple(written),
            frozenset(elastic),
            frozenset(binding),
            judge,
            self.fallback(group),
            known.full_stop,
            known.stops,
        )

    def _salient(self, before: tuple[int, ...]) -> tuple[str, ...]:
        """The subjects that the last sentence with any of them names, in its order.

        Args:
            before: the text so far, with the marks of facts.
        """
        if before not in self._named:
            sentences: list[list[int]] = [[]]
            for word in before:
                if word not in (FACT, LAST):
                    sentences[-1].append(word)
                    sentences += [[]] if word in self.known.stops else []
            named = (self.known.checker.named(self.record, self._text(said)) for said in reversed(sentences) if said)
            self._named[before] = next((names for names in named if names), ())
        return self._named[before]

    def _watched_extras(self) -> Iterable[tuple[int, tuple[str, ...]]]:
        start = len(self.known.vocabulary)
        for number, word in enumerate(self.extras):
            if forms := self.known.forms(word):
                yield start + number, forms

    def _binds(self, word: int) -> bool:
        start = len(self.known.vocabulary)
        if word >= start or word in self.known.watched:
            return True
        form = [each.form for each in words(self.known.vocabulary.words[word].strip(JOINER))]
        return bool(form) and form[0] not in FUNCTION_WORDS and form[0] not in self.known.checker.lexicon.lower

    def _spellings_of(self, index: int) -> tuple[Spelling, ...]:
        if index not in self._spelled:
            self._spelled[index] = self._spellings(self.record.triples[index])
        return self._spelled[index]

    def _spellings(self, triple: Triple) -> tuple[Spelling, ...]:
        """Wordings of the value in words that can be written; none where it is not said as it stands."""
        literal = next((item for item in self.known.checker.wordings(triple) if item.how == "literal"), None)
        if literal is None:
            return ()
        said = [*spellings(triple.object), *self.known.checker.lexicon.variants.get(triple.object, ())]
        if not literal.exact:
            said += [other for text in said for other in _written_otherwise(text)]
        found = dict.fromkeys(ids for text in dict.fromkeys(said) if (ids := self._encode(text)))
        return tuple(found)

    def _encode(self, text: str, new: bool = False) -> Spelling | None:
        """The ids of a text's words; None if one cannot be written, which with `new` becomes an extra."""
        vocabulary = self.known.vocabulary
        found = []
        for token in tokenise(text, normalise=True):
            number = self.known.ids.get(token.text, self._ids.get(token.text))
            if number is None:
                if not new:
                    return None
                number = self._ids[token.text] = len(vocabulary) + len(self.extras)
                self.extras.append(token.text)
            found.append(number)
        return tuple(found)

    def _text(self, ids: Sequence[int]) -> str:
        return detokenise(self.known.vocabulary.decode(ids, self.extras))


def _written_otherwise(text: str) -> Iterator[str]:
    """The same words for a checker: without an article, with other capitals, and numbers without final zeros."""
    bare = _ARTICLE.sub("", text)
    number = _FINAL_ZEROS.sub("", text)
    for other in (text, bare, number, _THOUSANDS.sub(",", number)):
        yield from (other, other.lower(), other[:1].lower() + other[1:], other[:1].upper() + other[1:])


def sentence(checker: Checker, triple: Triple) -> str:
    """The corpus's own wording of a triple, if the checker finds it true; else a plain clause."""
    template = checker.lexicon.templates.get(triple.predicate)
    if template is not None and triple.subject != NO_SUBJECT:
        text = fill(template, triple)
        if not checker.check(Record("-", (triple,)), text).faults:
            return text
    return clause(triple)


@lru_cache(maxsize=4)
def words_of(vocabulary: Vocabulary, checker: Checker) -> Words:
    """The `Words` of a vocabulary and a checker, made once."""
    return Words(vocabulary, checker)
