"""Reads and hashes files, and replaces them atomically."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agggen.errors import BundleError


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises BundleError if it is not valid JSON, or nested too deeply to be parsed."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BundleError(f"{path} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise BundleError(f"{path} is nested too deeply") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`: renamed to `path` at the end, or removed if the block raises an error."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
