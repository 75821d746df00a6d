"""Facts of texts that were segmented before, by any job: one SQLite file a segmenter fingerprint.

Several processes may use one file at once (write-ahead log; every batch is one transaction). The folder must be on a
local disk, because SQLite's log needs shared memory: on a cluster each node has its own. A cache cannot hurt: when it
is damaged, full or locked for too long, the texts are segmented as if it were not there.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from agggen.errors import AggGenError
from agggen.facts import check_facts

_LOOKUP = 500  # keys in one query; SQLite takes at most 999 on old versions
_UNSAFE = re.compile(r"[^\w.\-]")


def default_folder() -> Path:
    """``AGGGEN_CACHE``/facts, else ``~/.cache/agggen/facts``."""
    return Path(os.environ.get("AGGGEN_CACHE") or "~/.cache/agggen").expanduser() / "facts"


class FactCache:
    """The facts that one segmenter found, by text."""

    def __init__(self, folder: Path, fingerprint: str, patience: float = 30.0) -> None:
        """`patience`: seconds that a read or write may wait for another process."""
        self.errors = 0
        """How often the cache could not be used."""
        self._connection: sqlite3.Connection | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{_UNSAFE.sub('_', fingerprint)}.sqlite"
            self._connection = _open(path, patience)
        except (sqlite3.Error, OSError):
            self._give_up()

    def get(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The facts of those texts that are known."""
        if self._connection is None or not texts:
            return {}
        by_key = {_key(text): text for text in texts}
        keys = list(by_key)
        hits: dict[str, tuple[str, ...]] = {}
        try:
            for start in range(0, len(keys), _LOOKUP):
                batch = keys[start : start + _LOOKUP]
                query = f"SELECT text, ends FROM facts WHERE text IN ({','.join('?' * len(batch))})"
                for key, ends in self._connection.execute(query, batch):
                    text = by_key[key]
                    facts = _pieces(text, ends)
                    if facts is not None:
                        hits[text] = facts
        except sqlite3.Error:
            self._give_up()
        return hits

    def put(self, facts: Mapping[str, Iterable[str]]) -> None:
        """Keeps the facts of texts."""
        if self._connection is None or not facts:
            return
        rows = [(_key(text), array("I", accumulate(map(len, pieces))).tobytes()) for text, pieces in facts.items()]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            self._give_up()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self) -> None:
        self.errors += 1
        try:
            self.close()
        except sqlite3.Error:
            self._connection = None


def _open(path: Path, patience: float) -> sqlite3.Connection:
    """A connection to the file, its table made. SQLite's own timeout does not cover the change to a write-ahead log."""
    deadline = time.monotonic() + patience
    while True:
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")  # a lost cache entry is computed again
            connection.execute("CREATE TABLE IF NOT EXISTS facts (text BLOB PRIMARY KEY, ends BLOB) WITHOUT ROWID")
        except sqlite3.Error as error:
            connection.close()
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return connection


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _pieces(text: str, ends: bytes) -> tuple[str, ...] | None:
    """The text cut at `ends`; None where they are no segmentation of it (a damaged entry)."""
    try:
        offsets = array("I", ends)
        return check_facts(text, [text[a:b] for a, b in zip([0, *offsets], offsets, strict=False)])
    except (ValueError, AggGenError):
        return None
