"""The folder of what can be fetched or made again: bundles of a store, facts, AllenNLP's environment and archives."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agggen.errors import ConfigError


def cache_folder() -> Path:
    """``AGGGEN_CACHE``, else ``XDG_CACHE_HOME``/agggen, else ``~/.cache/agggen``."""
    if chosen := os.environ.get("AGGGEN_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agggen"


def cache_limit() -> int:
    """How many bytes the bundles together may take, and the facts of each segmenter: ``AGGGEN_CACHE_GB``, else 20 GB.

    Raises:
        ConfigError: it is no number above 0.
    """
    chosen = os.environ.get("AGGGEN_CACHE_GB") or "20"
    try:
        limit = int(float(chosen) * 1e9)
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise ConfigError(f"AGGGEN_CACHE_GB must be a number above 0, not {chosen!r}")
    return limit


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Only one process at a time is in here with the same `path`, a file or folder that is being made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
