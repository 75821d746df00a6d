"""Learns templates, sentences for one triple of a predicate, from texts and their records."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from agggen.records import Record, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.check import Checker
from agggen.verification.lexicon import Lexicon, is_restricted, phrase_key
from agggen.verification.normal import words
from agggen.verification.values import FUNCTION_WORDS

_MIN_TEXTS = 3  # minimum number of occurrences of a template in longer texts, and of texts with a name and its article
_NOUN_PHRASE_CONTINUES = re.compile(rf"\w|[ -](?!(?:{'|'.join(sorted(FUNCTION_WORDS))})\b)\w")
_PREPOSITION = "(?:of|in|for|to|from|at|on|by)"
_SUBJECT_IS_X_OF_OBJECT = re.compile(
    rf"(?:The )?\{{subject\}} (?:is|was|are|were) (?:an?|the) (.+?) {_PREPOSITION} (?:the )?\{{object\}}"
)
# Signs of a bad template: a beginning as in "Ulm mayor is Ann", or symbols that may belong to a single value
_DOUBTFUL = re.compile(r"^(?:The )?\{subject\} (?:[a-z]+ ){1,3}(?:is|are|was|were)\b|[\"~]")
# Stems of words of a predicate that its template need not have: "Ulm was founded in 850" for ``foundingDate``
_GENERAL = frozenset(("coun", "date", "feet", "numb", "size", "tota"))
_PLURAL_VERB = re.compile(r"\{subject\} (?:are|have|do|were|belong)\b")
_PREPOSITION_LAST = re.compile(rf"\b{_PREPOSITION}$")


def learn_templates(
    records: Sequence[Record], lexicon: Lexicon, frequent_values: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """The lexicon's ``templates``: by predicate, the most frequent template in texts of single triples or, if this one
    is rare, in these texts and in sentences of longer texts that express one triple. `frequent_values` are those of the
    records, with their predicates.
    """
    counts = _delexicalised(_single_triples(records), lexicon, frequent_values)
    learned = {predicate for predicate, templates in counts.items() if max(templates.values()) >= _MIN_TEXTS}
    sentences = _sentences_of_one_triple(records, lexicon, learned | lexicon.booleans.keys())
    for predicate, templates in _delexicalised(sentences, lexicon, frequent_values).items():
        templates += counts.get(predicate, Counter())
        if frequent_templates := Counter({template: n for template, n in templates.items() if n >= _MIN_TEXTS}):
            counts[predicate] = frequent_templates
    return {predicate: _best(predicate, templates) for predicate, templates in counts.items()}


def _best(predicate: str, templates: Counter[str]) -> str:
    """The most frequent template; of several, one that is not `_DOUBTFUL`, has most stems of `predicate`, is short."""
    predicate_stems = _stems(predicate_words(predicate)) - _GENERAL

    def cost(template: str) -> tuple[int, bool, int, int, str]:
        n_missing = len(predicate_stems - _stems(_without_placeholders(template)))
        return -templates[template], _DOUBTFUL.search(template) is not None, n_missing, len(template), template

    return min(templates, key=cost)


def _single_triples(records: Iterable[Record]) -> Iterator[tuple[Triple, str]]:
    for record in records:
        if len(record.triples) == 1:
            yield from ((record.triples[0], reference.text) for reference in record.references)


def _sentences_of_one_triple(
    records: Iterable[Record], lexicon: Lexicon, excluded: Collection[str]
) -> Iterator[tuple[Triple, str]]:
    """Yields (triple, sentence) for faultless sentences that express only one triple, without `excluded` predicates."""
    checker = Checker(lexicon)
    for record in records:
        candidates = [i for i, triple in enumerate(record.triples) if triple.predicate not in excluded]
        for text in (reference.text for reference in record.references if candidates):
            starts = [word.start for word in words(text) if word.initial]
            for sentence in (text[start:end].strip() for start, end in pairwise((*starts, len(text)))):
                expressed = [i for i in candidates if _template(record.triples[i], sentence)]
                other_indices = [i for i in range(len(record.triples)) if i not in expressed]
                if len(expressed) != 1 or checker.check(record, sentence, expressed).faults:
                    continue
                if not any(value.whole for value in checker.values(record, sentence, other_indices)):
                    yield record.triples[expressed[0]], sentence


def _template(triple: Triple, text: str) -> str | None:
    """The text with placeholders for subject and object; None unless each occurs exactly once."""
    subject, value = entity_words(triple.subject), entity_words(triple.object)
    occur_once = all(text.count(name) == 1 and not _is_inside_word(name, text) for name in (subject, value))
    if not occur_once or subject in value or value in subject or any(char in text for char in "{}"):
        return None
    return text.replace(subject, "{subject}").replace(value, "{object}").strip()


def _is_inside_word(name: str, text: str) -> bool:
    before, _, after = text.partition(name)
    return before[-1:].isalnum() or after[:1].isalnum()


def _delexicalised(
    texts: Iterable[tuple[Triple, str]], lexicon: Lexicon, frequent_values: Mapping[str, Collection[str]]
) -> dict[str, Counter[str]]:
    """By predicate: the counts of the templates of (triple, text) pairs, without texts with another name or value."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for triple, text in texts:
        template = _template(triple, text)
        if template is None or not template.endswith("."):
            continue
        predicate_forms = {word.form for word in words(predicate_words(triple.predicate))}
        other_names = (
            word
            for word in words(_without_placeholders(template))
            if word.form not in predicate_forms
            and (
                is_restricted(word, lexicon.value_words, lexicon.lower)
                or triple.predicate not in frequent_values.get(word.form, (triple.predicate,))
            )
        )
        if not any(other_names):
            counts[triple.predicate][template] += 1
    return counts


