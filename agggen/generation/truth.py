"""Constraints on facts by which texts pass the strict check.

A fact expresses all values of its triples in full; its numbers, names and value words are licensed by these triples;
and it can only end if the strict check finds no fault. If no hypothesis passes, the fact becomes its fallback: for each
triple the most frequent training sentence of its predicate, else a plain clause; joined by "and" if the result passes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from agggen.generation.constraints import Constraint, Spelling
from agggen.generation.grammar import Grammar, follows
from agggen.generation.hypotheses import PlanPrefix
from agggen.model.batch import FACT, LAST
from agggen.records import NO_SUBJECT, Record, Triple
from agggen.text import detokenise
from agggen.text.linearise import entity_words, predicate_words
from agggen.text.tokenise import JOINER, tokenise
from agggen.text.vocabulary import SPECIALS, Vocabulary
from agggen.verification.check import Checker, passes
from agggen.verification.clauses import PREPOSITIONS, clause, fill, one_full_stop, plural, spoken
from agggen.verification.lexicon import suspicious
from agggen.verification.normal import words
from agggen.verification.record_words import derived, names
from agggen.verification.values import FUNCTION_WORDS, parts, spellings

_SENTENCE_ENDS = frozenset(".!?")
_CONTINUES = re.compile(r"\W*(?:and|but|is|are|was|were|has|had)\b", re.IGNORECASE)
"""The beginning of a fact with the same grammatical subject as the preceding fact."""
_PRONOUN = re.compile(
    r"(?:It|Its|He|His|She|Her|They|Their)\b|(?-i:[Tt]he [a-z]+(?: [a-z]+)? (?:is|was|has|had)\b)", re.IGNORECASE
)
"""The beginning of a sentence that does not name its subject: "It was", "The book was"."""
_ARTICLE = re.compile(r"^(?:the|an?) ", re.IGNORECASE)
_FINAL_ZEROS = re.compile(r"(?<=\d)\.0+(?!\d)")
_THOUSANDS = re.compile(r"(?<=\d)(?=(?:\d{3})+(?![\d.]))")


class WatchedWords:
    """The words of a vocabulary that are `suspicious` under a lexicon; `normal_forms` contains their forms by id."""

    def __init__(self, vocabulary: Vocabulary, checker: Checker) -> None:
        self.vocabulary, self.checker = vocabulary, checker
        self.ids = {word: number for number, word in enumerate(vocabulary.words)}
        self.normal_forms = {
            number: forms
            for number, word in enumerate(vocabulary.words[len(SPECIALS) :], start=len(SPECIALS))
            if (forms := self.forms(word))
        }
        self._by_form: dict[str, list[int]] = defaultdict(list)
        self._by_start: dict[str, set[str]] = defaultdict(set)
        for number, forms in self.normal_forms.items():
            for form in forms:
                self._by_form[form].append(number)
                self._by_start[form[:4]].add(form)
        self.sentence_ends = frozenset(self.ids[word] for word in self.ids if word.strip(JOINER) in _SENTENCE_ENDS)
        self.full_stop = self.ids.get(f"{JOINER}.")

    def barred(self, allowed: Iterable[str]) -> set[int]:
        """Ids of the watched words with a form that is neither in `allowed` nor derived from an allowed form."""
        forms = {form for base in allowed for form in self._by_start[base[:4]] if form == base or derived(form, base)}
        licensed = {
            number for form in forms for number in self._by_form[form] if forms.issuperset(self.normal_forms[number])
        }
        return self.normal_forms.keys() - licensed

    def forms(self, token: str) -> tuple[str, ...]:
        """The normal forms of a token that must be licensed by a triple."""
        lexicon = self.checker.lexicon
        return tuple(
            word.form
            for word in words(token.strip(JOINER))
            if suspicious(word, lexicon.value_words, lexicon.lower) and not (word.initial and not lexicon.lower)
        )


class RecordConstraints:
    """The constraints of one record's facts; called with the plan prefix that ends with a fact.

    Args:
        watched: the watched words of the model's vocabulary.
        record: the record of the text.
        extras: the record's out-of-vocabulary words; those of the fallbacks are appended.
        sentence_ends: numbers of facts, from 1, after which a sentence must end.
    """

    def __init__(
        self, watched: WatchedWords, record: Record, extras: list[str], sentence_ends: frozenset[int] = frozenset()
    ) -> None:
        self.watched, self.record, self.extras, self.sentence_ends = watched, record, extras, sentence_ends
        self._ids = {word: len(watched.vocabulary) + number for number, word in enumerate(extras)}
        fallbacks = chain.from_iterable(_candidate_sentences(watched.checker, triple) for triple in record.triples)
        for text in ("The, the and", *fallbacks):
            self._encode(text, new=True)
        self._fallbacks: dict[frozenset[int], Spelling] = {}
        self._subjects = frozenset(triple.subject for triple in record.triples)
        self._last_named: dict[tuple[int, ...], tuple[str, ...]] = {}
        self._spellings_of_triples: dict[int, tuple[Spelling, ...]] = {}
        self._constraints: dict[tuple[frozenset[int], frozenset[str], bool, bool], Constraint] = {}

    def __call__(self, prefix: PlanPrefix) -> Constraint:
        ends_sentence = prefix.last or len(prefix.groups) in self.sentence_ends
        subjects = frozenset(self.record.triples[index].subject for group in prefix.groups[-2:-1] for index in group)
        key = prefix.groups[-1], subjects if len(self._subjects) > 1 else frozenset(), prefix.last, ends_sentence
        if key not in self._constraints:
            self._constraints[key] = self._constraint(*key)
        return self._constraints[key]

    def fell_back(self, group: Iterable[int], words: Spelling) -> bool:
        """Whether a fact's words end with the fallback that the search used for its group."""
        fallback = self._fallbacks.get(frozenset(group))
        return fallback is not None and words[-len(fallback) :] == fallback

    def _fallback(self, group: frozenset[int]) -> Spelling:
        """The word ids of the `sentences` of a group of triples."""
        if group not in self._fallbacks:
            checker, triples = self.watched.checker, [self.record.triples[index] for index in sorted(group)]
            encoded = [self._encode(text) for _, text in sentences(checker, triples)]
            if None in encoded:  # the joined sentence has a word that is neither in the vocabulary nor an extra
                encoded = [self._encode(sentence(checker, triple)) for triple in triples]
            self._fallbacks[group] = tuple(word for spelling in encoded for word in spelling or ())
        return self._fallbacks[group]

    def _constraint(
        self, group: frozenset[int], previous_subjects: frozenset[str], last: bool, ends_sentence: bool
    ) -> Constraint:
        """The constraint on a fact that expresses `group`.

        Args:
            previous_subjects: the subjects of the fact before; empty if the record has only one.
            last: whether the fact is the last of its plan.
            ends_sentence: whether a sentence must end with the fact.
        """
        watched, checker = self.watched, self.watched.checker
        triples = [self.record.triples[index] for index in sorted(group)]
        allowed = checker.allowed(triples)
        barred = watched.barred(allowed) | {
            number
            for number, forms in self._watched_extras()
            if not all(form in allowed or any(derived(form, base) for base in allowed) for form in forms)
        }
        value_spellings = [self._spellings_of(index) for index in sorted(group)]
        subjects = {word for triple in triples for word in self._encode(entity_words(triple.subject)) or ()}
        value_words = {word for value in value_spellings for spelling in value for word in spelling}
        barred -= subjects | value_words
        entities = names(self.record)
        elastic = {
            number
            for number, triple in enumerate(triples)
            if not value_spellings[number] or parts(triple.object, entities)
        }
        value_only = {word for word in value_words - subjects if self._only_in_values(word)}
        indices = sorted(group)

        fact_subjects = frozenset(triple.subject for triple in triples)
        grammar = Grammar(triples, checker.lexicon)
        passed: dict[tuple[tuple[int, ...], bool, frozenset[str]], bool] = {}

        def judge(fact: Sequence[int], before: Sequence[int]) -> bool:
            if ends_sentence and (not fact or fact[-1] not in watched.sentence_ends):
                return False
            earlier = [word for word in before if word not in (FACT, LAST)]
            begins_sentence = not earlier or earlier[-1] in watched.sentence_ends
            required = fact_subjects
            if len(self._subjects) == 1:
                required = frozenset()
            elif len(fact_subjects) == 1:
                implied = self._implied_subjects(tuple(before), fact, begins_sentence, previous_subjects)
                required = fact_subjects - implied
            if (key := (tuple(fact), begins_sentence, required)) not in passed:
                text = self._text(fact)
                findings = checker.findings(self.record, text, indices, required, begins_sentence)
                passed[key] = passes(findings) and grammar.accepts(text)
            if not passed[key]:
                return False
            text_before, text = self._text(earlier), self._text(fact)
            return (
                follows(text_before, text, begins_sentence, entities)
                and grammar.has_verbs(text_before, text)
                and not (last and checker.unnamed(self.record, self._text([*earlier, *fact])))
            )

        return Constraint(
            frozenset(barred),
            tuple(value_spellings),
            frozenset(elastic),
            frozenset(value_only),
            judge,
            lambda: self._fallback(group),
            watched.full_stop,
            watched.sentence_ends,
        )

    def _implied_subjects(
        self, before: tuple[int, ...], fact: Sequence[int], begins_sentence: bool, previous_subjects: frozenset[str]
    ) -> frozenset[str]:
        """The subjects that a fact with one subject need not name, because its first words refer to them.

        "It" refers to the first subject of the last sentence, "which" and "in" to any subject of that sentence, "and
        was" to the subject of the preceding fact. After a fact with several subjects, every reference is ambiguous.
        """
        if len(previous_subjects) > 1:
            return frozenset()
        if begins_sentence:
            return frozenset(self._last_subjects(before)[:1])
        last_word = self._text([word for word in before if word not in (FACT, LAST)][-1:])
        if last_word in ("and", "but") or _CONTINUES.match(self._text(fact)):
            return previous_subjects
        return frozenset(self._last_subjects(before))

    def _last_subjects(self, before: tuple[int, ...]) -> tuple[str, ...]:
        """The subjects of the last sentence that names one, in order of mention; the referent of its pronoun is first.

        Args:
            before: the text so far, with the marks of facts.
        """
        if before not in self._last_named:
            sentences: list[list[int]] = [[]]
            for word in before:
                if word not in (FACT, LAST):
                    sentences[-1].append(word)
                    sentences += [[]] if word in self.watched.sentence_ends else []
            self._last_named[before] = self._subjects_of_last([self._text(ids) for ids in sentences if ids])
        return self._last_named[before]

    def _subjects_of_last(self, sentences: Sequence[str]) -> tuple[str, ...]:
        """`_last_subjects` of a text's sentences."""
        if not sentences:
            return ()
        *earlier, last = sentences
        named = self.watched.checker.named(self.record, last)
        if _PRONOUN.match(last):
            return tuple(dict.fromkeys((*self._subjects_of_last(earlier)[:1], *named)))
        return named or self._subjects_of_last(earlier)

    def _watched_extras(self) -> Iterable[tuple[int, tuple[str, ...]]]:
        """The ids and normal forms of the watched words among the extras."""
        start = len(self.watched.vocabulary)
        for number, word in enumerate(self.extras):
            if forms := self.watched.forms(word):
                yield start + number, forms

    def _only_in_values(self, word: int) -> bool:
        """Whether a word of a value is an extra, a watched word, or neither a function word nor an ordinary word."""
        start = len(self.watched.vocabulary)
        if word >= start or word in self.watched.normal_forms:
            return True
        tokens = words(self.watched.vocabulary.words[word].strip(JOINER))
        lower = self.watched.checker.lexicon.lower
        return bool(tokens) and tokens[0].form not in FUNCTION_WORDS and tokens[0].form not in lower

    def _spellings_of(self, index: int) -> tuple[Spelling, ...]:
        if index not in self._spellings_of_triples:
            self._spellings_of_triples[index] = self._spellings(self.record.triples[index])
        return self._spellings_of_triples[index]

    def _spellings(self, triple: Triple) -> tuple[Spelling, ...]:
        """The spellings of the object that can be generated; none for truth values, which have phrases instead."""
        literal = next((item for item in self.watched.checker.wordings(triple) if item.how == "literal"), None)
        if literal is None:
            return ()
        texts = [*spellings(triple.object), *self.watched.checker.lexicon.variants.get(triple.object, ())]
        if not literal.exact:
            texts += [variant for text in texts for variant in _spelling_variants(text)]
        return tuple(dict.fromkeys(ids for text in dict.fromkeys(texts) if (ids := self._encode(text))))

    def _encode(self, text: str, new: bool = False) -> Spelling | None:
        """The ids of a text's words; None if a word is neither in the vocabulary nor an extra (`new`: add it)."""
        vocabulary = self.watched.vocabulary
        ids = []
        for token in tokenise(text, normalise=True):
            word = self.watched.ids.get(token.text, self._ids.get(token.text))
            if word is None:
                if not new:
                    return None
                word = self._ids[token.text] = len(vocabulary) + len(self.extras)
                self.extras.append(token.text)
            ids.append(word)
        return tuple(ids)

    def _text(self, ids: Sequence[int]) -> str:
        return detokenise(self.watched.vocabulary.decode(ids, self.extras))


