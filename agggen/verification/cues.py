"""Cue words of predicates and roles of names: learned from training texts, and violations in a text.

A cue is a word of a sentence that expresses a predicate, such as "born" for ``birthPlace``. IBM Model 1 (Brown et al.
1993) estimates which predicate of a sentence generates a word. So "language" is not a cue of ``currency``, although
both often occur in one sentence.

A role is to be the subject or object of a predicate. In training texts, nearly every name after "leader of" is a
subject of ``leaderName``. So "published by PS3523" is wrong for the object of a ``classification``.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from agggen.records import Triple
from agggen.verification.lexicon import MAX_COVER, NEARLY_ALL
from agggen.verification.normal import Span, containing
from agggen.verification.values import FUNCTION_WORDS, MatchedText

_ITERATIONS = 5
_MIN_SENTENCES = 20  # minimum number of training sentences with a value of a predicate
_MIN_SHARE = 0.95  # minimum share of the texts with a value of a predicate in which the value's sentence has a cue
_MIN_COUNT = 1.5  # minimum expected count of a cue
_MIN_RATIO = 3.0  # minimum ratio of a cue's rate in its predicate's sentences to its rate in all sentences
_MIN_WORD_SENTENCES = 30  # minimum number of training sentences that contain a word of ``predicates_of``
_MAX_BASE_SHARE = 0.5  # maximum share of all sentences in which a predicate of a word of ``predicates_of`` has a value
_MAX_WORDS = 3  # maximum number of words before a name
_MIN_NAMES = 20  # minimum number of names after a word sequence in training texts
_MAX_BASE_NAME_SHARE = 0.2  # maximum share of all names that have one of the roles of a word sequence

_Sentence = tuple[frozenset[str], tuple[str, ...]]  # possible cues of a sentence, and the predicates with values in it
_Roles = frozenset[str]  # {"subject of leaderName", "object of birthPlace"}


def learn_cues(texts: Sequence[MatchedText]) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """The lexicon's ``cues`` and ``predicates_of``. The cues of a predicate are the words of which it generates the
    largest shares, as few as `_MIN_SHARE` allows; there are none if all its words do not suffice.
    """
    sentences = Counter[_Sentence]()
    for text in texts:
        for words, values in _sentences(text):
            if values:
                predicates = {text.record.triples[index].predicate for index in values}
                sentences[frozenset(words), tuple(sorted(predicates))] += 1
    n_sentences = sentences.total()
    word_counts, predicate_counts = Counter[str](), Counter[str]()
    for (sentence_words, sentence_predicates), count in sentences.items():
        word_counts.update(dict.fromkeys(sentence_words, count))
        predicate_counts.update(dict.fromkeys(sentence_predicates, count))
    expected = _expected_counts(sentences, predicate_counts)
    shares = {
        predicate: {
            word: count / word_counts[word]
            for word, count in expected.get(predicate, {}).items()
            if count >= _MIN_COUNT and count / n_with_value >= _MIN_RATIO * word_counts[word] / n_sentences
        }
        for predicate, n_with_value in predicate_counts.items()
    }
    frequent = {name: cue_shares for name, cue_shares in shares.items() if predicate_counts[name] >= _MIN_SENTENCES}
    return _cues(texts, frequent), _predicates_of(sentences, word_counts, expected, shares)


def _cues(texts: Sequence[MatchedText], shares: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``cues``; `shares` are, by predicate and word, the share of the word that it generates."""
    largest: dict[str, list[float]] = defaultdict(list)  # by predicate: each text's largest share near its value
    for text in texts:
        largest_in_text: dict[int, float] = {}
        for words, values in _sentences(text):
            for index in values:
                cue_shares = shares.get(text.record.triples[index].predicate, {})
                in_sentence = (cue_shares[word] for word in words & cue_shares.keys())
                largest_in_text[index] = max(largest_in_text.get(index, 0.0), *in_sentence, 0.0)
        for index, share in largest_in_text.items():
            largest[text.record.triples[index].predicate].append(share)
    min_share = {
        name: sorted(text_shares)[int((1 - _MIN_SHARE) * len(text_shares))] for name, text_shares in largest.items()
    }
    return {
        name: tuple(sorted(word for word, share in cue_shares.items() if share >= min_share[name]))
        for name, cue_shares in sorted(shares.items())
        if min_share[name] > 0.0
    }


