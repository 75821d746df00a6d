"""The words and parts of a record's names and values: normal forms, types, lists; unsupported and repeated words."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain, pairwise, permutations, zip_longest

from agggen.records import Record, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.lexicon import Lexicon
from agggen.verification.normal import MONTHS, Span, Word, containing, fold, overlap, words
from agggen.verification.values import COUNTRIES, FUNCTION_WORDS, REMARK, MatchedText, TextIndex, value_wordings

_DERIVED_SUFFIXES = ("s", "n", "ese", "ish", "ic", "i")
_ADJACENT = re.compile(r"\s+|\s*[-\u2013/]\s*")  # the characters between two adjacent words, without other punctuation
_SEASON = re.compile(r"(\d{4}(?:[-\u2013]\d{2,4})?) (.+)")  # a season and its competition: ``2014-15 Serie A``


@lru_cache(maxsize=1 << 10)
def names(record: Record) -> frozenset[str]:
    """The subjects and objects of a record, as plain text."""
    return frozenset(entity_words(part) for triple in record.triples for part in (triple.subject, triple.object))


@lru_cache(maxsize=1 << 14)
def repeated_word_pairs(name: str) -> frozenset[tuple[str, str]]:
    """Pairs of equal adjacent words in a name (``Duran Duran``)."""
    pairs = pairwise(word.form for word in words(entity_words(name)))
    return frozenset(pair for pair in pairs if pair[0] == pair[1])


@lru_cache(maxsize=1 << 14)
def small_number(value: str) -> str:
    """The normal form of a value that is a single number below 1000; empty for other values."""
    tokens = words(entity_words(value))
    is_small = len(tokens) == 1 and tokens[0].kind == "number" and abs(float(tokens[0].form)) < 1000
    return tokens[0].form if is_small else ""


@lru_cache(maxsize=1 << 14)
def value_type(value: str) -> str:
    """The type of a value: ``number`` (with or without a unit), ``date`` or ``words``."""
    kinds = {word.kind for word in words(entity_words(value))}
    if kinds <= {"number", "unit"}:
        return "number"
    return "date" if kinds == {"date"} else "words"


@lru_cache(maxsize=1 << 14)
def capitalised_forms(name: str) -> frozenset[str]:
    return frozenset(word.form for word in words(entity_words(name)) if word.kind == "word" and word.raw[:1].isupper())


@lru_cache(maxsize=1 << 14)
def forms(text: str) -> frozenset[str]:
    """The normal forms of a text's words, of the years and months of its dates, and of its acronyms (``MIT``)."""
    literal = entity_words(text)
    tokens = words(literal)
    forms = {word.form for word in tokens}
    forms |= {"science"} if "sc" in forms else set()  # Sc.D.
    for word in tokens:
        if word.kind == "date":
            year, month, _ = word.form.split("-")
            forms |= {year, MONTHS[int(month) - 1]}
    for part in literal.split(","):
        acronym = "".join(word.raw[0] for word in words(part) if word.raw[:1].isupper())
        forms |= {fold(acronym), *map(fold, acronym)} if len(acronym) > 1 else set()
    for country, other_names in COUNTRIES.items():
        if country in literal:
            forms |= {word.form for other_name in other_names for word in words(other_name)}
    singular = {form[:-1] for form in forms if len(form) > 3 and form.endswith("s") and not form.endswith("ss")}
    return frozenset(forms | singular)


@lru_cache(maxsize=1 << 14)
def list_items(value: str) -> tuple[str, ...]:
    """The items of a value that is a list with "and" or "or"; empty for other values."""
    return value_parts(value) if re.search(r" (?:and|or) ", entity_words(value)) else ()


def lacks_separator(value: str, text: str) -> bool:
    """Whether list items of a value are adjacent in a text: ``Ann Lee Bob Ray`` for ``Ann Lee, Bob Ray and Eve``."""
    lowered = " ".join(text.lower().split())
    return any(
        f"{first} {second}".lower() in lowered  # a necessary condition, much faster than the regular expression
        and re.search(rf"(?<!\w){re.escape(first)}\s+{re.escape(second)}(?!\w)", text, re.IGNORECASE)
        for first, second in permutations(list_items(value), 2)
    )


def value_parts(value: str, entities: Collection[str] = ()) -> tuple[str, ...]:
    """The parts of a value that a text may mention in any order: the items of a list, ``MIT`` and ``in 1963``,
    ``2014-15`` and ``Serie A``, or head and name of ``Prime Minister of Romania`` if ``Romania`` is in `entities`.
    """
    literal = REMARK.sub("", entity_words(value)).strip()
    if "," in literal or re.search(r" (?:and|or) ", literal):
        items = re.split(r",\s+(?:and |or )?| (?:and|or) ", literal)
        parts = [part for item in items for part in re.split(r"(?<!\bin)\s+(?=(?:in )?\d+$)", item)]
        return tuple(parts) if len(parts) > 1 and all(parts) else ()
    if season := _SEASON.match(literal):
        return season.groups()
    for split in re.finditer(r" (?:in|of|at)(?: the)? ", literal):
        head, tail = literal[: split.start()], literal[split.end() :]
        if tail in entities:
            return head, tail
    return ()


