"""Constraints on facts by which texts pass the strict check.

A fact expresses all values of its triples whole; its numbers, names and value words are licensed by these triples; and
it can only end if the strict check finds no fault. If no hypothesis passes, the fact is made of one sentence for each
triple, the corpus's most frequent one for its predicate or else a plain clause, joined by "and" where that passes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from agggen.generation.constraints import Constraint, Spelling
from agggen.generation.hypotheses import PlanPrefix
from agggen.model.batch import FACT, LAST
from agggen.records import NO_SUBJECT, Record, Triple
from agggen.text import detokenise
from agggen.text.linearise import entity_words, predicate_words
from agggen.text.tokenise import JOINER, tokenise
from agggen.text.vocabulary import SPECIALS, Vocabulary
from agggen.verification.check import Checker
from agggen.verification.lexicon import clause, fill, suspicious
from agggen.verification.normal import words
from agggen.verification.record_words import derived, names
from agggen.verification.values import FUNCTION_WORDS, parts, spellings

_STOPS = frozenset(".!?")
_CONTINUES = re.compile(r"\W*(?:and|but|is|are|was|were|has|had)\b", re.IGNORECASE)
"""The beginning of a fact that has the grammatical subject of the fact before."""
_ARTICLE = re.compile(r"^(?:the|an?) ", re.IGNORECASE)
_FINAL_ZEROS = re.compile(r"(?<=\d)\.0+(?!\d)")
_THOUSANDS = re.compile(r"(?<=\d)(?=(?:\d{3})+(?![\d.]))")


class Words:
    """The words of a vocabulary that a checker's lexicon regards as suspicious (`watched`), with their normal forms."""

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
        """The watched words whose forms are neither in `allowed` nor derived from it."""
        forms = {form for base in allowed for form in self._by_start[base[:4]] if form == base or derived(form, base)}
        licensed = {
            number for form in forms for number in self._by_form[form] if forms.issuperset(self.watched[number])
        }
        return self.watched.keys() - licensed

    def forms(self, token: str) -> tuple[str, ...]:
        """The normal forms in a token that must be licensed by a triple."""
        lexicon = self.checker.lexicon
        return tuple(
            word.form
            for word in words(token.strip(JOINER))
            if suspicious(word, lexicon.value_words, lexicon.lower) and not (word.initial and not lexicon.lower)
        )


