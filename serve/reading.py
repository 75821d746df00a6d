"""Bodies of requests: bounded, and read into raw records (JSON objects) that nobody has looked into yet.

JSON is read strictly: UTF-8, no NaN or Infinity, no number beyond a double, no key twice in an object, no deeper
nesting than `limits.json_depth`. CSV is that of `agggen.corpora.delimited` (a triple a row), Turtle that of
`serve.turtle`.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request

from agggen.corpora.delimited import read_csv
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError
from agggen_platform.serving.config import LimitsConfig
from serve.errors import Problem, printable
from serve.turtle import read_turtle

JSON = "application/json"
NDJSON = "application/x-ndjson"
CSV = "text/csv"
TURTLE = "text/turtle"

Raw = Any
"""A record as JSON has it, or the Problem that stands in its place."""


def media_type(request: Request, known: tuple[str, ...]) -> str:
    """The body's media type.

    Raises:
        Problem: it is none of the `known`, or not UTF-8.
    """
    given, *parameters = (part.strip().lower() for part in request.headers.get("content-type", "").split(";"))
    if given not in known:
        raise Problem("media-type", f"Content-Type is {given or 'missing'}; it must be {' or '.join(known)}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise Problem("media-type", f"the charset is {value.strip()}; bodies must be UTF-8")
    return given


async def body_of(request: Request) -> bytes:
    """The request's body, whose size `serve.limits.BodyLimit` bounds; raises Problem if it is empty."""
    data = await request.body()
    if not data.strip():
        raise Problem("malformed", "the body is empty")
    return data


def utf8(data: bytes, what: str) -> str:
    """`data` as text without a byte order mark; raises Problem with the place of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        place = f"byte 0x{data[error.start]:02x} at position {error.start + 1}"
        raise Problem("malformed", f"{what} is not UTF-8: {place}") from None


def parse_json(data: bytes, depth: int, what: str = "the body") -> Any:
    """Reads strict JSON.

    Raises:
        Problem: it is not UTF-8, no JSON, or nested deeper than `depth`; says where.
    """
    text = utf8(data, what)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refused, parse_float=_finite)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Problem("malformed", f"{what} is not JSON at {place}: {error.msg}") from None
    except RecursionError:
        raise Problem("malformed", f"{what} is nested deeper than {depth} levels") from None
    except _NotStrict as error:
        raise Problem("malformed", f"{what} is not strict JSON: {error}") from None
    except ValueError:  # Python's own limit
        raise Problem("malformed", f"{what} holds an integer of thousands of digits") from None
    if _is_deeper(value, depth):
        raise Problem("malformed", f"{what} is nested deeper than {depth} levels")
    return value


class _NotStrict(Exception):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _NotStrict(f"an object has the key {twice!r:.80} twice")
    return found


def _refused(name: str) -> Any:
    raise _NotStrict(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _NotStrict(f"the number {digits:.40} is too large")
    return value


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(depth):
        level = [
            part
            for container in level
            for part in (container.values() if type(container) is dict else container)
            if type(part) is list or type(part) is dict
        ]
        if not level:
            return False
    return bool(level)


def check_unicode(value: Any) -> None:
    """Passes if all strings of a JSON value are Unicode; raises Problem with the place of half a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        place = next(_halves(value, ()))
        detail = f"{place or 'the record'}: half of a surrogate pair is no Unicode character"
        raise Problem("record", detail, field=place or None) from None


def _halves(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    """The places of strings that no UTF-8 can hold, printable."""
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        yield printable(".".join(path))
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _halves(key, (*path, str(key)))
        yield from _halves(part, (*path, str(key)))


async def records_of(data: bytes, given: str, limits: LimitsConfig) -> list[Raw]:
    """The raw records of a body in CSV or Turtle, read beside the event loop.

    Raises:
        Problem: nothing in it can be read as records.
    """
    if given == TURTLE and len(data) > limits.turtle_bytes:
        raise Problem("too-large", f"Turtle may have at most {limits.turtle_bytes} bytes")
    if given == TURTLE:
        found = await asyncio.to_thread(read_turtle, utf8(data, "the body"), limits.records * limits.triples)
    else:
        found = await asyncio.to_thread(_csv, data)
    if not found:
        raise Problem("invalid", "the body holds no records")
    return found


def _csv(data: bytes) -> list[Mapping[str, Any] | Problem]:
    found: list[Mapping[str, Any] | Problem] = []
    rejected: set[str] = set()
    try:
        for item in read_csv(io.BytesIO(data), "the body"):
            if not isinstance(item, Reject):
                found.append({"id": item.id, "triples": [[t.subject, t.predicate, t.object] for t in item.triples]})
            elif item.id is None or item.id not in rejected:  # each row of a record may be rejected; it is one record
                rejected |= set() if item.id is None else {item.id}
                where = "" if item.line is None else f"line {item.line}: "
                found.append(Problem("record", where + item.reason, record=item.id))
    except AggGenError as error:
        raise Problem("malformed", str(error)) from None
    return found
