"""Parses request bodies into JSON values, which are validated later.

JSON is parsed strictly: UTF-8, no NaN or Infinity, no number too large for a double, no duplicate key in an object.
"""

import asyncio
import json
import math
from collections import Counter
from typing import Any

from starlette.requests import Request

from serve.errors import Problem

JSON = "application/json"
NDJSON = "application/x-ndjson"

_THREAD_BYTES = 32 << 10  # larger documents are parsed in a thread, so that the event loop stays free
_MAX_CONTAINERS = 1 << 16  # lists and objects per document: the parser holds the GIL while it creates them


def check_media_type(request: Request, expected: str) -> None:
    """Raises Problem if the body is not of the media type `expected`, or compressed."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != expected:
        raise Problem("media-type", f"Content-Type is {media_type or 'missing'}; it must be {expected}")
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        detail = "compressed bodies are not supported: send it without Content-Encoding"
        raise Problem("media-type", detail, headers={"Accept-Encoding": "identity"})


async def parsed(data: bytes, subject: str = "the body") -> Any:
    """Parses strict JSON without blocking the event loop; raises Problem with the position of the first error."""
    if len(data) < _THREAD_BYTES:
        return _parse_json(data, subject)
    return await asyncio.to_thread(_parse_json, data, subject)


def _parse_json(data: bytes, subject: str) -> Any:
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
    except ValueError as error:  # from the functions below, or Python's limit on the digits of an integer
        raise Problem("malformed", f"{subject} is not strict JSON: {error}") from None


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((duplicate, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"an object has the key {duplicate!r:.80} twice")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite_number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits:.40} is too large")
    return value


def check_unicode(value: Any) -> None:
    """Raises Problem for a lone surrogate in a string, which UTF-8 answers cannot contain."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem("record", "the record has half of a surrogate pair, which is not a Unicode character") from None