class RecordConstraints:
    """The constraints of one record's facts; called with the plan prefix that ends with the fact.

    Args:
        known: of the vocabulary.
        record: of the text.
        extras: its out-of-vocabulary words; those of its fallbacks are added.
        stops_at: numbers of facts after which a sentence must end.
    """

    def __init__(self, known: Words, record: Record, extras: list[str], stops_at: frozenset[int] = frozenset()) -> None:
        self.known, self.record, self.extras = known, record, extras
        self.stops_at = stops_at
        self._ids = {word: len(known.vocabulary) + number for number, word in enumerate(extras)}
        for text in ("The, the and", *chain.from_iterable(_wordings(known.checker, t) for t in record.triples)):
            self._encode(text, new=True)  # words of fallbacks
        self._fallbacks: dict[frozenset[int], Spelling] = {}
        self._subjects = frozenset(triple.subject for triple in record.triples)
        self._named: dict[tuple[int, ...], tuple[str, ...]] = {}
        self._spelled: dict[int, tuple[Spelling, ...]] = {}
        self._found: dict[tuple[frozenset[int], frozenset[str], bool, bool], Constraint] = {}

    def __call__(self, prefix: PlanPrefix) -> Constraint:
        stops = prefix.last or len(prefix.groups) in self.stops_at
        preceding = frozenset(self.record.triples[index].subject for group in prefix.groups[-2:-1] for index in group)
        key = prefix.groups[-1], preceding if len(self._subjects) > 1 else frozenset(), prefix.last, stops
        if key not in self._found:
            self._found[key] = self._constraint(*key)
        return self._found[key]

    def fell_back(self, group: Iterable[int], words: Spelling) -> bool:
        """Whether a fact's words end with the fallback that the search used for its group."""
        fallback = self._fallbacks.get(frozenset(group))
        return fallback is not None and words[-len(fallback) :] == fallback

    def _fallback(self, group: frozenset[int]) -> Spelling:
        """One sentence for all triples, or one for each."""
        if group not in self._fallbacks:
            checker, triples = self.known.checker, [self.record.triples[index] for index in sorted(group)]
            spelled = [self._encode(text) for _, text in sentences(checker, triples)]
            if None in spelled:  # joined, they have a word that is not among the extras
                spelled = [self._encode(sentence(checker, triple)) for triple in triples]
            self._fallbacks[group] = tuple(word for spelling in spelled for word in spelling or ())
        return self._fallbacks[group]

    def _constraint(self, group: frozenset[int], preceding: frozenset[str], last: bool, stops: bool) -> Constraint:
        """`preceding`: the subjects of the fact before, if the record has several subjects."""
        known, checker = self.known, self.known.checker
        triples = [self.record.triples[index] for index in sorted(group)]
        allowed = checker.allowed(triples)
        barred = known.barred(allowed) | {
            number
            for number, forms in self._watched_extras()
            if not all(form in allowed or any(derived(form, base) for base in allowed) for form in forms)
        }
        written = [self._spellings_of(index) for index in sorted(group)]
        subjects = {word for triple in triples for word in self._encode(entity_words(triple.subject)) or ()}
        value_words = {word for value in written for spelling in value for word in spelling}
        barred -= subjects | value_words
        entities = names(self.record)
        elastic = {
            number for number, triple in enumerate(triples) if not written[number] or parts(triple.object, entities)
        }
        binding = {word for word in value_words - subjects if self._binds(word)}
        indices = sorted(group)

        subjects_of = frozenset(triple.subject for triple in triples)
        passes: dict[tuple[tuple[int, ...], bool, frozenset[str]], bool] = {}

        def judge(fact: Sequence[int], before: Sequence[int]) -> bool:
            if stops and (not fact or fact[-1] not in known.stops):
                return False
            earlier = [word for word in before if word not in (FACT, LAST)]
            begins = not earlier or earlier[-1] in known.stops
            named = subjects_of
            if len(self._subjects) == 1:
                named = frozenset()
            elif len(subjects_of) == 1:
                named = subjects_of - self._understood(tuple(before), fact, begins, preceding)
            if (key := (tuple(fact), begins, named)) not in passes:
                text = self._text(fact)
                faults = checker.check(self.record, text, indices, named, begins).faults
                passes[key] = not faults and text.count("(") == text.count(")") and "()" not in text
            return passes[key] and not (last and checker.unnamed(self.record, self._text([*earlier, *fact])))

        return Constraint(
            frozenset(barred),
            tuple(written),
            frozenset(elastic),
            frozenset(binding),
            judge,
            lambda: self._fallback(group),
            known.full_stop,
            known.stops,
        )

    def _understood(
        self, before: tuple[int, ...], fact: Sequence[int], begins: bool, preceding: frozenset[str]
    ) -> frozenset[str]:
        """The subjects that a fact of one subject need not name.

        "It" refers to the first subject of the last sentence, "which" and "in" to any of its subjects, "and was" to the
        subject of the fact before. After a fact of several subjects, all of these are ambiguous.
        """
        if len(preceding) > 1:
            return frozenset()
        if begins:
            return frozenset(self._salient(before)[:1])
        last_word = self._text([word for word in before if word not in (FACT, LAST)][-1:])
        if last_word in ("and", "but") or _CONTINUES.match(self._text(fact)):
            return preceding
        return frozenset(self._salient(before))

    def _salient(self, before: tuple[int, ...]) -> tuple[str, ...]:
        """The subjects named in the last sentence that names any, in its order.

        Args:
            before: the text so far, with the marks of facts.
        """
        if before not in self._named:
            sentences: list[list[int]] = [[]]
            for word in before:
                if word not in (FACT, LAST):
                    sentences[-1].append(word)
                    sentences += [[]] if word in self.known.stops else []
            texts = (self._text(ids) for ids in reversed(sentences) if ids)
            named = (self.known.checker.named(self.record, text) for text in texts)
            self._named[before] = next((subjects for subjects in named if subjects), ())
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
        tokens = words(self.known.vocabulary.words[word].strip(JOINER))
        lower = self.known.checker.lexicon.lower
        return bool(tokens) and tokens[0].form not in FUNCTION_WORDS and tokens[0].form not in lower

    def _spellings_of(self, index: int) -> tuple[Spelling, ...]:
        if index not in self._spelled:
            self._spelled[index] = self._spellings(self.record.triples[index])
        return self._spelled[index]

    def _spellings(self, triple: Triple) -> tuple[Spelling, ...]:
        """The spellings of the value that can be generated; none for truth values, which have phrases instead."""
        literal = next((item for item in self.known.checker.wordings(triple) if item.how == "literal"), None)
        if literal is None:
            return ()
        texts = [*spellings(triple.object), *self.known.checker.lexicon.variants.get(triple.object, ())]
        if not literal.exact:
            texts += [variant for text in texts for variant in _written_otherwise(text)]
        return tuple(dict.fromkeys(ids for text in dict.fromkeys(texts) if (ids := self._encode(text))))

    def _encode(self, text: str, new: bool = False) -> Spelling | None:
        """The ids of a text's words; None if one is neither in the vocabulary nor an extra (`new`: it becomes one)."""
        vocabulary = self.known.vocabulary
        ids = []
        for token in tokenise(text, normalise=True):
            number = self.known.ids.get(token.text, self._ids.get(token.text))
            if number is None:
                if not new:
                    return None
                number = self._ids[token.text] = len(vocabulary) + len(self.extras)
                self.extras.append(token.text)
            ids.append(number)
        return tuple(ids)

    def _text(self, ids: Sequence[int]) -> str:
        return detokenise(self.known.vocabulary.decode(ids, self.extras))