def find_parts(parts: Sequence[str], indexed: TextIndex, starts: Collection[int]) -> Span | None:
    """The span of the first of `parts`; None unless one sentence mentions all parts, in any order. Only parts and names
    at `starts` may follow the first one after a comma or preposition: "Austin, Ohio" does not mention Austin, Texas.
    """
    spans = [indexed.find(*value_wordings(part)) for part in parts]
    for first in sorted(spans[0]) if spans and all(spans) else ():
        other_parts = [{span for span in part if indexed.in_same_sentence(first, span)} for part in spans[1:]]
        part_starts = {start for part in other_parts for start, _ in part}
        is_longer_name = _another_name_follows(indexed.text, first[1], {*starts, *part_starts})
        if all(other_parts) and not is_longer_name and _has_disjoint_choice([{first}, *other_parts]):
            return first
    return None


def find_name_parts(name: str, name_spans: Mapping[str, Collection[Span]], indexed: TextIndex) -> set[Span]:
    """The span of the part of a name before its comma, if one sentence mentions all parts: "Auburn is in Lee County,
    Alabama". Empty if another name begins with the same part, or the span is inside one of the full `name_spans`.
    """
    literal = entity_words(name)
    short, comma, _ = literal.partition(", ")
    other_names = {entity_words(other_name) for other_name in name_spans} - {literal}
    if not comma or any(other_name.partition(", ")[0] == short for other_name in other_names):
        return set()
    full_names = {span for spans in name_spans.values() for span in spans}
    span = find_parts(list(dict.fromkeys(literal.split(", "))), indexed, {start for start, _ in full_names})
    return set() if span is None or containing(span, full_names) else {span}


def _has_disjoint_choice(choices: Sequence[Collection[Span]]) -> bool:
    """Whether one span of each collection can be chosen (greedily) without overlap."""
    chosen: list[Span] = []
    for spans in sorted(choices, key=len):
        disjoint = [span for span in spans if not any(overlap(span, chosen_span) for chosen_span in chosen)]
        if not disjoint:
            return False
        chosen.append(min(disjoint, key=lambda span: span[1]))
    return True


def _another_name_follows(text: str, end: int, starts: Collection[int]) -> bool:
    """Whether a comma or preposition follows `end`, and then a name that does not begin at one of `starts`."""
    connector = re.compile(r",\s+(?=[A-Z0-9])|\s+(?:of|in|at)\s+(?:the\s+)?").match(text, end)
    return connector is not None and connector.end() not in starts


def is_related(word: Word, form: str) -> bool:
    """Whether a word may mean a normal form: ``Italian`` Italy, the typo ``Adofo`` Adolfo, a date its year."""
    if word.form == form or word.kind in ("number", "ordinal") or form[:1].isdigit():
        return word.form == form
    if word.kind == "date":
        return form in word.form.split("-")
    if min(len(word.form), len(form)) < 4:
        return False
    return is_derived(word.form, form) or SequenceMatcher(None, word.form, form).ratio() >= 0.75


def unsupported_words(text: MatchedText, lexicon: Lexicon, allowed: Collection[str]) -> tuple[str, ...]:
    """Words and word pairs that imply a predicate ("five star") or word ("popular") that the record lacks, and are not
    related to `allowed` forms. Empty if a predicate is unknown from training, since any word may express it.
    """
    predicates = {triple.predicate for triple in text.record.triples}
    if not predicates <= lexicon.contexts.keys() | lexicon.booleans.keys():
        return ()
    # Words in phrases for truth values may imply other predicates: "a friendly restaurant" implies an eatType.
    phrases = {span for spans in text.values for span, kind in spans.items() if kind == "phrase"}
    covered = text.indexed.covered(span for span in text.spans if span not in phrases)
    claims = (
        " ".join(word.raw for word in ngram)
        for ngram_form, ngram in uncovered_ngrams(text.words, covered)
        if lexicon.implies.get(ngram_form, "") not in {"", *predicates}
        and not all(any(is_related(word, form) for form in allowed) for word in ngram)
    )
    return tuple(dict.fromkeys(claims))


def uncovered_ngrams(tokens: Sequence[Word], covered: Sequence[bool]) -> Iterator[tuple[str, tuple[Word, ...]]]:
    """Yields (normal form, words) of each uncovered word, and of pairs of such words in a sentence ("main dish")."""
    outside = [None if covered else word for word, covered in zip(tokens, covered, strict=True)]
    for word, following in zip_longest(outside, outside[1:]):
        if word:
            yield word.form, (word,)
        if word and following and not following.initial:
            yield f"{word.form} {following.form}", (word, following)


def is_derived(form: str, base: str) -> bool:
    """Whether a normal form looks like an adjective or plural of `base`: ``italian`` of ``italy``."""
    return len(base) > 3 and form[:4] == base[:4] and form.endswith(_DERIVED_SUFFIXES)


