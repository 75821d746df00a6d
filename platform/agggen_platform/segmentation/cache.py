"""A cache of facts by text, shared by jobs: an SQLite file for each fingerprint of a segmenter.

Several processes may use a file at once (write-ahead log; a transaction per batch). The folder must be on a local disk,
because SQLite's log needs shared memory; so each node of a cluster has its own. If the file is damaged, full, or locked
for too long, there is a warning, and texts are segmented without the cache.

Facts are in two tables of at most half the limit each. Hits in the old table are copied to the new one. When the new
table is full, it replaces the old one, and facts that were not used meanwhile are deleted.
"""

from __future__ import annotations

import hashlib
import logging
import re
import sqlite3
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from agggen.errors import AggGenError
from agggen.facts import check_facts
from agggen_platform.cache import cache_limit

_log = logging.getLogger(__name__)
_LOOKUP = 500  # keys in one query; SQLite takes at most 999 on old versions
_TABLE = "CREATE TABLE IF NOT EXISTS {} (text BLOB PRIMARY KEY, ends BLOB) WITHOUT ROWID"
_UNSAFE = re.compile(r"[^\w.\-]")


class FactCache:
    """The facts of a segmenter by text. Threads may use it in turn, not concurrently."""

    def __init__(self, folder: Path, fingerprint: str, patience: float = 30.0, limit: int | None = None) -> None:
        """
        Args:
            patience: seconds that a read or write may wait for another process.
            limit: approximate bytes of the file; by default `cache_limit`.
        """
        self._limit = limit or cache_limit()
        self.errors = 0
        """The number of failed uses."""
        self._connection: sqlite3.Connection | None = None
        self._path = folder / f"{_UNSAFE.sub('_', fingerprint)}.sqlite"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = _open(self._path, patience)
        except (sqlite3.DatabaseError, OSError) as error:
            self._give_up(error)

    def get(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The facts of those texts that are known."""
        if self._connection is None or not texts:
            return {}
        by_key = {_key(text): text for text in texts}
        keys = list(by_key)
        known: dict[str, tuple[str, ...]] = {}
        renewals: list[tuple[bytes, bytes]] = []
        try:
            for start in range(0, len(keys), _LOOKUP):
                batch = keys[start : start + _LOOKUP]
                for table in ("old", "facts"):
                    query = f"SELECT text, ends FROM {table} WHERE text IN ({','.join('?' * len(batch))})"
                    for key, ends in self._connection.execute(query, batch):
                        text = by_key[key]
                        facts = _pieces(text, ends)
                        if facts is not None:
                            known[text] = facts
                            if table == "old":
                                renewals.append((key, ends))
            if renewals:
                self._write(renewals)
        except sqlite3.DatabaseError as error:
            self._give_up(error)
        return known

    def put(self, facts: Mapping[str, Iterable[str]]) -> None:
        """Stores the facts of texts."""
        if self._connection is None or not facts:
            return
        rows = [(_key(text), array("I", accumulate(map(len, pieces))).tobytes()) for text, pieces in facts.items()]
        try:
            self._write(rows)
        except sqlite3.DatabaseError as error:
            self._give_up(error)

    def _write(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        assert self._connection is not None
        do = self._connection.execute
        do("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)
        size, of_old = self._pages(), do("PRAGMA user_version").fetchone()[0]
        if (size - of_old) * do("PRAGMA page_size").fetchone()[0] > self._limit / 2:
            do("DROP TABLE old")
            do("ALTER TABLE facts RENAME TO old")
            do(_TABLE.format("facts"))
            do(f"PRAGMA user_version = {self._pages()}")
        do("COMMIT")

    def _pages(self) -> int:
        """The number of pages in use."""
        assert self._connection is not None
        names = ("page_count", "freelist_count")
        total, free = (self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        return int(total - free)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: Exception) -> None:
        """Disables the cache; a programming error is raised again."""
        if isinstance(error, sqlite3.ProgrammingError):
            raise error
        _log.warning("the cache of facts %s cannot be used: %s", self._path, error)
        self.errors += 1
        try:
            self.close()
        except sqlite3.Error:
            self._connection = None


def _open(path: Path, patience: float) -> sqlite3.Connection:
    """A connection to the file with its tables. SQLite's own timeout does not cover the switch to a write-ahead log."""
    deadline = time.monotonic() + patience
    while True:
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")  # a lost cache entry is computed again
            for name in ("facts", "old"):
                connection.execute(_TABLE.format(name))
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
    """The text cut at `ends`; None if they do not fit it (a damaged entry)."""
    try:
        offsets = array("I", ends)
        return check_facts(text, [text[a:b] for a, b in zip([0, *offsets], offsets, strict=False)])
    except (ValueError, AggGenError):
        return None
