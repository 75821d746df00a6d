"""The folder of what can be fetched or made again: bundles of a store, AllenNLP's environment and archives."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """``AGGGEN_CACHE``, else ``XDG_CACHE_HOME``/agggen, else ``~/.cache/agggen``."""
    if chosen := os.environ.get("AGGGEN_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agggen"


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Only one process at a time is in here with the same `path`, a file or folder that is being made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
