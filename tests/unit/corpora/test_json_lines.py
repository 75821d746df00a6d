"""Users' records as JSON lines, and invalid lines."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agggen.corpora.json_lines import read_jsonl
from agggen.corpora.rejects import Reject, split_rejects
from agggen.records import Fact, Plan, Record, Reference, Triple


def read(content: str) -> tuple[list[Record], list[Reject]]:
    return split_rejects(read_jsonl(io.BytesIO(content.encode()), "mine.jsonl"))


def test_the_round_trip_of_a_record_is_lossless(tmp_path: Path) -> None:
    reference = Reference("It is old. Big.", (Fact("It is old. ", ("age",)), Fact("Big.")), Plan.parse("[age] [size]"))
    record = Record("é1", (Triple("a", "age", "1"), Triple("a", "size", "2")), (reference, Reference("Hm.")), "City")
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(record.as_dict()) + "\n", encoding="utf-8")
    assert list(read_jsonl(path)) == [record]


def test_a_record_without_an_id_gets_its_line_number() -> None:
    records, rejects = read('{"triples": [["a", "b", "c"]]}\n\n{"triples": [["a", "b", "c"]], "id": 7}\n')
    assert ([record.id for record in records], rejects) == (["1", "7"], [])


VALID = '{"id": "good", "triples": [["a", "b", "c"]]}'


def line_with(**parts: Any) -> str:
    return json.dumps({"id": "x", "triples": [["a", "b", "c"]]} | parts)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON at column 2"),
        ("[]", "a record must be an object"),
        ('{"id": "x"}', "'triples' must be a list"),
        (line_with(triples=[]), "record 'x' has no triples"),
        (line_with(triples=[["a", "b"]]), "record 'x': a triple needs 3 parts .* this has 2"),
        (line_with(triples=[["a", "b", ""]]), "the triple's object is empty"),
        (line_with(triples=[["a", "b", "c\0"]]), "control character"),
        (line_with(triples=[["a", "b", "c\ud800"]]), r"contains '\\ud800', half of a surrogate pair"),
        ('{"id": "x", "tripels": []}', "unknown key 'tripels'"),
        (line_with(references="A text."), "'references' must be a list, not str"),
        (line_with(references=[["A text."]]), "a reference must be a string or an object with 'text'"),
        (line_with(references=[{"text": "A", "plan": ["b"]}]), "written as a string"),
        (line_with(references=[{"text": "A", "plan": "[d]"}]), "names 'd'"),
        (line_with(references=[{"text": "A", "facts": [1]}]), "a fact must be a string or an object with 'text'"),
        (
            line_with(references=[{"text": "A", "facts": [{"text": "A", "predicates": "b"}]}]),
            "'predicates' must be a list",
        ),
        (line_with(category=3), "the category must be a string"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": ' + "9" * 5000 + "}", "integer string conversion"),
        (VALID, "line 1 has the same id"),
    ],
    ids=lambda value: value[:40],
)
def test_an_invalid_line_is_rejected_and_the_other_lines_are_read(line: str, reason: str) -> None:
    records, (reject,) = read(f'{VALID}\n{line}\n{{"id": "last", "triples": [["a", "b", "c"]]}}')
    assert [record.id for record in records] == ["good", "last"]
    assert (reject.file, reject.line) == ("mine.jsonl", 2)
    assert re.search(reason, reject.reason)
