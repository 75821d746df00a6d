"""A cache of facts by text, shared by jobs: one SQLite file per segmenter fingerprint.

Several processes may use a file concurrently. It must be on a local disk, so each node has its own cache. If the file
is damaged or locked for too long, or the disk is full, the cache is disabled with a warning. A file that reaches its
size limit is emptied.
"""

import hashlib
import logging
import re
import sqlite3
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from agggen.errors import AggGenError
from agggen.facts import check_facts
from agggen_platform.cache import cache_limit

_log = logging.getLogger(__name__)


class FactCache:
    """The facts of a segmenter by text. May be used from several threads, but not concurrently."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.errors = 0  # number of failures
        self._connection: sqlite3.Connection | None = None
        self._path = folder / (re.sub(r"[^\w.\-]", "_", fingerprint) + ".sqlite")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # timeout: 30 s for locks. check_same_thread: Ray Data creates and calls a worker in different threads.
            self._connection = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
            execute = self._connection.execute
            execute("PRAGMA synchronous=OFF")  # entries lost in a crash can be recomputed
            page_size = execute("PRAGMA page_size").fetchone()[0]
            execute(f"PRAGMA max_page_count = {cache_limit() // page_size}")
            execute("BEGIN IMMEDIATE")
            execute("CREATE TABLE IF NOT EXISTS facts (text BLOB PRIMARY KEY, ends BLOB) WITHOUT ROWID")
            execute("COMMIT")
        except (sqlite3.DatabaseError, OSError) as error:
            self._disable(error)

    def get(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The facts of each text that is in the cache, by text."""
        if self._connection is None:
            return {}
        cached: dict[str, tuple[str, ...]] = {}
        try:
            for text in texts:
                row = self._connection.execute("SELECT ends FROM facts WHERE text = ?", (_key(text),)).fetchone()
                if row is not None and (facts := _facts_of(text, row[0])) is not None:
                    cached[text] = facts
        except sqlite3.DatabaseError as error:
            self._disable(error)
        return cached

    def put(self, facts_by_text: Mapping[str, Iterable[str]]) -> None:
        if self._connection is None or not facts_by_text:
            return
        rows = [
            (_key(text), array("I", accumulate(map(len, facts))).tobytes()) for text, facts in facts_by_text.items()
        ]
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                    raise
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                execute("DELETE FROM facts")  # SQLite reuses the pages
            else:
                execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._disable(error)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _disable(self, error: Exception) -> None:
        """Closes the cache with a warning; raises `error` if it is a ProgrammingError, which is a bug."""
        if isinstance(error, sqlite3.ProgrammingError):
            raise error
        _log.warning("the fact cache %s is disabled: %s", self._path, error)
        self.errors += 1
        self.close()


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _facts_of(text: str, ends: bytes) -> tuple[str, ...] | None:
    """The facts of a text from their end offsets (an array of uint32); None for a damaged entry."""
    try:
        offsets = array("I", ends)
        return check_facts(text, [text[start:end] for start, end in pairwise([0, *offsets])])
    except (ValueError, AggGenError):
        return None
