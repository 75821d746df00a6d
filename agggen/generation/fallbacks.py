"""Sentences that the model does not write: fallbacks of facts, and sentences of predicates unknown from training.

A triple gets the most frequent training sentence of its predicate, or else a plain clause. The sentences of a group are
joined by "and" if the result passes the check.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agggen.records import NO_SUBJECT, Record, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.check import Checker
from agggen.verification.clauses import ADJECTIVE, PREPOSITIONS, clause, fill, one_full_stop, plural, spoken
from agggen.verification.values import FUNCTION_WORDS

_VALUE_BEFORE_NOUN = re.compile(rf"\b(?:the|an?) \{{object\}} (?!(?:{'|'.join(sorted(FUNCTION_WORDS))})\b)[a-z]")
"""A template in which the value precedes a noun: "from the {object} region"."""
_Statement = tuple[str, Triple]
"""A sentence and its triple."""


def sentence(checker: Checker, triple: Triple) -> str:
    """The first candidate for a triple that passes the check; a plain clause if none does.

    Learned phrases for a truth value are candidates, too ("Aromi is not family friendly."), since the plain clause may
    contain a phrase for the opposite truth value ("The garden of Aromi is no.").
    """
    candidates = candidate_sentences(checker, triple)
    passed = (text for text in candidates if not checker.check(Record("-", (triple,)), text).faults)
    return next(passed, clause(triple, checker.lexicon.articles))


def candidate_sentences(checker: Checker, triple: Triple) -> list[str]:
    """Candidates for `sentence`, best first."""
    template, articles = checker.lexicon.template(triple.predicate, triple.object), checker.lexicon.articles
    learned = []
    if template is not None and triple.subject != NO_SUBJECT and _suits(template, triple.object):
        learned.append(fill(template, triple, articles))
    subject = "It" if triple.subject == NO_SUBJECT else entity_words(triple.subject)
    name, truth = predicate_words(triple.predicate), entity_words(triple.object).lower()
    phrases = checker.lexicon.booleans.get(triple.predicate, {}).get(truth, ())
    named = [f"{subject} is {phrase}." for phrase in phrases if name in phrase]
    others = [f"{subject} is {phrase}." for phrase in phrases if name not in phrase]
    plain = clause(triple, articles)
    return [*learned, *named, plain, *others] if ADJECTIVE.fullmatch(name) else [*learned, plain, *named, *others]


def _suits(template: str, value: str) -> bool:
    """Whether a value may stand in a template: not a phrase such as ``nationwide in Java`` in "the {object} region"."""
    is_phrase = "," in value or {*entity_words(value).split()} & PREPOSITIONS - {"of"}
    return not (is_phrase and _VALUE_BEFORE_NOUN.search(template))


def sentences(checker: Checker, triples: Sequence[Triple]) -> list[tuple[tuple[int, ...], str]]:
    """The sentences of a group of triples, each with the numbers of its triples.

    Sentences that begin with the subject or "The" are joined if the result passes the check (``Ulm has an area of 119
    and the mayor is Ann.``). All other triples have separate sentences, from `sentence`.
    """
    single = [sentence(checker, triple) for triple in triples]
    joinable = [i for i, text in enumerate(single) if text.startswith("The ") or re.match(_name(triples[i]), text)]
    if len(joinable) > 1:
        joined = _joined(_merged(_names_first([(single[i], triples[i]) for i in joinable])))
        if not checker.check(Record("-", tuple(triples[i] for i in joinable)), joined).faults:
            others = [((i,), text) for i, text in enumerate(single) if i not in joinable]
            return sorted([(tuple(joinable), joined), *others])
    return [((number,), text) for number, text in enumerate(single)]


def _names_first(statements: Sequence[_Statement]) -> list[_Statement]:
    """The sentences by subject, in the order of first mention. Per subject, sentences that begin with its name come
    first; among the rest, sentences whose value has a comma come last.
    """
    subjects = [triple.subject for _, triple in statements]

    def rank(statement: _Statement) -> tuple[int, int]:
        text, triple = statement
        position = 0 if re.match(_name(triple), text) else 2 if "," in triple.object else 1
        return subjects.index(triple.subject), position

    return sorted(statements, key=rank)


def _merged(statements: Sequence[_Statement]) -> list[_Statement]:
    """Merges adjacent sentences that differ only in value (``The uses of X are a and b.``); keeps the last triple."""
    merged: list[_Statement] = []
    begin, items = "", list[str]()
    for text, triple in statements:
        value = spoken(triple.object)
        before = text.removesuffix(".").removesuffix(value.removesuffix("."))
        if merged and before == begin and text != before and (several := _for_several(before)):
            items.append(value)
            merged[-1] = one_full_stop(f"{several}{', '.join(items[:-1])} and {items[-1]}."), triple
        else:
            begin, items = before, [value]
            merged.append((text, triple))
    return merged


def _for_several(before: str) -> str:
    """The words of a sentence before its value, in the plural form for several values; "" if no rule applies."""
    noun = re.fullmatch(r"The ([a-z ]*?)([a-z]+)((?: [a-z]+)? by .+| (?:of|in) .+)? (?:is|are|include) (the )?", before)
    if noun and not {*noun[1].split()} & PREPOSITIONS:
        return f"The {noun[1]}{plural(noun[2])}{noun[3] or ''} are {noun[4] or ''}"
    return before if before.rpartition(" ")[0].rpartition(" ")[2] in PREPOSITIONS else ""


def _joined(statements: Sequence[_Statement]) -> str:
    """The sentences joined by "and"; a subject that is the same as in the preceding sentence is not repeated."""
    parts: list[str] = []
    for number, (text, triple) in enumerate(statements):
        begins_with_name = re.match(_name(triple), text)
        part = text if text.endswith(entity_words(triple.object)) else text.removesuffix(".")
        text_before, triple_before = statements[number - 1]
        if number and triple.subject == triple_before.subject:
            if begins_with_name and re.match(_name(triple), text_before):
                part = part[begins_with_name.end() :]
            part = re.sub(rf"^(The .+?) (?:of|by) {_name(triple)}(is|are|include) ", r"\1 \2 ", part)
        parts.append(re.sub("^The ", "the ", part) if number else part)
    *begin, last = parts
    joined = f"{', '.join(begin)}{',' if len(begin) > 1 else ''} and {last}" if begin else last
    return joined if joined.endswith(".") else f"{joined}."


def _name(triple: Triple) -> str:
    """A pattern of the triple's subject in a sentence."""
    return rf"(?:[Tt]he )?{re.escape(entity_words(triple.subject))} "
