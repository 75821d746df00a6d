"""The encoder's input for a record: ``[CLS] s p o [SEP] s p o [SEP] ...`` (AggGen, ACL 2021, section 3.2)."""

import re
from dataclasses import dataclass
from functools import lru_cache

from agggen.records import Record
from agggen.text.tokenise import tokenise

CLS, SEP = "[CLS]", "[SEP]"
ROLE_SPECIAL, ROLE_SUBJECT, ROLE_PREDICATE, ROLE_OBJECT = range(4)

_DATATYPE = re.compile(r'(?<=")(?:\^\^\S+|@[A-Za-z]+(?:-[A-Za-z0-9]+)*)$')
CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The boundaries between the words of ``camelCase``."""


@dataclass(frozen=True, slots=True)
class SourceTokens:
    """The linearised record. The three lists have one item per token."""

    tokens: list[str]
    triple: list[int]  # index of the token's triple (for [SEP], of the preceding triple); -1 for [CLS]
    role: list[int]


@lru_cache(maxsize=1 << 15)
def entity_words(text: str) -> str:
    """A subject or object as text: ``Cleveland,_Ohio_44114`` -> ``Cleveland, Ohio 44114``, ``"5.0"`` -> ``5.0``.

    Underscores become spaces; enclosing double quotes and an RDF type or language tag after them are removed.
    """
    words = " ".join(_DATATYPE.sub("", text).replace("_", " ").split())
    if len(words) > 2 and words[0] == words[-1] == '"' and '"' not in words[1:-1]:
        words = words[1:-1].strip()
    return words or text


def predicate_words(text: str) -> str:
    """A predicate as text, lower-cased except for acronyms: ``LCCN_locatedIn`` -> ``LCCN located in``."""
    words = [word for part in text.replace("_", " ").split() for word in CAMEL_CASE.split(part)]
    return " ".join(word if len(word) > 1 and word.isupper() else word.lower() for word in words) or text


def linearise(record: Record) -> SourceTokens:
    """The record's triples as tokens with normalised spacing; predicates without the suffix of ``isPartOf_2``."""
    rows = [(CLS, -1, ROLE_SPECIAL)]
    for index, triple in enumerate(record.triples):
        parts = (entity_words(triple.subject), predicate_words(triple.predicate), entity_words(triple.object))
        for role, words in enumerate(parts, start=ROLE_SUBJECT):
            rows += ((token.text, index, role) for token in tokenise(words))
        rows.append((SEP, index, ROLE_SPECIAL))
    return SourceTokens(*map(list, zip(*rows, strict=True)))
