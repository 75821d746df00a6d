"""Mentions of values and names by their parts: lists, ``Austin, Texas``, ``MIT 1963``, ``2014-15 Serie A``."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import permutations

from agggen.text.linearise import entity_words
from agggen.verification.normal import Span, containing, overlap
from agggen.verification.values import REMARK, TextIndex, value_wordings

_SEASON = re.compile(r"(\d{4}(?:[-\u2013]\d{2,4})?) (.+)")  # a season and its competition: ``2014-15 Serie A``


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
    """The parts of a value that a text may mention in any order; empty if the value is indivisible.

    Values are split at commas and conjunctions (``Austin``, ``Texas``), before a final number (``MIT``, ``in 1963``),
    after a season (``2014-15``, ``Serie A``), and before a final name of `entities` (``Prime Minister of Romania``).
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
    """The span of the part of a name before its comma, if one sentence mentions all parts of the name: "Auburn is part
    of Lee County, Alabama" names ``Auburn, Alabama``.

    Empty if another name of the record begins with the same part, or the span is inside one of the full `name_spans`.
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
