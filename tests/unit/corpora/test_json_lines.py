"""Users' records as JSON lines, and invalid lines."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from agggen.corpora.json_lines import read_jsonl
from agggen.corpora.rejects import Reject, split_rejects
from agggen.records import Fact, Plan, Record, Reference, Triple


def read(content: str | bytes) -> tuple[list[Record], list[Reject]]:
    data = content.encode() if isinstance(content, str) else content
    return split_rejects(read_jsonl(io.BytesIO(data), "mine.jsonl"))


def test_the_round_trip_of_a_record_is_lossless(tmp_path: Path) -> None:
    reference = Reference("It is old. Big.", (Fact("It is old. ", ("age",)), Fact("Big.")), Plan.parse("[age] [size]"))
    record = Record("é1", (Triple("a", "age", "1"), Triple("a", "size", "2")), (reference, Reference("Hm.")), "City")
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(record.as_dict()) + "\n", encoding="utf-8")
    assert list(read_jsonl(path)) == [record]


def test_a_record_without_an_id_gets_its_line_number() -> None:
    records, rejects = read('{"triples": [["a", "b", "c"]]}\n\n{"triples": [["a", "b", "c"]], "id": 7}\n')
    assert ([record.id for record in records], rejects) == (["1", "7"], [])


GOOD = '{"id": "good", "triples": [["a", "b", "c"]]}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON at column 2"),
        ("[]", "a record must be an object"),
        ('{"id": "x"}', "'triples' must be a list"),
        ('{"id": "x", "triples": []}', "record 'x' has no triples"),
        ('{"id": "x", "triples": [["a", "b"]]}', "record 'x': a triple needs 3 parts .* this has 2"),
        ('{"id": "x", "triples": [["a", "b", ""]]}', "the triple's object is empty"),
        ('{"id": "x", "triples": [["a", "b", "c\\u0000"]]}', "control character"),
        ('{"id": "x", "triples": [["a", "b", "c\\ud800"]]}', r"contains '\\ud800', half of a surrogate pair"),
        ('{"id": "x", "tripels": []}', "unknown key 'tripels'"),
        ('{"id": "x", "triples": [["a", "b", "c"]], "references": "A text."}', "'references' must be a list, not str"),
        (
            '{"id": "x", "triples": [["a", "b", "c"]], "references": [{"text": "A", "plan": ["b"]}]}',
            "written as a string",
        ),
        ('{"id": "x", "triples": [["a", "b", "c"]], "references": [{"text": "A", "plan": "[d]"}]}', "names 'd'"),
        (
            '{"id": "x", "triples": [["a", "b", "c"]],'
            ' "references": [{"text": "A", "facts": [{"text": "A", "predicates": "b"}]}]}',
            "'predicates' must be a list",
        ),
        ('{"id": "x", "triples": [["a", "b", "c"]], "category": 3}', "the category must be a string"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": ' + "9" * 5000 + "}", "integer string conversion"),
        (GOOD, "line 1 has the same id"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_an_invalid_line_is_rejected_and_the_other_lines_are_read(line: str, reason: str) -> None:
    records, (reject,) = read(f'{GOOD}\n{line}\n{{"id": "last", "triples": [["a", "b", "c"]]}}')
    assert [record.id for record in records] == ["good", "last"]
    assert (reject.file, reject.line) == ("mine.jsonl", 2)
    assert re.search(reason, reject.reason)
