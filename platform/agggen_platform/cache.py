"""The cache folder: copies of bundles, facts by text, and by default AllenNLP's Python environment."""

import os
from pathlib import Path

from agggen.errors import ConfigError


def cache_folder() -> Path:
    """``AGGGEN_CACHE``, else ``XDG_CACHE_HOME``/agggen, else ``~/.cache/agggen``."""
    if value := os.environ.get("AGGGEN_CACHE"):
        return Path(value).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agggen"


def cache_limit() -> int:
    """Maximum bytes of the bundle cache and of each segmenter's fact cache: ``AGGGEN_CACHE_GB``, else 20 GB."""
    value = os.environ.get("AGGGEN_CACHE_GB") or "20"
    try:
        limit = int(float(value) * 1e9)
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise ConfigError(f"AGGGEN_CACHE_GB must be a number above 0, not {value!r}")
    return limit