def _spelling_variants(text: str) -> Iterator[str]:
    """Further accepted spellings: without article or trailing zeros, with thousands separators, or other capitals."""
    number = _FINAL_ZEROS.sub("", text)
    for variant in (text, _ARTICLE.sub("", text), number, _THOUSANDS.sub(",", number)):
        yield from (variant, variant.lower(), variant[:1].lower() + variant[1:], variant[:1].upper() + variant[1:])


def sentence(checker: Checker, triple: Triple) -> str:
    """The first candidate for a triple that passes the check; a plain clause if none does.

    The plain clause of a truth value may contain a phrase for the opposite value ("The family friendly of Aromi is
    no."), so a clause with a learned phrase ("Aromi is not family friendly.") is a candidate, too.
    """
    candidates = _candidate_sentences(checker, triple)
    passed = (text for text in candidates if not checker.check(Record("-", (triple,)), text).faults)
    return next(passed, clause(triple, checker.lexicon.articles))


def _candidate_sentences(checker: Checker, triple: Triple) -> list[str]:
    """Candidates for `sentence`, best first."""
    template, articles = checker.lexicon.template(triple.predicate), checker.lexicon.articles
    learned = [] if template is None or triple.subject == NO_SUBJECT else [fill(template, triple, articles)]
    subject = "It" if triple.subject == NO_SUBJECT else entity_words(triple.subject)
    name, truth = predicate_words(triple.predicate), entity_words(triple.object).lower()
    phrases = checker.lexicon.booleans.get(triple.predicate, {}).get(truth, ())
    named_first = sorted(phrases, key=lambda phrase: name not in phrase)
    return [*learned, clause(triple, articles), *(f"{subject} is {phrase}." for phrase in named_first)]


