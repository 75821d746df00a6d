"""Reads the E2E NLG corpus, original (Novikova et al. 2017) and cleaned (Dušek et al. 2019).

``name[The Vaults], eatType[pub], customer rating[5 out of 5]`` becomes triples with the name as subject:
(The Vaults, eatType, pub), (The Vaults, customerRating, 5 out of 5). The texts of a meaning representation are the
references of one record. In the cleaned corpus a slot may be missing or have several values:

- several values of a slot become several triples (eatType, eatType_2);
- a second name becomes a triple (first name, name, second name);
- a name X without other slots becomes (X, name, X), so that its text is kept (2 rows of the cleaned dev set);
- without a name the triples have no subject: ("", eatType, pub) (43 rows of train, 7 of dev, 3 of test).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from agggen.corpora.lines import open_source, read_rows
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, RecordError
from agggen.records import NO_SUBJECT, Record, Reference, Triple

_SLOT = re.compile(r"\s*([^\[\],]+)\[([^\[\]]*)\]\s*(?:,|$)")


def read_e2e(path: Path, split: str, corpus: str = "e2e") -> Iterator[Record | Reject]:
    """Reads a CSV file with the columns mr and ref; rows with the same mr need not be contiguous.

    Records are in the order of their first rows, with ids such as ``e2e-train-00001``; references are in file order.
    """
    references: dict[str, list[Reference]] = {}
    triples: dict[str, tuple[Triple, ...]] = {}
    with open_source(path) as (stream, label):
        for item in read_rows(stream, label, ("mr", "ref")):
            if isinstance(item, Reject):
                yield item
                continue
            line, row = item
            meaning = row["mr"].strip()
            try:
                if meaning not in triples:
                    triples[meaning] = parse_meaning(meaning)
                references.setdefault(meaning, []).append(Reference(row["ref"].strip()))
            except AggGenError as error:
                yield Reject(label, line, None, str(error))
    for number, (meaning, texts) in enumerate(references.items(), start=1):
        yield Record(f"{corpus}-{split}-{number:05d}", triples[meaning], tuple(texts))


def parse_meaning(meaning: str) -> tuple[Triple, ...]:
    """The triples of one meaning representation; RecordError if it is malformed (names the column)."""
    slots: list[tuple[str, str]] = []
    position = 0
    while position < len(meaning) or not slots:
        match = _SLOT.match(meaning, position)
        if match is None:
            location = f"column {position + 1} of the meaning representation {meaning!r:.100}"
            raise RecordError(f"{location}: expected slot[value]")
        attribute, value = match.group(1).strip(), match.group(2).strip()
        if not attribute or not value:
            raise RecordError(f"the slot {attribute!r} of the meaning representation {meaning!r:.100} has no value")
        first_word, *later_words = attribute.split()
        predicate = first_word + "".join(word[:1].upper() + word[1:] for word in later_words)  # customerRating
        slots.append((predicate, value))
        position = match.end()
    names = [value for attribute, value in slots if attribute == "name"]
    if not names:
        return tuple(Triple(NO_SUBJECT, attribute, value) for attribute, value in slots)
    subject = names[0]
    slots.remove(("name", subject))
    return tuple(Triple(subject, attribute, value) for attribute, value in slots or [("name", subject)])