def _predicates_of(
    sentences: Mapping[_Sentence, int],
    word_counts: Mapping[str, int],
    expected: Mapping[str, Mapping[str, float]],
    shares: Mapping[str, Mapping[str, float]],
) -> dict[str, tuple[str, ...]]:
    """For each word: the predicates of which it may be a cue, and the fewest that have values in `NEARLY_ALL` of its
    sentences, of those that generate it most often.
    """
    with_word: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
    for (words, predicates), count in sentences.items():
        for word in words:
            if word_counts[word] >= _MIN_WORD_SENTENCES and word not in FUNCTION_WORDS:
                with_word[word].append((predicates, count))
    n_sentences = sum(sentences.values())
    predicates_of: dict[str, tuple[str, ...]] = {}
    for word, remaining in sorted(with_word.items()):
        counts = {name: words[word] for name, words in expected.items() if name and word in words}
        chosen: set[str] = set()
        for name in sorted(counts, key=lambda name: -counts[name])[:MAX_COVER]:
            chosen.add(name)
            remaining = [(predicates, count) for predicates, count in remaining if name not in predicates]
            if sum(count for _, count in remaining) <= (1 - NEARLY_ALL) * word_counts[word]:
                chosen |= {name for name, cue_shares in shares.items() if word in cue_shares}
                n_with_chosen = sum(count for (_, names), count in sentences.items() if not chosen.isdisjoint(names))
                if n_with_chosen <= _MAX_BASE_SHARE * n_sentences:
                    predicates_of[word] = tuple(sorted(chosen))
                break
    return predicates_of


def triples_without_cue(text: MatchedText, cues: Mapping[str, Collection[str]]) -> tuple[Triple, ...]:
    """The triples of predicates in `cues` whose values occur, but only in sentences without a cue of the predicate."""
    triples = text.record.triples
    has_cue: dict[int, bool] = {}
    for words, values in _sentences(text):
        for index in values:
            predicate = triples[index].predicate
            if predicate in cues:
                has_cue[index] = has_cue.get(index, False) or not words.isdisjoint(cues[predicate])
    return tuple(triples[index] for index in sorted(has_cue) if not has_cue[index])


def foreign_words(
    text: MatchedText, predicates_of: Mapping[str, Collection[str]], predicates: Collection[str]
) -> tuple[str, ...]:
    """The words of `predicates_of` in sentences without a value of their predicates, except words of `predicates`."""
    return tuple(
        word
        for words, values in _sentences(text)
        for word in sorted(words & predicates_of.keys())
        if not {*predicates, *(text.record.triples[index].predicate for index in values)} & set(predicates_of[word])
    )


def _expected_counts(
    sentences: Mapping[_Sentence, int], predicate_counts: Mapping[str, int]
) -> dict[str, dict[str, float]]:
    """By predicate and word: the expected number of sentences in which the predicate generates the word; the predicate
    "" generates the words that express none.
    """
    n_sentences = sum(sentences.values())
    rates: dict[str, dict[str, float]] = {}
    counts: dict[str, dict[str, float]] = {}
    for _ in range(_ITERATIONS):
        counts = defaultdict(lambda: defaultdict(float))
        for (words, predicates), count in sentences.items():
            causes = ("", *predicates)
            for word in words:
                shares = [rates[cause].get(word, 0.0) if rates else 1.0 for cause in causes]
                for cause, share in zip(causes, shares, strict=True):
                    if share > 0.0:
                        counts[cause][word] += count * share / sum(shares)
        rates = {
            cause: {
                word: count / predicate_counts.get(cause, n_sentences) for word, count in words.items() if count > 1e-3
            }
            for cause, words in counts.items()
        }
    return counts


