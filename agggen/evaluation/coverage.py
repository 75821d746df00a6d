"""Coverage: which triples a text mentions, by their words. A plain check that needs no model and no slot patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agggen.alignment import triple_words, words
from agggen.errors import AggGenError
from agggen.evaluation import Score
from agggen.records import Record, Triple

THRESHOLD = 0.6
"""On WebNLG's development references 94 % of the triples pass, and 2 % of triples given another object."""

_REMARK = re.compile(r"\s*\([^)]*\)")  # "Bolt (comicsCharacter)", "75.3 (square kilometres)": not said in the text


def mentioned(triple: Triple, text: str, threshold: float = THRESHOLD) -> bool:
    """Whether `text` holds at least `threshold` of the words of the triple's object.

    Words are compared in the aligner's normal form; remarks in brackets do not count. Yes and no are never said, so
    for them the words of the predicate must be there; whether the text affirms or denies them is not looked at.
    """
    value = _REMARK.sub("", triple.object).strip() or triple.object
    name, _ = triple_words(triple.predicate, value)
    wanted = name if value.lower() in ("yes", "no") else tuple(dict.fromkeys(words(value)))
    if not wanted:  # nothing but function words or signs
        return value.casefold() in text.casefold()
    held = frozenset(words(text))
    return sum(word in held for word in wanted) >= threshold * len(wanted)


def coverage(records: Sequence[Record], texts: Sequence[str], threshold: float = THRESHOLD) -> Score:
    """The share of all triples, in percent, that the text of their record mentions.

    Raises:
        AggGenError: not one text a record, or no records.
    """
    if len(records) != len(texts):
        raise AggGenError(f"{len(records)} records but {len(texts)} texts; there must be one text a record")
    if not records:
        raise AggGenError("there are no records to check the coverage of")
    found = [
        mentioned(triple, text, threshold)
        for record, text in zip(records, texts, strict=True)
        for triple in record.triples
    ]
    return Score(100 * sum(found) / len(found), f"coverage|words:normal|threshold:{threshold}|triples:{len(found)}")
