"""Sentences that the model does not generate: fallbacks of facts, and sentences for unknown predicates."""

import re
from collections.abc import Sequence

from agggen.records import NO_SUBJECT, Record, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.check import Checker
from agggen.verification.clauses import (
    ADJECTIVE,
    PREPOSITIONS,
    fill_template,
    one_full_stop,
    plain_clause,
    plural,
    value_text,
)
from agggen.verification.values import FUNCTION_WORDS

# Matches a template in which the value precedes a noun: "from the {object} region".
_VALUE_BEFORE_NOUN = re.compile(rf"\b(?:the|an?) \{{object\}} (?!(?:{'|'.join(sorted(FUNCTION_WORDS))})\b)[a-z]")
_ONE_VALUE = re.compile(r"\b(?:has|have|with) an? [a-z ]+ of ")  # no list follows this: "has a height of "
_BEFORE_LISTS = PREPOSITIONS | {"contains", "received", "stars"}  # words after which values can be joined by "and"
# Predicates whose subjects are people, and predicates whose subjects are not
_OF_PERSON = re.compile(
    r".*\b(?:alma mater|birth|born|death|died|military branch|nationality|occupation|residence|spouse)\b.*"
)
_OF_THING = re.compile(
    r"(?:.+ )?(?:area total|assembly|capital|elevation|established|found(?:ation|ed|ing)|has to its|headquarters?|"
    r"is part of|largest|location|manufacturer|operator|population|publisher|stylistic origin)(?! of\b)(?: .+)?"
)
_Statement = tuple[str, Triple]  # a sentence and its triple


def fallback_sentence(checker: Checker, triple: Triple) -> str:
    """The first candidate for a triple that passes the check; a plain clause if none passes."""
    candidates = candidate_sentences(checker, triple)
    passed = (text for text in candidates if not checker.check(Record("-", (triple,)), text).faults)
    return next(passed, plain_clause(triple, checker.lexicon.articles))


def candidate_sentences(checker: Checker, triple: Triple) -> list[str]:
    """Candidates for `fallback_sentence`, best first: training sentence, plain clause, phrases of truth values."""
    template, articles = checker.lexicon.template(triple.predicate, triple.object), checker.lexicon.articles
    from_template = []
    if template is not None and triple.subject != NO_SUBJECT and _fits(template, triple.object):
        from_template.append(fill_template(template, triple, articles))
    subject = "It" if triple.subject == NO_SUBJECT else entity_words(triple.subject)
    name, truth = predicate_words(triple.predicate), entity_words(triple.object).lower()
    phrases = checker.lexicon.booleans.get(triple.predicate, {}).get(truth, ())
    with_name = [f"{subject} is {phrase}." for phrase in phrases if name in phrase]
    without_name = [f"{subject} is {phrase}." for phrase in phrases if name not in phrase]
    plain = [plain_clause(triple, articles)]
    first, second = (with_name, plain) if ADJECTIVE.fullmatch(name) else (plain, with_name)
    return [*from_template, *first, *second, *without_name]


def _fits(template: str, value: str) -> bool:
    """Whether a value fits a template: a phrase such as ``nationwide in Java`` does not fit "the {object} region"."""
    is_phrase = "," in value or {*entity_words(value).split()} & PREPOSITIONS - {"of"}
    return not (is_phrase and _VALUE_BEFORE_NOUN.search(template))


def fallback_sentences(checker: Checker, triples: Sequence[Triple]) -> list[tuple[tuple[int, ...], str]]:
    """The sentences of a group of triples, each with the indices of its triples in `triples`; those that begin with the
    subject or "The" are joined by a relative clause or "and" if the result passes the check.
    """
    all_sentences = [fallback_sentence(checker, triple) for triple in triples]
    joinable = [
        i for i, text in enumerate(all_sentences) if text.startswith("The ") or re.match(_name(triples[i]), text)
    ]
    if len(joinable) > 1:
        statements = _merged(_names_first([(all_sentences[i], triples[i]) for i in joinable]))
        for joined in filter(None, (_with_relative_clause(statements), _joined(statements))):
            if not checker.check(Record("-", tuple(triples[i] for i in joinable)), joined).faults:
                unjoined = [((i,), text) for i, text in enumerate(all_sentences) if i not in joinable]
                return sorted([(tuple(joinable), joined), *unjoined])
    return [((i,), text) for i, text in enumerate(all_sentences)]


def _names_first(statements: Sequence[_Statement]) -> list[_Statement]:
    """Sorts by subject, in the order of first mention, then by place in the sentence: first those that begin
    with the subject's name, then others, those with commas in the value, and those whose value is a subject.
    """
    subjects = [triple.subject for _, triple in statements]

    def rank(statement: _Statement) -> tuple[int, int]:
        text, triple = statement
        position = 0 if re.match(_name(triple), text) else 2 if "," in triple.object else 1
        return subjects.index(triple.subject), 3 if triple.object in subjects else position

    return sorted(statements, key=rank)


