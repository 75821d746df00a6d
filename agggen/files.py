"""Reads and hashes the files of a model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from agggen.errors import BundleError


def read_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        BundleError: the file is not valid JSON, or is nested too deeply to be parsed.
        OSError: the file cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BundleError(f"{path} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise BundleError(f"{path} is nested too deeply") from error


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