def sentences(checker: Checker, triples: Sequence[Triple]) -> list[tuple[tuple[int, ...], str]]:
    """The sentences of a group of triples, each with the numbers of its triples.

    One sentence expresses all triples if it passes the check (``The mayor of Ulm is Ann and the area is 119.``);
    otherwise each triple has its own sentence (`sentence`).
    """
    single = [sentence(checker, triple) for triple in triples]
    joined = _joined(*_merged(single, triples)) if len(triples) > 1 else None
    if joined is None or checker.check(Record("-", tuple(triples)), joined).faults:
        return [((number,), text) for number, text in enumerate(single)]
    return [(tuple(range(len(triples))), joined)]


def _merged(texts: Sequence[str], triples: Sequence[Triple]) -> tuple[list[str], list[Triple]]:
    """The sentences, each with its triple; those that differ in the value alone are one: ``The uses of X are a and b.``

    That sentence has the last of its triples.
    """
    merged: list[str] = []
    merged_triples: list[Triple] = []
    begin, items = "", list[str]()
    for text, triple in zip(texts, triples, strict=True):
        value = spoken(triple.object)
        before = text.removesuffix(".").removesuffix(value.removesuffix("."))
        if merged and before == begin and text != before and (several := _for_several(before)):
            items.append(value)
            merged[-1] = one_full_stop(f"{several}{', '.join(items[:-1])} and {items[-1]}.")
            merged_triples[-1] = triple
        else:
            begin, items = before, [value]
            merged.append(text)
            merged_triples.append(triple)
    return merged, merged_triples