def _merged(statements: Sequence[_Statement]) -> list[_Statement]:
    """Merges adjacent sentences that differ only in value (``The uses of X are a and b.``); keeps the last triple."""
    merged: list[_Statement] = []
    previous_start, items = "", list[str]()
    for text, triple in statements:
        value = value_text(triple.object)
        start = text.removesuffix(".").removesuffix(value.removesuffix("."))
        if start.endswith(" the ") and start != text:
            start, value = start.removesuffix("the "), f"the {value}"
        if merged and start == previous_start and text != start and (plural_start := _plural_form(start)):
            items.append(value)
            merged[-1] = one_full_stop(f"{plural_start}{', '.join(items[:-1])} and {items[-1]}."), triple
        else:
            previous_start, items = start, [value]
            merged.append((text, triple))
    return merged


def _plural_form(before: str) -> str:
    """The part of a sentence before its value, with noun and verb in the plural; "" if no rule applies."""
    noun = re.fullmatch(r"The ([a-z ]*?)([a-z]+)((?: [a-z]+)? by .+| (?:of|in) .+)? (?:is|are|include) ", before)
    if noun and not {*noun[1].split()} & PREPOSITIONS:
        return f"The {noun[1]}{plural(noun[2])}{noun[3] or ''} are "
    precedes_list = before.rpartition(" ")[0].rpartition(" ")[2] in _BEFORE_LISTS and not _ONE_VALUE.search(before)
    return before if precedes_list else ""


def _with_relative_clause(statements: Sequence[_Statement]) -> str:
    """Sentences about two subjects as one: ``A is in B, whose language is C.``, ``A is by B, who was born in C.``

    Returns "" if the sentences about the first subject do not end with the second or end with a list, or if "who" or
    "which" is needed but unknown.
    """
    subject = statements[-1][1].subject
    main = [statement for statement in statements if statement[1].subject != subject]
    related = statements[len(main) :]
    name, beginning = entity_words(subject), _joined(main).removesuffix(".") if main else ""
    beginning = f"{beginning}." if name.endswith(".") else beginning
    if len({triple.subject for _, triple in main}) > 1 or not re.search(rf"(?<! and) {re.escape(name)}$", beginning):
        return ""
    predicates = [predicate_words(triple.predicate) for _, triple in related]
    is_person, is_thing = (any(map(pattern.fullmatch, predicates)) for pattern in (_OF_PERSON, _OF_THING))
    pronoun = "who " if is_person else "which " if is_thing else ""
    clauses: list[str] = []
    for text, triple in related:
        clause, has_name = re.subn(rf"^{_name(triple)}", "", _clause(text, triple))
        if has_name and pronoun:
            clauses.append(clause if clauses and not clauses[-1].startswith("whose ") else pronoun + clause)
        elif noun := re.match(rf"The ([^,]+?) of {_name(triple)}(?=(?:is|are|include) )", clause):
            clauses.append(f"whose {noun[1]} {clause[noun.end() :]}")
        else:
            return ""
    return one_full_stop(f"{beginning}, {_enumerated(clauses)}.")


def _joined(statements: Sequence[_Statement]) -> str:
    """The sentences joined by "and"; a subject equal to that of the preceding sentence is not repeated."""
    parts: list[str] = []
    for number, (text, triple) in enumerate(statements):
        begins_with_name = re.match(_name(triple), text)
        part = _clause(text, triple)
        previous_text, previous_triple = statements[number - 1]
        if number and triple.subject == previous_triple.subject:
            if begins_with_name and re.match(_name(triple), previous_text):
                part = part[begins_with_name.end() :]
            part = re.sub(rf"^(The .+?) (?:of|by) {_name(triple)}(is|are|include) ", r"\1 \2 ", part)
        parts.append(re.sub("^The ", "the ", part) if number else part)
    return one_full_stop(f"{_enumerated(parts)}.")


def _clause(sentence: str, triple: Triple) -> str:
    """The sentence without its full stop, unless that belongs to the triple's value."""
    return sentence if sentence.endswith(entity_words(triple.object)) else sentence.removesuffix(".")


def _enumerated(parts: Sequence[str]) -> str:
    *initial, last = parts
    return f"{', '.join(initial)}{',' if len(initial) > 1 else ''} and {last}" if initial else last


def _name(triple: Triple) -> str:
    """A regular expression for the triple's subject in a sentence."""
    return rf"(?:[Tt]he )?{re.escape(entity_words(triple.subject))} "
