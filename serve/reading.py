"""Parses request bodies into JSON values, which are validated later.

JSON is parsed strictly: UTF-8, no NaN or Infinity, no number too large for a double, no duplicate key in an object.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request

from serve.errors import Problem, printable

JSON = "application/json"
NDJSON = "application/x-ndjson"

_THREAD_BYTES = 32 << 10  # larger documents are parsed in a thread, so that the event loop stays free
_MAX_CONTAINERS = 1 << 16  # lists and objects per document: the parser holds the GIL while it creates them


def check_media_type(request: Request, expected: str) -> None:
    """Raises Problem if the body is not of the media type `expected`, or not UTF-8."""
    media_type, *parameters = (part.strip().lower() for part in request.headers.get("content-type", "").split(";"))
    if media_type != expected:
        raise Problem("media-type", f"Content-Type is {media_type or 'missing'}; it must be {expected}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise Problem("media-type", f"the charset is {value.strip()}; bodies must be UTF-8")


async def parsed(data: bytes, subject: str = "the body") -> Any:
    """Like `parse_json`, without blocking the event loop."""
    if len(data) < _THREAD_BYTES:
        return parse_json(data, subject)
    return await asyncio.to_thread(parse_json, data, subject)


def parse_json(data: bytes, subject: str = "the body") -> Any:
    """Parses strict JSON; raises Problem with the position of the first error."""
    if data.count(b"[") + data.count(b"{") > _MAX_CONTAINERS:
        raise Problem("too-large", f"{subject} has more than {_MAX_CONTAINERS} lists and objects")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        return json.loads(
            text,
            object_pairs_hook=_object_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite_number,
        )
    except UnicodeDecodeError as error:
        position = f"byte 0x{data[error.start]:02x} at position {error.start + 1}"
        raise Problem("malformed", f"{subject} is not UTF-8: {position}") from None
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise Problem("malformed", f"{subject} is not JSON at {position}: {error.msg}") from None
    except RecursionError:
        raise Problem("malformed", f"{subject} is nested too deeply") from None
    except _NotStrict as error:
        raise Problem("malformed", f"{subject} is not strict JSON: {error}") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise Problem("malformed", f"{subject} has an integer of thousands of digits") from None


class _NotStrict(Exception):
    pass


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _NotStrict(f"an object has the key {duplicate!r:.80} twice")
    return members


def _refuse_constant(name: str) -> Any:
    raise _NotStrict(f"{name} is not a JSON number")


def _finite_number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _NotStrict(f"the number {digits:.40} is too large")
    return value


def check_unicode(value: Any) -> None:
    """Raises Problem with the path of a string that has a lone surrogate, which UTF-8 answers cannot contain."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        path = next(_surrogate_paths(value, ()))
        detail = f"{path or 'the record'}: half of a surrogate pair is not a Unicode character"
        raise Problem("record", detail, field=path or None) from None


def _surrogate_paths(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    """The printable paths of strings that cannot be encoded in UTF-8."""
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        yield printable(".".join(path))
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _surrogate_paths(key, (*path, str(key)))
        yield from _surrogate_paths(part, (*path, str(key)))