def _for_several(before: str) -> str:
    """The words of a sentence before its value, for several values; "" if its grammar is unknown."""
    noun = re.fullmatch(r"The ([a-z ]*?)([a-z]+)((?: [a-z]+)? by .+| (?:of|in) .+)? (?:is|are|include) (the )?", before)
    if noun and not {*noun[1].split()} & PREPOSITIONS:
        return f"The {noun[1]}{plural(noun[2])}{noun[3] or ''} are {noun[4] or ''}"
    return before if before.rpartition(" ")[0].rpartition(" ")[2] in PREPOSITIONS else ""


def _joined(texts: Sequence[str], triples: Sequence[Triple]) -> str | None:
    """The sentences joined by "and"; a subject that is the same as in the preceding sentence is not repeated.

    None if a sentence begins neither with its subject nor with "The".
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
            part = re.sub(rf"^(The .+?) (?:of|by) {re.escape(subject)} (is|are|include) ", r"\1 \2 ", part)
        parts.append(re.sub("^The ", "the ", part) if number else part)
    *begin, last = parts
    joined = f"{', '.join(begin)}{',' if len(begin) > 1 else ''} and {last}" if begin else last
    return joined if joined.endswith(".") else f"{joined}."


@lru_cache(maxsize=4)
def watched_words(vocabulary: Vocabulary, checker: Checker) -> WatchedWords:
    """The `WatchedWords` of a vocabulary and a checker, cached."""
    return WatchedWords(vocabulary, checker)
