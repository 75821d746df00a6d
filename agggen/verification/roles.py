"""Learns the roles (subject or object of a predicate) of names after certain words, and detects names in wrong roles.

In training texts, nearly every name after "leader of" is a subject of ``leaderName``, and nearly every name after
"published by" is an object of ``publisher``. So "published by PS3523" is wrong for the object of a ``classification``.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from agggen.verification.lexicon import MAX_COVER, NEARLY_ALL
from agggen.verification.normal import Span, containing
from agggen.verification.values import FUNCTION_WORDS, MatchedText

Roles = frozenset[str]
"""``{"subject of leaderName", "object of birthPlace"}``"""

_MAX_WORDS = 3  # maximum number of words before a name
_MIN_NAMES = 20  # minimum number of names after a word sequence in training texts
_MAX_BASE_SHARE = 0.2  # maximum share of all names that have one of the roles of a word sequence


def learn_roles(texts: Iterable[MatchedText]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``roles_after``: by word sequence, the roles, greedily chosen, that cover `NEARLY_ALL` names."""
    all_names = Counter[Roles]()
    after: dict[str, Counter[Roles]] = defaultdict(Counter)
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
        if sum(uncovered.values()) <= max_uncovered and n_with_chosen <= _MAX_BASE_SHARE * all_names.total():
            learned[words] = tuple(sorted(chosen))
    return learned


def wrong_roles(
    text: MatchedText, roles_after: Mapping[str, Sequence[str]], known_predicates: Collection[str]
) -> tuple[Span, ...]:
    """The spans of names that have none of the roles of the words before them: "published by PS3523"; names in triples
    of predicates other than `known_predicates`, those of the training texts, are ignored.
    """
    return tuple(
        span
        for span, roles in _names(text)
        if all(role.partition(" of ")[2] in known_predicates for role in roles)
        and any(roles.isdisjoint(roles_after[words]) for words in _words_before(text, span) if words in roles_after)
    )


def _names(text: MatchedText) -> Iterator[tuple[Span, Roles]]:
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
