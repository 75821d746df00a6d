"""Detects values of one predicate that a text swaps between two subjects."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import combinations
from math import inf

from agggen.verification.matched import MatchedText
from agggen.verification.normal import Span

_BORDER = re.compile(r"[,;.!?]\s|\b(?:and|but|while|whilst|whereas)\b")
"""The possible end of a clause; matches inside names and values are ignored."""


def swapped_subjects(text: MatchedText) -> tuple[tuple[str, str], ...]:
    """Pairs of values of one predicate with exchanged subjects, as strings "predicate of subject".

    Either each value is attributed to the other's subject ("Gold is in group 12 and Silver in 11"), or one value occurs
    only in clauses that name only the other's subject. A value is attributed to the subject in its clause if the clause
    names exactly one, otherwise to the last subject before the value.
    """
    pairs: list[tuple[str, str]] = []
    for (first, first_matches), (second, second_matches) in combinations(text.matches(), 2):
        entities = {first.subject, first.object, second.subject, second.object}
        if first.predicate != second.predicate or len(entities) < 4:
            continue
        names = [(span, name) for name in (first.subject, second.subject) for span in text.indexed.find_name(name)]
        spans = [span for span, _ in names] + [*first_matches, *second_matches]
        borders = [
            match.start()
            for match in _BORDER.finditer(text.indexed.text)
            if not any(start <= match.start() < end for start, end in spans) and not _joins(match, names)
        ]
        clause_names: list[set[str | None]] = []
        attributed: list[set[str | None]] = []
        for matches in (first_matches, second_matches):
            by_value = {span: _only_name(span, names, borders) for span in matches}
            clause_names.append(set(by_value.values()))
            attributed.append({name or _last_name_before(span, names) for span, name in by_value.items()})
        exchanged = [{second.subject}, {first.subject}]
        if attributed == exchanged or clause_names[0] == exchanged[0] or clause_names[1] == exchanged[1]:
            pairs.append((f"{first.predicate} of {first.subject}", f"{second.predicate} of {second.subject}"))
    return tuple(pairs)


def _joins(border: re.Match[str], names: Collection[tuple[Span, str]]) -> bool:
    """Whether the border is directly between two names: "Gold and Silver"."""
    text = border.string
    before, after = len(text[: border.start()].rstrip()), len(text) - len(text[border.end() :].lstrip())
    return any(end == before for (_, end), _ in names) and any(start == after for (start, _), _ in names)


def _only_name(value: Span, names: Collection[tuple[Span, str]], borders: Sequence[int]) -> str | None:
    """The name in the clause of `value` if there is exactly one, else None; clauses end at the offsets `borders`."""
    start = max((border for border in borders if border < value[0]), default=0)
    end = min((border for border in borders if border >= value[1]), default=inf)
    names_in_clause = {name for span, name in names if start <= span[0] and span[1] <= end}
    return names_in_clause.pop() if len(names_in_clause) == 1 else None


def _last_name_before(value: Span, names: Collection[tuple[Span, str]]) -> str | None:
    return max(((span, name) for span, name in names if span[1] <= value[0]), default=(value, None))[1]
