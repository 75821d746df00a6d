"""Names as words, and the linearised record."""

from __future__ import annotations

import pytest

from agggen.records import Record
from agggen.text.linearise import (
    ROLE_OBJECT,
    ROLE_PREDICATE,
    ROLE_SPECIAL,
    ROLE_SUBJECT,
    entity_words,
    linearise,
    predicate_words,
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("buildingStartDate", "building start date"),
        ("5th_runway_SurfaceType", "5th runway surface type"),
        ("IATALocationIdentifier", "IATA location identifier"),
        ("elevation_(in_metres)", "elevation (in metres)"),
        ("isPartOf_2", "is part of 2"),
        ("_", "_"),
    ],
)
def test_predicate_words(name: str, words: str) -> None:
    assert predicate_words(name) == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Cleveland,_Ohio_44114", "Cleveland, Ohio 44114"),
        ('"Ajo_blanco"', "Ajo blanco"),
        ('"1932-07-27"^^xsd:date', "1932-07-27"),
        ('"soldiers"@en-GB', "soldiers"),
        ('"soldados"@es-419', "soldados"),
        ("someone@example", "someone@example"),
        ('"Squeezed" or "smashed"', '"Squeezed" or "smashed"'),
        ('""', '""'),
        ('"', '"'),
        ("_", "_"),
    ],
)
def test_entity_words(name: str, words: str) -> None:
    assert entity_words(name) == words


def test_linearised_record() -> None:
    record = Record.of({"id": 1, "triples": [["Neon", "foundBy", '"W._Ramsay"'], ["Neon", "foundBy", "M. Travers"]]})
    source = linearise(record)
    assert " ".join(source.tokens) == "[CLS] Neon found by W ￭. Ramsay [SEP] Neon found by M ￭. Travers [SEP]"
    assert source.triple == [-1, *[0] * 7, *[1] * 7]
    triple_roles = [ROLE_SUBJECT, *[ROLE_PREDICATE] * 2, *[ROLE_OBJECT] * 3, ROLE_SPECIAL]
    assert source.role == [ROLE_SPECIAL, *triple_roles, *triple_roles]


def test_a_name_spelled_like_a_special_token_is_ordinary_text() -> None:
    source = linearise(Record.of({"id": 1, "triples": [["[SEP]", "[CLS]", "[PAD]"]]}))
    assert source.tokens.count("[SEP]") == source.tokens.count("[CLS]") == 1
    assert "[PAD]" not in source.tokens
