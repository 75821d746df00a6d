"""The lenient check of mentioned triples."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

import pytest

from agggen.alignment import words
from agggen.corpora.e2e import read_e2e
from agggen.corpora.rejects import Reject
from agggen.corpora.webnlg import read_webnlg
from agggen.records import Record, Triple
from agggen.verification.lenient import find_mentions


def mentioned(triple: Triple, text: str) -> bool:
    return find_mentions(Record("r", (triple,)), text).checks[0].mentioned


@pytest.mark.parametrize(
    ("predicate", "value", "text", "result"),
    [
        ("familyFriendly", "yes", "It welcomes families and is child friendly.", True),
        ("familyFriendly", "no", "It is a pub. No!", False),
        ("author", "Bolt (comicsCharacter)", "Bolt did it", True),
        ("area", "75.3 (square kilometres)", "it measures 75.3", True),
        ("name", "The Who", "A song by The Who.", True),
        ("sign", "?!", "what?!", True),
        ("name", "The", "a text without articles", False),
        # numbers
        ("length", "610.0 (metres)", "it is 610m long", True),
        ("floors", "19", "nineteen floors", True),
        ("mass", "18.0 g", "18g of it", True),
        # dates
        ("birthDate", "1981-02-27", "born on the 27th of Feb 1981", True),
        ("start", '"January, 2014"', "begun in January 2009", False),
        # words
        ("plane", "Lockheed_C-130_Hercules", "the Lockheed C130 Hercules", True),
        ("plane", "Lockheed_C-130_Hercules", "the Lockheed AC-130 and the Boeing C-17", False),
        ("league", "Serie_A", "they play in serie a", True),
        ("league", "Serie_A", "they play in a Serie, C", False),
        ("language", "English_language", "English is spoken", True),
        ("city", "Glen_Ridge,_New_Jersey", "born in Glen Ridge, NJ", True),
        ("school", "Massachusetts Institute of Technology", "a graduate of MIT", True),
        ("frequency", "Bimonthly", "a bi-monthly journal", True),
        # E2E
        ("customerRating", "5 out of 5", "highly rated", True),
        ("familyFriendly", "yes", "It is not family-friendly.", False),
        ("food", "Indian", "near Raja Indian Cuisine", False),
    ],
)
def test_mentioned(predicate: str, value: str, text: str, result: bool) -> None:
    assert mentioned(Triple("Ann", predicate, value), text) is result


def test_each_triple_has_the_reason_of_its_verdict() -> None:
    triples = (
        Triple("Ann", "born", "New York"),
        Triple("Ann", "died", "Old_Oslo_(city)"),
        Triple("Ann", "school", "Massachusetts Institute of Technology"),
        Triple("Ann", "area", "riverside"),
        Triple("Ann", "food", "Thai"),
    )
    result = find_mentions(Record("r", triples), "Ann, of MIT, lives by the river of old New York.")
    assert result.missing == (triples[1], triples[4])
    assert [check.reason for check in result.checks] == [
        "100 % of its words",
        "50 % of its words; missing: oslo",
        "acronym MIT",
        "a phrase for area 'riverside'",
        "0 % of its words; missing: thai",
    ]


# --- human references: the measurements in the docstring of the tested module --------------------------------------

EQUIVALENT = [{"low", "1 out of 5"}, {"average", "3 out of 5"}, {"high", "5 out of 5"}, {"cheap", "less than £20"}]
EQUIVALENT += [{"moderate", "£20-25"}, {"high", "more than £30"}]


def shares(items: Iterable[Record | Reject], every: int = 1) -> tuple[float, float]:
    """Percentages of mentioned triples: unchanged, and with another object that is not in `EQUIVALENT`."""
    records = [item for item in items if isinstance(item, Record)]
    rng = random.Random(7)
    objects_of: dict[str, dict[frozenset[str], str]] = defaultdict(dict)
    for record in records:
        for triple in record.triples:
            objects_of[triple.predicate].setdefault(frozenset(words(triple.object)), triple.object)
    unchanged, replaced = list[bool](), list[bool]()
    for record in records:
        parts = [part for triple in record.triples for part in (triple.subject, triple.object)]
        record_values = set(map(frozenset, map(words, parts)))
        for reference, triple in product(record.references[::every], record.triples):
            unchanged.append(mentioned(triple, reference.text))
            if candidates := [value for key, value in objects_of[triple.predicate].items() if key not in record_values]:
                replacement = replace(triple, object=rng.choice(candidates))
                if {triple.object, replacement.object} not in EQUIVALENT:
                    replaced.append(mentioned(replacement, reference.text))
    return 100 * fmean(unchanged), 100 * fmean(replaced)


def test_webnlg_references_mention_their_triples_and_no_others(data_home: Path) -> None:
    unchanged, replaced = shares(read_webnlg(data_home / "webnlg_2017" / "dev", "dev"))
    assert unchanged > 97 and replaced < 1.6


def test_e2e_references_mention_their_slots_and_no_others(data_home: Path) -> None:
    """The original references omit 7 % of the slots, which the cleaned records lack."""
    files = (("e2e/devset.csv", 90, 2.5), ("e2e_cleaned/devel-fixed.no-ol.csv", 98.5, 2))
    for file, min_unchanged, max_replaced in files:
        unchanged, replaced = shares(read_e2e(data_home / file, "dev"), every=4)
        assert unchanged > min_unchanged and replaced < max_replaced, file
