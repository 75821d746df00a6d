"""A worker turns a shard of the input into a file of the output, in an actor of Ray Data or in this process."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from agggen.errors import AggGenError
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.storage.errors import DamagedError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.parquet import check_plain

ATTEMPTS = 3
"""How many workers may die during one shard."""
_ATTEMPTS = ".attempts"


class Tally:
    """Counters that add up: base of the dataclasses that count the outcomes of rows."""

    def add(self, other: Self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def as_dict(self) -> dict[str, int]:
        return asdict(self)  # type: ignore[call-overload]


C = TypeVar("C", bound=Tally)


@dataclass(frozen=True, slots=True)
class Done(Generic[C]):
    """A finished shard."""

    part: str
    counts: C
    found: bool
    """Whether an earlier run had finished it."""
    retries: int
    """Attempts before the successful one, as far as the run that finished it knows: workers died during them."""
    seconds: float

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, counts: type[C]) -> Done[C]:
        data = json.loads(text)
        return cls(**data | {"counts": counts(**data["counts"])})


class Worker(ABC, Generic[C]):
    """Processes one shard a call; subclasses say in `fill` what happens to the rows."""

    key: ClassVar[bytes]
    """The metadata key of a part under which it describes itself."""
    counts: ClassVar[type[Any]]
    """The subclass of `Tally`."""

    def __init__(self, out: str, job: str) -> None:
        self.out, self.job = Folder(out), job

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch of Ray Data: shards as JSON in, `Done` as JSON out."""
        return {"done": [self.run(Shard.from_json(text)).as_json() for text in batch["shard"]]}

    def run(self, shard: Shard) -> Done[C]:
        """Processes a shard unless an earlier run finished it; a finished shard that is not `is_final` is repeated.

        Raises:
            AggGenError: the work cannot be done at all, or `ATTEMPTS` workers died during this shard.
        """
        begin = time.monotonic()
        found = self.find(shard)
        if found is not None and self.is_final(found.counts):
            return Done(shard.part, found.counts, True, found.retries, time.monotonic() - begin)
        retries = self._count_attempt(shard)
        with self.out.new(shard.part) as path, pq.ParquetWriter(path, self.schema(), compression="zstd") as writer:
            counts = self.fill(shard, writer)
            about = {"job": self.job, "shard": _identity(shard), "counts": counts.as_dict(), "retries": retries}
            writer.add_key_value_metadata({self.key: json.dumps(about).encode()})
        self.out.delete(shard.part + _ATTEMPTS)
        return Done(shard.part, counts, False, retries, time.monotonic() - begin)

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of a part."""

    @abstractmethod
    def fill(self, shard: Shard, writer: pq.ParquetWriter) -> C:
        """Writes one or more rows for each input row; returns the counts of their outcomes."""

    @abstractmethod
    def expected_rows(self, shard: Shard, counts: C) -> int:
        """The number of rows of a complete part of this shard."""

    @abstractmethod
    def broken(self, shard: Shard) -> AggGenError:
        """The error for a shard during which `ATTEMPTS` workers died."""

    def is_final(self, counts: C) -> bool:
        """Whether repeating a finished shard would change nothing."""
        return True

    def close(self) -> None:
        """Releases resources; not called in an actor that is killed."""

    def find(self, shard: Shard) -> Done[C] | None:
        """The result of a shard that this job has finished; None if its file is missing, damaged or of another job."""
        try:
            with self.out.open(shard.part) as file, pq.ParquetFile(file) as parquet:
                about = json.loads((parquet.metadata.metadata or {}).get(self.key, b"{}"))
                rows = parquet.metadata.num_rows
        except (FileNotFoundError, pa.ArrowException):
            return None
        if about.get("job") != self.job or about.get("shard") != _identity(shard):
            return None
        counts: C = self.counts(**about["counts"])
        return (
            Done(shard.part, counts, True, about["retries"], 0.0) if rows == self.expected_rows(shard, counts) else None
        )

    def _count_attempt(self, shard: Shard) -> int:
        """Counts attempts: Ray retries the shard of a dead worker, and a row that kills every worker ends the job."""
        attempts = int(self.out.read(shard.part + _ATTEMPTS) or 0)
        if attempts == ATTEMPTS:
            raise self.broken(shard)
        self.out.write(shard.part + _ATTEMPTS, str(attempts + 1).encode())
        return attempts


@contextmanager
def open_part(folder: Folder, part: str, key: bytes, job: str) -> Iterator[pq.ParquetFile]:
    """The file of a finished shard, to be read into the result.

    Args:
        key: of the kind of worker.

    Raises:
        DamagedError: the file is incomplete or was damaged.
        JobError, CorpusError: see `check_part`.
    """
    where = folder.at(part)
    try:
        with folder.open(part) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
            check_part(parquet, key, job, where)
            yield parquet
    except pa.ArrowInvalid as error:
        raise DamagedError(f"{where} is damaged ({error}); the same command repeats this shard") from error


def check_part(part: pq.ParquetFile, key: bytes, job: str, where: str) -> None:
    """Passes if a part is still this job's when it is read: a worker that outlived its own job may write over it.

    Args:
        key: of the kind of worker.
        where: the part's address, for messages.

    Raises:
        JobError: it is another job's.
        CorpusError: it holds values that could run code, which no worker writes.
    """
    check_plain(part.schema_arrow, where)
    if json.loads((part.metadata.metadata or {}).get(key, b"{}")).get("job") != job:
        raise JobError(f"a worker of another job wrote over {where}; run it again when that job has ended")


def forget_attempts(out: Folder) -> int:
    """Removes the attempt counters of unfinished shards; returns the number of attempts.

    The caller must hold the claim of `out`.
    """
    begun = 0
    for name in out.names():
        if name.endswith(_ATTEMPTS):
            begun += int(out.read(name) or 0)
            out.delete(name)
    return begun


def _identity(shard: Shard) -> list[Any]:
    """Identifies a shard, also among those of another `shard_rows`, which may have the same part."""
    return [shard.part, shard.address, list(shard.groups), shard.skip, shard.first, shard.rows]
