"""What one worker does: a shard of the input becomes a part of the output, in an actor of Ray Data or in process.

A shard is committed by two writes: its part under its final name, then a note ``.work/SHARD/done.json`` that says what
the part holds. Names of parts end in the job's fingerprint, so a worker that outlives its job writes over no part of
the next one. A note ``.work/SHARD/begun-N`` says that the shard was begun for the N-th time, and on which node. Notes
are read only where the driver listed them or the actor was started again.
"""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from agggen.corpora.parquet import check_plain
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.storage.errors import DamagedError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.verified import measure

_log = logging.getLogger(__name__)
ATTEMPTS = 3
"""How many workers may die over one shard."""
WORK = ".work"
"""The folder of notes, which stay: a part that is damaged later is done again by itself."""
_BEGUN, _DONE = "begun-", "done.json"


class Tally:
    """Counts of what became of rows: base of dataclasses whose fields are numbers, or numbers by name."""

    def add(self, other: Self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            count, added = getattr(self, field.name), getattr(other, field.name)
            total = count + added if isinstance(count, int) else dict(Counter(count) + Counter(added))
            setattr(self, field.name, total)

    def numbers(self) -> dict[str, int]:
        """The fields that are numbers."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, int)}  # type: ignore[call-overload]


C = TypeVar("C", bound=Tally)


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file of the output."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Done(Generic[C]):
    """A finished shard."""

    shard: int
    """Its index."""
    counts: C
    files: tuple[PartFile, ...]
    """The part, and its rejects if there are any and the job keeps them in files of their own."""
    reused: bool
    """Whether an earlier run had done it."""
    retries: int
    """How often it was begun and not finished before, by any run."""
    seconds: float

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, counts: type[C]) -> Done[C]:
        """What an actor answered.

        Raises:
            JobError: with the message and exit code of the actor's error.
        """
        data = json.loads(text)
        if "error" in data:
            error = JobError(data["error"])
            error.exit_code = data["exit_code"]
            raise error
        files = tuple(PartFile(**file) for file in data["files"])
        return cls(**data | {"counts": counts(**data["counts"]), "files": files})


class Worker(ABC, Generic[C]):
    """Does one shard a call. What a kind of job does with rows is in `fill`."""

    counts: ClassVar[type[Any]]
    """The kind of `Tally`."""

    def __init__(self, out: str, job: str) -> None:
        self.out, self.job = Folder(out), job

    _node, _restarted = "", False

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch of Ray Data: a shard as JSON in, what became of it as JSON out. Ray loses the message of an error."""
        (content,) = batch["shard"]
        shard = Shard.from_json(content)
        try:
            if not self._node:
                self._node, self._restarted = this_actor()
            return {"done": [self.run(shard).as_json()]}
        except AggGenError as error:
            return {"done": [json.dumps({"error": str(error), "exit_code": error.exit_code})]}
        except Exception as error:
            _log.exception("%s", shard)
            why = f"a worker broke over {shard} ({type(error).__name__}: {error}); what is done is kept"
            return {"done": [json.dumps({"error": why, "exit_code": JobError.exit_code})]}

    def run(self, shard: Shard) -> Done[C]:
        """Does a shard, or finds that it was done before; what is not `final` is done again.

        Raises:
            AggGenError: the work cannot be done at all, or workers died over this shard before.
        """
        begin = time.monotonic()
        notes = _notes(shard)
        look = shard.begun or self._restarted
        names = [name.rpartition("/")[2] for name in self.out.names(notes)] if look else []
        if _DONE in names and (done := self._reused(shard)) and self.is_final(done.counts):
            return done
        retries = sum(name.startswith(_BEGUN) for name in names)
        deaths = self._deaths(notes, range(shard.begun, retries))
        if deaths > ATTEMPTS:
            raise self.broken(shard)
        self.out.write(f"{notes}/{_BEGUN}{retries}", self._node.encode())
        with self.out.new(shard.part) as path:
            counts, rows, rejects = (self.fill if deaths < ATTEMPTS else self.give_up)(shard, path)
            files = [PartFile(shard.part, rows, *measure(path))]
        if rejects:
            files.append(self._write_rejects(shard, rejects))
        done = Done(shard.index, counts, tuple(files), False, retries, time.monotonic() - begin)
        self.out.write(f"{notes}/{_DONE}", json.dumps({"shard": _identity(shard), "done": done.as_json()}).encode())
        return done

    def runs(self, shards: Sequence[Shard]) -> Iterator[Done[C]]:
        """Does all shards as the results are asked for."""
        return map(self.run, shards)

    @abstractmethod
    def fill(self, shard: Shard, path: Path) -> tuple[C, int, Sequence[Reject]]:
        """Writes the part of a shard to `path`.

        Returns:
            What became of the rows, how many rows the part has, and the rejects that go to a file of their own.
        """

    def give_up(self, shard: Shard, path: Path) -> tuple[C, int, Sequence[Reject]]:
        """`fill` without the work, for a shard over which `ATTEMPTS` workers died in this run."""
        raise self.broken(shard)

    @abstractmethod
    def broken(self, shard: Shard) -> AggGenError:
        """What to say of a shard over which `ATTEMPTS` workers died."""

    def is_final(self, counts: C) -> bool:
        """Whether doing a finished shard again would change nothing."""
        return True

    def close(self) -> None:
        """Lets go of what is held; an actor that is killed does without."""

    def _deaths(self, notes: str, begun: range) -> int:
        """How many of those who began the shard died of it: a node that is gone is no fault of a shard."""
        gone = dead_nodes() if begun and self._node else set()
        return sum((self.out.read(f"{notes}/{_BEGUN}{number}") or b"").decode() not in gone for number in begun)

    def _reused(self, shard: Shard) -> Done[C] | None:
        """What an earlier run made of the shard; None where it cut other shards, or the part is gone or cut off."""
        try:
            note = json.loads(self.out.read(f"{_notes(shard)}/{_DONE}") or b"{}")
            if note.get("shard") != _identity(shard):
                return None
            done: Done[C] = Done.from_json(note["done"], self.counts)
        except (ValueError, TypeError):  # half a note, or of another version
            return None
        if any(self.out.size(file.name) != file.bytes for file in done.files):
            return None
        return replace(done, reused=True)

    def _write_rejects(self, shard: Shard, rejects: Sequence[Reject]) -> PartFile:
        stem = shard.part.rpartition("/")[2].rpartition(".")[0]
        name = f"rejects/{stem}.jsonl"
        with self.out.new(name) as path:
            path.write_text("".join(json.dumps(asdict(reject)) + "\n" for reject in rejects), encoding="utf-8")
            return PartFile(name, len(rejects), *measure(path))


@contextmanager
def open_part(folder: Folder, part: str) -> Iterator[pq.ParquetFile]:
    """The part of a shard that was done, to be read into the result.

    Raises:
        DamagedError: it is not whole any more, or never was: the store kept half of it.
        CorpusError: it holds values that could run code, which no worker writes.
    """
    where = folder.at(part)
    try:
        with folder.open(part) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
            check_plain(parquet.schema_arrow, where)
            yield parquet
    except pa.ArrowInvalid as error:
        raise DamagedError(f"{where} is damaged ({error}); the same command does this shard again") from error


def with_attempts(shards: Sequence[Shard], out: Folder) -> list[Shard]:
    """The shards, each with how often runs before this one began it."""
    notes = [name.rpartition("/") for name in out.names(WORK)]
    begun = Counter(folder for folder, _, name in notes if name.startswith(_BEGUN))
    begun |= Counter({folder: 1 for folder, _, name in notes if name == _DONE})
    return [replace(shard, begun=begun[_notes(shard)]) for shard in shards] if begun else list(shards)


def this_actor() -> tuple[str, bool]:
    """The node of the actor that this process is, and whether the actor was started again; "" for no actor."""
    import ray

    context = ray.get_runtime_context()
    return context.get_node_id(), bool(context.was_current_actor_reconstructed)


def dead_nodes() -> set[str]:
    """Nodes that the cluster lost."""
    import ray

    return {node["NodeID"] for node in ray.nodes() if not node["Alive"]}


def _notes(shard: Shard) -> str:
    return f"{WORK}/{shard.part.rpartition('.')[0]}"


def _identity(shard: Shard) -> list[Any]:
    """What tells a shard from those that another `shard_rows` gives, which may have the same part."""
    return [shard.part, shard.address, list(shard.groups), shard.skip, shard.first, shard.rows]
