"""Options that name folders: of this machine, or ones that outlast a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from agggen.errors import ConfigError
from agggen_platform.cli import console

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


def warn_if_temporary(folder: Path | str, instead: str) -> None:
    """Says so if `folder` is a path in the copy of the working directory that Ray makes for a job and deletes later.

    Args:
        instead: what to give, an option or setting.
    """
    if not (_SCHEME.match(str(folder)) or Path(folder).is_absolute()) and "working_dir_files" in Path.cwd().parts:
        console.note(
            f"warning: {folder} lies in {Path.cwd()}, Ray's copy of the working directory, which goes after the job; "
            f"name a folder that stays: {instead}"
        )