def repeated_words(text: MatchedText) -> tuple[str, ...]:
    """Sequences of one to three words that directly follow themselves, not in a name or between two values, and names
    and values next to one of their own words ("Anders William Anders").
    """
    tokens, string = text.words, text.indexed.text
    word_forms = [word.form for word in tokens]
    if len(set(word_forms)) == len(tokens) and not any(word.kind == "date" for word in tokens):
        return ()
    allowed = frozenset[tuple[str, str]]().union(
        *(repeated_word_pairs(part) for triple in text.record.triples for part in (triple.subject, triple.object))
    )
    starts = {start for start, _ in text.spans}
    ends = {end for _, end in text.spans}
    repetitions: list[str] = []
    for length in (1, 2, 3):
        for start in range(len(tokens) - 2 * length + 1):
            middle, end = start + length, start + 2 * length
            left, right = tokens[start], tokens[middle]
            if left.form != right.form or word_forms[start:middle] != word_forms[middle:end] or right.initial:
                continue
            if length > 1:  # allows "Faber and Faber and"
                is_allowed = any(first <= tokens[middle - 1].start and right.end <= last for first, last in text.spans)
            else:  # allows "in In Rainbows" and "New York, York"
                is_allowed = (
                    "number" in (left.kind, right.kind)
                    or (left.form, right.form) in allowed
                    or (left.form in FUNCTION_WORDS and left.raw != right.raw and right.start in starts)
                    or (left.end in ends and right.start in starts and bool(string[left.end : right.start].strip()))
                )
            if not is_allowed:
                repetitions.append(" ".join(word.raw for word in tokens[start:end]))
    return tuple(dict.fromkeys((*repetitions, *_values_beside_own_words(text))))


def _values_beside_own_words(text: MatchedText) -> Iterator[str]:
    """Yields names and values with an adjacent uncovered word that repeats one of their words."""
    tokens, string = text.words, text.indexed.text
    for first, end in filter(None, map(text.indexed.words_in, text.spans)):
        own_forms = {word.form for word in tokens[first:end] if word.kind != "date" and not word.optional}
        for year, month, day in (word.form.split("-") for word in tokens[first:end] if word.kind == "date"):
            own_forms |= {year, MONTHS[int(month) - 1], day}
        own_forms -= FUNCTION_WORDS
        for neighbour, left, right in ((first - 1, first - 1, first), (end, end - 1, end)):
            if not 0 <= neighbour < len(tokens) or text.covered[neighbour] or tokens[neighbour].form not in own_forms:
                continue
            if _ADJACENT.fullmatch(string, tokens[left].end, tokens[right].start) and not tokens[right].initial:
                yield string[tokens[min(left, first)].start : tokens[max(right, end - 1)].end]


def repeated_values(text: MatchedText) -> tuple[str, ...]:
    """Values and parts of values ("Axel") that a fact mentions more often than its triples have them, and subjects that
    are named a second time directly before their value ("The leader of Greece is Greece Ann").
    """
    string = text.indexed.text
    subjects = set(chain(*text.subjects.values()))
    repeated: list[str] = []
    for triple, matches in text.matches():
        other_forms = capitalised_forms(triple.subject) | forms(predicate_words(triple.predicate))
        name_parts = capitalised_forms(triple.object) - other_forms
        single_words = [word for word in text.uncovered if word.form in name_parts and word.raw[:1].isupper()]
        if not matches:  # the value is mentioned in parts, if at all
            mentions = Counter(word.form for word in single_words)
            mentions -= Counter(word.form for word in words(entity_words(triple.object)))
            single_words = [word for word in single_words if word.form in mentions]
        repeated += [word.raw for word in single_words]
        repeated += [item for item in list_items(triple.object) if _occurs_too_often(item, string, text.triples)]
        repeated += [
            string[slice(*name)]
            for earlier, name in pairwise(sorted(text.subjects.get(triple.subject, ())))
            if text.indexed.in_same_sentence(earlier, name)
            and any(string[name[1] : start].isspace() for start, _ in matches)
        ]
        spans = [span for span in matches if not any(overlap(span, name) for name in subjects)]
        disjoint: list[Span] = []
        for span in spans:
            if not disjoint or disjoint[-1][1] <= span[0]:
                disjoint.append(span)
        n_triples = sum(any(span in spans for span in value_matches) for value_matches in text.values)
        if len(disjoint) > max(n_triples, 1):
            repeated.append(string[slice(*disjoint[0])])
    return tuple(dict.fromkeys(repeated))


def _occurs_too_often(item: str, text: str, triples: Sequence[Triple]) -> bool:
    """Whether a text contains an item, in any case, more often than the names and values of the triples."""
    pattern = re.compile(rf"(?<!\w){re.escape(item)}(?!\w)", re.IGNORECASE)
    names = {entity_words(name) for triple in triples for name in (triple.subject, triple.object)}
    return len(pattern.findall(text)) > sum(len(pattern.findall(name)) for name in names)
