"""Options that name folders of this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from agggen.errors import ConfigError

_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]+:/", re.I)  # a path has made one slash of two

Folders = TypeVar("Folders", Path, "list[Path] | None")


def on_this_machine(value: Folders) -> Folders:
    """`given`; the callback of an option that takes a folder or several.

    Raises:
        ConfigError: it is an address, which would make a folder called ``s3:``.
    """
    folders: Sequence[Path] = [value] if isinstance(value, Path) else value or ()
    for folder in folders:
        if address := _SCHEME.match(str(folder)):
            rest = str(folder)[address.end() :]
            raise ConfigError(f"{address.group()}/{rest}: this can only be a folder of this machine")
    return value