def _written_otherwise(text: str) -> Iterator[str]:
    """Equivalent spellings for the checker: without article, with other case, numbers without trailing zeros."""
    bare = _ARTICLE.sub("", text)
    number = _FINAL_ZEROS.sub("", text)
    for variant in (text, bare, number, _THOUSANDS.sub(",", number)):
        yield from (variant, variant.lower(), variant[:1].lower() + variant[1:], variant[:1].upper() + variant[1:])


def sentence(checker: Checker, triple: Triple) -> str:
    """The lexicon's sentence for a triple, if it passes the check; else a plain clause.

    The clause of a truth value may say the contrary by its phrases ("The family friendly of Aromi is no."); then one is
    made of a learned phrase ("Aromi is not family friendly.").
    """
    texts = _wordings(checker, triple)
    plain = clause(triple)
    return next((text for text in texts if not checker.check(Record("-", (triple,)), text).faults), plain)


def _wordings(checker: Checker, triple: Triple) -> list[str]:
    """Candidates for the sentence of a triple, best first."""
    template = checker.lexicon.template(triple.predicate)
    learned = [] if template is None or triple.subject == NO_SUBJECT else [fill(template, triple)]
    subject = "It" if triple.subject == NO_SUBJECT else entity_words(triple.subject)
    name, truth = predicate_words(triple.predicate), entity_words(triple.object).lower()
    phrases = checker.lexicon.booleans.get(triple.predicate, {}).get(truth, ())
    named_first = sorted(phrases, key=lambda phrase: name not in phrase)
    return [*learned, clause(triple), *(f"{subject} is {phrase}." for phrase in named_first)]


def sentences(checker: Checker, triples: Sequence[Triple]) -> list[tuple[tuple[int, ...], str]]:
    """The sentences of a group of triples, each with the numbers of its triples.

    One sentence expresses all triples if it passes the check (``The mayor of Ulm is Ann and the area is 119.``);
    otherwise each triple has its own (`sentence`).
    """
    single = [sentence(checker, triple) for triple in triples]
    joined = _joined(single, triples) if len(triples) > 1 else None
    if joined is None or checker.check(Record("-", tuple(triples)), joined).faults:
        return [((number,), text) for number, text in enumerate(single)]
    return [(tuple(range(len(triples))), joined)]


def _joined(texts: Sequence[str], triples: Sequence[Triple]) -> str | None:
    """The sentences joined by "and"; those that follow one of the same subject do not name it again.

    None if one of them begins neither with its subject nor with "The".
    """
    subjects = [entity_words(triple.subject) for triple in triples]
    parts = []
    for number, (text, subject) in enumerate(zip(texts, subjects, strict=True)):
        if not text.startswith((f"{subject} ", "The ")):
            return None
        part = text if text.endswith(entity_words(triples[number].object)) else text.removesuffix(".")
        if number and subject == subjects[number - 1]:
            if texts[number - 1].startswith(f"{subject} "):
                part = part.removeprefix(f"{subject} ")
            part = re.sub(rf"^(The .+?) of {re.escape(subject)} (is|are) ", r"\1 \2 ", part)
        parts.append(re.sub("^The ", "the ", part) if number else part)
    *begin, last = parts
    return f"{', '.join(begin)}{',' if len(begin) > 1 else ''} and {last}{'' if last.endswith('.') else '.'}"


@lru_cache(maxsize=4)
def words_of(vocabulary: Vocabulary, checker: Checker) -> Words:
    """The `Words` of a vocabulary and a checker, cached."""
    return Words(vocabulary, checker)