def _sentences(text: MatchedText) -> Iterator[tuple[set[str], Sequence[int]]]:
    """The possible cues of each sentence, and the indices of the triples that have a value in it."""
    name_bounds = [bounds for span in text.spans if (bounds := text.indexed.words_in(span))]
    within_names = {number for first, end in name_bounds for number in range(first + 1, end)}  # "Ulm" in "A.F.C. Ulm"
    starts = [
        number
        for number, word in enumerate(text.words)
        if word.initial and not word.raw[:1].islower() and number not in within_names
    ]
    first_words = [{bounds[0] for span in spans if (bounds := text.indexed.words_in(span))} for spans in text.values]
    for start, end in pairwise(dict.fromkeys((0, *starts, len(text.words)))):
        words = {
            word.form
            for word, covered in zip(text.words[start:end], text.covered[start:end], strict=True)
            if not covered and word.kind == "word" and (word.initial or word.raw.islower())
        }
        numbers = range(start, end)
        yield words, [index for index, firsts in enumerate(first_words) if not firsts.isdisjoint(numbers)]


def learn_roles(texts: Iterable[MatchedText]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``roles_after``: by word sequence, the roles, greedily chosen, that cover `NEARLY_ALL` names."""
    all_names = Counter[_Roles]()
    after: dict[str, Counter[_Roles]] = defaultdict(Counter)
    for text in texts:
        for span, roles in _names(text):
            all_names[roles] += 1
            for words in _words_before(text, span):
                after[words][roles] += 1
    learned: dict[str, tuple[str, ...]] = {}
    for words, names in sorted(after.items()):
        if names.total() < _MIN_NAMES:
            continue
        chosen: set[str] = set()
        uncovered, max_uncovered = dict(names), (1 - NEARLY_ALL) * names.total()
        while len(chosen) < MAX_COVER and sum(uncovered.values()) > max_uncovered:
            counts = Counter[str]()
            for roles, count in uncovered.items():
                counts.update(dict.fromkeys(roles, count))
            chosen.add(min(counts, key=lambda role: (-counts[role], role)))
            uncovered = {roles: count for roles, count in uncovered.items() if chosen.isdisjoint(roles)}
        n_with_chosen = sum(count for roles, count in all_names.items() if not chosen.isdisjoint(roles))
        if sum(uncovered.values()) <= max_uncovered and n_with_chosen <= _MAX_BASE_NAME_SHARE * all_names.total():
            learned[words] = tuple(sorted(chosen))
    return learned


def wrong_roles(
    text: MatchedText, roles_after: Mapping[str, Sequence[str]], known_predicates: Collection[str]
) -> tuple[Span, ...]:
    """The spans of names that have none of the roles of the words before them; names in triples of predicates other
    than `known_predicates`, those of the training texts, are ignored.
    """
    return tuple(
        span
        for span, roles in _names(text)
        if all(role.partition(" of ")[2] in known_predicates for role in roles)
        and any(roles.isdisjoint(roles_after[words]) for words in _words_before(text, span) if words in roles_after)
    )


def _names(text: MatchedText) -> Iterator[tuple[Span, _Roles]]:
    """Yields (span, roles) of subjects and objects that are not inside a longer subject or object."""
    by_name: dict[str, set[str]] = defaultdict(set)
    for triple in text.record.triples:
        by_name[triple.subject].add(f"subject of {triple.predicate}")
        by_name[triple.object].add(f"object of {triple.predicate}")
    spans: dict[Span, set[str]] = defaultdict(set)
    for name, roles in by_name.items():
        for span in text.indexed.find_name(name):
            spans[span] |= roles
    for span, roles in sorted(spans.items()):
        if not containing(span, spans):
            yield span, frozenset(roles)


def _words_before(text: MatchedText, span: Span) -> Iterator[str]:
    """Yields the last 1 to `_MAX_WORDS` words before a name in its sentence, with a content word; names are ``*``."""
    bounds = text.indexed.words_in(span)
    start = bounds[0] if bounds else 0
    before: list[str] = []
    while len(before) < _MAX_WORDS and start > 0 and not text.words[start].initial:
        start -= 1
        before.insert(0, "*" if text.covered[start] else text.words[start].form)
        if any(word.isalpha() and word not in FUNCTION_WORDS for word in before):
            yield " ".join(before)
