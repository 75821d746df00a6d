"""Strict JSON, and the messages about invalid bodies."""

from __future__ import annotations

import asyncio
import json

import pytest

from serve.errors import DETAIL_CHARS, Problem, printable
from serve.reading import parse_json, parsed


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": "\xff"}', "byte 0xff at position 8"),
        ('{"a": 1}'.encode("utf-16"), "byte 0xff at position 1"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"[1e400]", "1e400 is too large"),
        (b"[" + b"9" * 5000 + b"]", "thousands of digits"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' twice"),
        (b'{"a": 1,\n "b"}', "line 2, column 5"),
        (b'{"a": "\x01"}', "line 1, column 8"),
        (b'["' + b"a" * 10, "line 1, column 2"),
        (b"[" * 60_000, "too deeply"),
        (b'{"a":' * 60_000, "too deeply"),
        (b"[1] [2]", "line 1, column 5"),
    ],
)
def test_json_is_read_strictly(data: bytes, says: str) -> None:
    with pytest.raises(Problem) as refused:
        parse_json(data)
    assert says in refused.value.detail
    assert refused.value.kind.status == 400


def test_json_of_too_many_parts_is_refused_before_it_is_parsed() -> None:
    for part in (b"[],", b"{},", b'{"a": [1]},'):
        with pytest.raises(Problem, match="lists and objects") as error:
            parse_json(b"[" + part * 70_000 + b"1]")
        assert error.value.kind.status == 413


def test_small_and_large_json_are_parsed() -> None:
    assert parse_json(b'\xef\xbb\xbf[[[["x", 1.5, null]]], {}]') == [[[["x", 1.5, None]]], {}]
    large = [{"id": "x" * 50_000}]
    assert asyncio.run(parsed(json.dumps(large).encode())) == large
    with pytest.raises(Problem, match="the line is not JSON"):
        asyncio.run(parsed(b"[" + b" " * 50_000, "the line"))


def test_details_are_truncated_and_unprintable_characters_escaped() -> None:
    assert printable("a\ud800\x00\u202e\nb") == "a\\ud800\\x00\\u202e\\nb"
    for character in ("x", "\x00", "\U000e0001"):
        detail = Problem("invalid", character * 10_000).detail
        assert len(detail) == DETAIL_CHARS and detail.endswith("...")
