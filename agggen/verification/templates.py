"""Learns wordings: variants of values, phrases for truth values, and templates, sentences for one triple."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from agggen.records import Record, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.check import Checker
from agggen.verification.lexicon import PRONOUNS, Lexicon, is_restricted, phrase_key
from agggen.verification.normal import words
from agggen.verification.values import FUNCTION_WORDS, MatchedText, is_negated

_Value = tuple[str, str]  # a predicate and a value
_Gram = tuple[str, ...]  # the normal forms of adjacent words

_MIN_TEXTS = 3  # minimum number of texts with a wording, or with a name and its article, and of uses of a template
_MAX_WORDS = 4  # maximum number of words of a learned wording
_MIN_TEXTS_WITHOUT_STEM = 5  # in place of `_MIN_TEXTS` for a wording that shares no stem with its value
_MIN_PRECISION = 0.8  # minimum fraction of the texts with a wording and the predicate that have the value
_MIN_UNMATCHED_RATIO = 3  # minimum ratio of a wording's rates in texts without and with a rule match of its value
_MIN_PREDICATE_RATIO = 2  # minimum ratio of a wording's rate in texts with the predicate to the rate in other texts
_MIN_BOOLEAN_PRECISION = 0.95  # minimum fraction of the texts with a phrase that have the truth value
_MIN_LONGER_SHARE = 0.9  # a wording is dropped if at least this fraction of its texts contain the same longer wording
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


def learn_variants(texts: Sequence[MatchedText], booleans: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``variants``: by value, its wordings other than those by rule.

    They are frequent in texts of the value that do not match it by rule, but rare in texts that match it, have another
    value of the predicate, or lack the predicate. Parts of other values of the predicate are excluded.
    """
    unmatched: dict[_Value, Counter[_Gram]] = defaultdict(Counter)
    subjects: dict[tuple[_Value, _Gram], set[str]] = defaultdict(set)
    texts_with_match, texts_without = Counter[_Value](), Counter[_Value]()
    values_of: dict[str, set[_Gram]] = defaultdict(set)
    grams_of_texts = [{gram for _, gram in _possible_wordings(text)} for text in texts]
    for text, grams in zip(texts, grams_of_texts, strict=True):
        for triple, spans in text.matches():
            if triple.predicate in booleans:
                continue
            value = (triple.predicate, triple.object)
            values_of[triple.predicate] |= _parts(tuple(word.form for word in words(entity_words(triple.object))))
            if spans:
                texts_with_match[value] += 1
            else:
                texts_without[value] += 1
                unmatched[value].update(grams)
                for gram in grams:
                    subjects[value, gram].add(triple.subject)
    candidates: dict[_Gram, list[_Value]] = defaultdict(list)
    for value, counts in unmatched.items():
        for gram, count in counts.items():
            shares_stem = _share_stem(gram, value[1])
            is_frequent = count >= max(_MIN_TEXTS, (0.05 if shares_stem else 0.15) * texts_without[value])
            is_other_value = gram in values_of[value[0]] and not shares_stem
            if is_frequent and len(subjects[value, gram]) >= 2 and _may_replace(gram, value[1]) and not is_other_value:
                candidates[gram].append(value)
    surfaces: dict[_Gram, Counter[str]] = defaultdict(Counter)
    matched, with_other_value, without_predicate = (Counter[tuple[_Value, _Gram]]() for _ in range(3))
    texts_of_predicate = Counter[str]()
    for text, grams in zip(texts, grams_of_texts, strict=True):
        values = {(triple.predicate, triple.object): bool(spans) for triple, spans in text.matches()}
        predicates, objects = {predicate for predicate, _ in values}, {object_ for _, object_ in values}
        texts_of_predicate.update(predicates)
        for gram in grams & candidates.keys():
            surfaces[gram][_surface(text, gram)] += 1
            for value in candidates[gram]:
                if value in values:
                    matched[value, gram] += values[value]
                elif value[0] in predicates:
                    with_other_value[value, gram] += 1
                elif value[1] not in objects:
                    without_predicate[value, gram] += 1
    accepted: dict[str, Counter[_Gram]] = defaultdict(Counter)
    for gram, candidate_values in candidates.items():
        for value in candidate_values:
            count = unmatched[value][gram]
            is_precise = count >= _MIN_PRECISION * (count + with_other_value[value, gram])
            share = count / texts_without[value]
            share_matched = matched[value, gram] / max(1, texts_with_match[value])
            is_frequent = _share_stem(gram, value[1]) or count >= _MIN_TEXTS_WITHOUT_STEM
            n_with = texts_of_predicate[value[0]]
            share_with = (count + matched[value, gram] + with_other_value[value, gram]) / n_with
            share_without = without_predicate[value, gram] / max(1, len(texts) - n_with)
            is_specific = share_with >= _MIN_PREDICATE_RATIO * share_without
            is_contrastive = share >= _MIN_UNMATCHED_RATIO * share_matched
            if is_precise and is_specific and is_contrastive and is_frequent:
                accepted[value[1]][gram] += count
    return {
        value: tuple(surfaces[gram].most_common(1)[0][0] for gram in _minimal_wordings(counts))
        for value, counts in sorted(accepted.items())
    }