def _without_placeholders(template: str) -> str:
    return template.replace("{subject}", "").replace("{object}", "")


def learn_phrases(records: Iterable[Record]) -> dict[str, str]:
    """The lexicon's ``phrases``: templates by `phrase_key`, from a corpus's texts of a single triple.

    A template must occur in at least two texts, or have all words of the predicate and at most one other content word.
    Templates that clearly swap subject and object are excluded: "{subject} is a region of {object}" for ``region``,
    "{object} was written by {subject}" for ``written by``.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for predicate, templates in _delexicalised(_single_triples(records), Lexicon(), {}).items():
        name = predicate_words(predicate)
        for text, count in templates.items():
            if _PREPOSITION_LAST.search(name):
                swapped = text.index("{object}") < text.index("{subject}")
            else:
                statement = _SUBJECT_IS_X_OF_OBJECT.match(text)
                swapped = statement is not None and bool(_stems(name) & _stems(statement[1]))
            if not swapped and "}' " not in text and not _PLURAL_VERB.match(text):
                counts[phrase_key(predicate)][text] += count
    phrases = {}
    for key, templates in counts.items():
        costs = {}
        for text, count in templates.items():
            stems = _stems(_without_placeholders(text))
            n_additional = len(stems - _stems(key))
            if count > 1 or (stems >= _stems(key) and n_additional <= 1):
                costs[text] = (-count if count > 1 else 0, n_additional + text.lower().count("the {"), len(text), text)
        if costs:
            phrases[key] = min(costs, key=costs.__getitem__)
    return phrases


def _stems(text: str) -> set[str]:
    """The first four letters of each content word."""
    return {word.form[:4] for word in words(text) if word.form not in FUNCTION_WORDS and word.kind == "word"}


def learn_articles(records: Iterable[Record]) -> dict[str, float]:
    """The lexicon's ``articles``: by name, the share of texts with "the" before it, for names in `_MIN_TEXTS` texts
    other than those in which the noun phrase continues after the name ("the Derbyshire countryside").
    """
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for record in records:
        entities = chain.from_iterable((triple.subject, triple.object) for triple in record.triples)
        for name in dict.fromkeys(map(entity_words, entities)):
            if not name[:1].isupper() or name.startswith("The "):
                continue
            for reference in record.references:
                before, mention, after = reference.text.partition(name)
                if mention and not before[-1:].isalnum() and not _NOUN_PHRASE_CONTINUES.match(after):
                    counts[name][before[-4:].lower() == "the "] += 1
    frequent_names = {name: count for name, count in counts.items() if count.total() >= _MIN_TEXTS}
    return {name: round(count[True] / count.total(), 2) for name, count in frequent_names.items()}
