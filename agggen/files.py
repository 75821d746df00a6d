"""Reads, writes and hashes files, and replaces them atomically."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agggen.errors import BundleError

if TYPE_CHECKING:
    from torch import Tensor


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


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Writes tensors and metadata to the file `path`; converts SafetensorError for a failed write to OSError."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(dict(tensors), path, metadata=metadata and dict(metadata))
    except SafetensorError as error:
        match = re.search(r"\(os error (\d+)\)", str(error))
        if match is None:
            raise
        raise OSError(int(match[1]), os.strerror(int(match[1])), str(path)) from error
