"""Names as words, and the linearised record."""

from collections.abc import Callable

import pytest

from agggen.records import Record
from agggen.text.linearise import entity_words, linearise, predicate_words


@pytest.mark.parametrize(
    ("words_of", "name", "words"),
    [
        (predicate_words, "buildingStartDate", "building start date"),
        (predicate_words, "5th_runway_SurfaceType", "5th runway surface type"),
        (predicate_words, "IATALocationIdentifier", "IATA location identifier"),
        (predicate_words, "elevation_(in_metres)", "elevation (in metres)"),
        (predicate_words, "isPartOf_2", "is part of 2"),
        (predicate_words, "_", "_"),
        (entity_words, "Cleveland,_Ohio_44114", "Cleveland, Ohio 44114"),
        (entity_words, '"Ajo_blanco"', "Ajo blanco"),
        (entity_words, '"1932-07-27"^^xsd:date', "1932-07-27"),
        (entity_words, '"soldiers"@en-GB', "soldiers"),
        (entity_words, '"soldados"@es-419', "soldados"),
        (entity_words, "someone@example", "someone@example"),
        (entity_words, '"Squeezed" or "smashed"', '"Squeezed" or "smashed"'),
        (entity_words, '""', '""'),
        (entity_words, '"', '"'),
        (entity_words, "_", "_"),
    ],
)
def test_words_of_a_name(words_of: Callable[[str], str], name: str, words: str) -> None:
    assert words_of(name) == words


def test_a_linearised_record() -> None:
    record = Record.of({"id": 1, "triples": [["Neon", "foundBy", '"W._Ramsay"'], ["Neon", "foundBy", "M. Travers"]]})
    source = linearise(record)
    assert " ".join(source.tokens) == "[CLS] Neon found by W ￭. Ramsay [SEP] Neon found by M ￭. Travers [SEP]"
    assert source.triple == [-1, *[0] * 7, *[1] * 7]
    assert source.role == [0, *[1, 2, 2, 3, 3, 3, 0] * 2]  # roles: special, subject, predicate, object


def test_a_name_spelled_like_a_special_token_is_ordinary_text() -> None:
    source = linearise(Record.of({"id": 1, "triples": [["[SEP]", "[CLS]", "[PAD]"]]}))
    assert source.tokens.count("[SEP]") == source.tokens.count("[CLS]") == 1
    assert "[PAD]" not in source.tokens
