"""What a body may look like, and what is said of one that may not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agggen_platform.serving.config import LimitsConfig
from serve.errors import DETAIL_CHARS, Problem, printable
from serve.reading import CSV, TURTLE, parse_json, records_of
from serve.turtle import read_turtle

LIMITS = LimitsConfig(records=10, triples=5, turtle_bytes=4096)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": "\xff"}', "byte 0xff at position 8"),
        ('{"a": 1}'.encode("utf-16"), "byte 0xff at position 1"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b"[-Infinity]", "-Infinity is no JSON number"),
        (b"[1e400]", "1e400 is too large"),
        (b"[" + b"9" * 5000 + b"]", "thousands of digits"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' twice"),
        (b'{"a": 1,\n "b"}', "line 2, column 5"),
        (b'{"a": "\x01"}', "line 1, column 8"),
        (b'["' + b"a" * 10, "line 1, column 2"),
        (b"[[[[[1]]]]]", "deeper than 4"),
        (b'{"a": [{"b": {"c": []}}]}', "deeper than 4"),
        (b"[" * 100_000, "deeper than 4"),
        (b'{"a":' * 100_000, "deeper than 4"),
        (b"[1] [2]", "line 1, column 5"),
    ],
)
def test_json_is_read_strictly(data: bytes, says: str) -> None:
    with pytest.raises(Problem) as found:
        parse_json(data, 4)
    assert says in found.value.detail
    assert found.value.kind.status == 400


def test_json_of_the_deepest_nesting_is_read() -> None:
    assert parse_json(b'\xef\xbb\xbf[[[["x", 1.5, null]]], {}]', 4) == [[[["x", 1.5, None]]], {}]
    assert parse_json(b"3", 4) == 3


def read(data: bytes, kind: str) -> list[Any]:
    return asyncio.run(records_of(data, kind, LIMITS))


def test_turtle_gives_a_record_for_each_subject() -> None:
    found = read_turtle(
        """@prefix e: <http://example.org/ns#> . @base <http://example.org/> .
        e:Ada_Lovelace e:birthPlace e:City_of_London ; e:age 36 ; e:born "1815-12-10"^^<urn:date>, "1815"@en .
        <urn:isbn:42> a <http://example.org/Caf%C3%A9_menu> .
        e:Ada_Lovelace e:isKnown true ; e:height 1.60 ; e:age 36 .""",
        20,
    )
    ada, menu = found
    assert ada == {
        "id": "http://example.org/ns#Ada_Lovelace",
        "triples": [
            ["Ada Lovelace", "birthPlace", "City of London"],
            ["Ada Lovelace", "age", "36"],
            ["Ada Lovelace", "born", "1815-12-10"],
            ["Ada Lovelace", "born", "1815"],
            ["Ada Lovelace", "isKnown", "true"],
            ["Ada Lovelace", "height", "1.60"],
        ],
    }
    assert menu == {"id": "urn:isbn:42", "triples": [["42", "type", "Café menu"]]}


def test_what_has_no_name_cannot_be_said() -> None:
    found = read_turtle('<a> <knows> _:x . _:x <name> "X" . <b> <c> "d" .', 20)
    holder, blank, good = found
    assert isinstance(holder, Problem) and (holder.record, holder.field) == ("a", "triples.0.object")
    assert "'knows' is a blank node" in holder.detail
    assert isinstance(blank, Problem) and blank.field == "id"
    assert good == {"id": "b", "triples": [["b", "c", "d"]]}
    *_, listed = read_turtle("<a> <likes> (1 2) .", 20)
    assert isinstance(listed, Problem) and listed.record == "a"


BOMB = """<a> <b> "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><x>&b;</x>"^^
<http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral> ."""


def test_literals_are_not_interpreted() -> None:
    ((_, _, said),) = read_turtle(BOMB.replace("\n", ""), 20)[0]["triples"]
    assert "&b;" in said
    assert read_turtle('<a> <b> "x"^^<http://www.w3.org/2001/XMLSchema#integer> .', 20)[0]["triples"] == [
        ["a", "b", "x"]
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<a> <b> .", "line 1"),
        ('<a> <b> "c" .\n<a> e:b "c" .', "line 2"),
        ("<a> <b> <c>", "line 1"),
        ("[" * 5000, "too deeply"),
        ("(" * 50_000, "too deeply"),
        ('{ <a> <b> "c" . }', "line 1"),
        ("@prefix", "line 1"),
        ("<a> <b> " + "9" * 5000 + " .", "line 1"),
        ("<a> <b> " + ", ".join(f'"{i}"' for i in range(21)) + " .", "more than 20 triples"),
    ],
)
def test_what_is_no_turtle_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(Problem, match=says):
        read_turtle(text, 20)


def test_one_bad_row_of_a_csv_costs_its_record() -> None:
    rows = b"id,subject,predicate,object\n1,a,b,c\n2,a,b,\n2,a,c,d\n3,a,b\n4,a,b,c\n"
    found = read(rows, CSV)
    good = [record["id"] for record in found if not isinstance(record, Problem)]
    bad = [(problem.record, problem.detail) for problem in found if isinstance(problem, Problem)]
    assert good == ["1", "4"]
    assert bad == [
        ("2", "line 3: the triple's object is empty"),
        (None, "line 5: 3 fields where the header has 4"),
    ]


@pytest.mark.parametrize(
    ("data", "kind", "status", "says"),
    [
        (b"a,b\n1,2\n", CSV, 400, "no column subject"),
        (b"subject,predicate,object\n", CSV, 422, "no records"),
        (b"subject,predicate,object\n\xff,b,c\n", CSV, 400, "byte 0xff"),
        (b"# nothing\n", TURTLE, 422, "no records"),
        (b'<a> <b> "\xff" .', TURTLE, 400, "position 10"),
        (b"#" * 5000, TURTLE, 413, "4096 bytes"),
    ],
)
def test_what_holds_no_records_is_refused(data: bytes, kind: str, status: int, says: str) -> None:
    with pytest.raises(Problem, match=says) as found:
        read(data, kind)
    assert found.value.kind.status == status


def test_details_quote_no_more_than_a_screen_and_nothing_that_cannot_be_printed() -> None:
    assert printable("a\ud800\x00\u202e\nb") == "a\\ud800\\x00\\u202e\\nb"
    assert len(Problem("invalid", "x" * 10_000).detail) == DETAIL_CHARS