def _possible_wordings(text: MatchedText) -> Iterator[tuple[int, _Gram]]:
    """Yields (start index, word sequence) for sequences of uncovered words without a function word at either end."""
    tokens, covered = text.words, text.covered
    for start, first in enumerate(tokens):
        if covered[start] or first.form in FUNCTION_WORDS or first.optional:
            continue
        for end in range(start + 1, min(len(tokens), start + _MAX_WORDS) + 1):
            last = tokens[end - 1]
            if covered[end - 1]:
                break
            if last.form not in FUNCTION_WORDS and not last.optional and last.kind != "number":
                yield start, tuple(word.form for word in tokens[start:end])


def _surface(text: MatchedText, gram: _Gram) -> str:
    """The first words of a text that have the normal forms `gram`."""
    grams = (text.words[start : start + len(gram)] for start in range(len(text.words)))
    first = next(tokens for tokens in grams if tuple(word.form for word in tokens) == gram)
    return text.indexed.text[first[0].start : first[-1].end]


def _share_stem(gram: _Gram, value: str) -> bool:
    """Whether a wording and a value share a stem of four letters: ``italian`` and ``Italy``."""
    value_stems = {word.form[:4] for word in words(entity_words(value)) if len(word.form) > 3}
    return any(form[:4] in value_stems for form in gram)


def _may_replace(gram: _Gram, value: str) -> bool:
    """Whether a wording contains all words of a value, none of them, or exactly the words before its comma."""
    value_forms = {word.form for word in words(entity_words(value)) if word.form not in FUNCTION_WORDS}
    before_comma = tuple(word.form for word in words(entity_words(value).split(",")[0]))
    return value_forms <= set(gram) or not value_forms & set(gram) or gram == before_comma


def _minimal_wordings(counts: Mapping[_Gram, int], max_words: int = _MAX_WORDS) -> tuple[_Gram, ...]:
    """The wordings, most frequent first, that neither contain a more frequent one nor are mostly part of another."""
    longer: dict[_Gram, list[int]] = defaultdict(lambda: [0, 0])  # counts with one more word before, or after
    for gram, count in counts.items():
        longer[gram[1:]][0] += count
        longer[gram[:-1]][1] += count
    minimal: list[_Gram] = []
    for gram in sorted(counts, key=lambda gram: (-counts[gram], gram)):
        is_part = gram in longer and max(longer[gram]) >= _MIN_LONGER_SHARE * counts[gram]
        if len(gram) <= max_words and not is_part and _parts(gram).isdisjoint(minimal):
            minimal.append(gram)
    return tuple(minimal)


def _parts(forms: _Gram) -> set[_Gram]:
    """All sequences of adjacent words in `forms`."""
    return {forms[start:end] for start in range(len(forms)) for end in range(start + 1, len(forms) + 1)}


def learn_booleans(texts: Sequence[MatchedText], predicates: frozenset[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """The lexicon's ``booleans``: phrases of at most three words, and ``not`` if they follow a negation."""
    if not predicates:
        return {}
    counts: dict[_Value, Counter[tuple[bool, _Gram]]] = defaultdict(Counter)
    totals, text_counts = Counter[tuple[bool, _Gram]](), Counter[_Value]()
    for text in texts:
        grams = {(is_negated(text.words, start), gram) for start, gram in _possible_wordings(text)}
        totals.update(grams)
        for triple in text.record.triples:
            if triple.predicate in predicates:
                value = triple.predicate, entity_words(triple.object).lower()
                counts[value].update(grams)
                text_counts[value] += 1
    phrases: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for value, gram_counts in counts.items():
        min_texts = max(_MIN_TEXTS, 0.003 * text_counts[value])
        phrases[value[0]][value[1]] = tuple(
            "not " * negation + " ".join(gram)
            for negation in (False, True)
            for gram in _minimal_wordings(
                {
                    gram: count
                    for (negated, gram), count in gram_counts.items()
                    if negated == negation and count >= max(min_texts, _MIN_BOOLEAN_PRECISION * totals[negated, gram])
                },
                max_words=3,
            )
        )
    return dict(phrases)


def learn_templates(
    records: Sequence[Record], lexicon: Lexicon, frequent_values: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """The lexicon's ``templates``: by predicate, the most frequent template in texts of single triples or, if this one
    is rare, in these texts and in sentences that express one triple. `frequent_values` have their predicates.
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
    """The text with placeholders for subject and object; None unless each occurs exactly once, not inside a word."""
    subject, value = entity_words(triple.subject), entity_words(triple.object)
    for name in (subject, value):
        start = text.find(name)
        if text.count(name) != 1 or text[:start][-1:].isalnum() or text[start + len(name) :][:1].isalnum():
            return None
    if subject in value or value in subject or "{" in text or "}" in text:
        return None
    return text.replace(subject, "{subject}").replace(value, "{object}").strip()


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
    Templates that swap subject and object are excluded: "{subject} is a region of {object}" for ``region``.
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
    """The lexicon's ``articles``, without texts in which the noun phrase continues ("the Derbyshire countryside")."""
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


def learn_genders(records: Iterable[Record]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``genders``, of the subjects that are not values in the same record."""
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        forms = {word.form for reference in record.references for word in words(reference.text)}
        subjects = {triple.subject for triple in record.triples}
        for name in subjects.difference(triple.object for triple in record.triples) or subjects:
            found[name].update(gender for gender, pronouns in PRONOUNS.items() if forms & pronouns)
    return {name: tuple(sorted(genders)) for name, genders in sorted(found.items()) if genders}
