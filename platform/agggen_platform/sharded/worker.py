"""A worker turns a shard of the input into one output file (a part), in a Ray Data actor or in the driver's process.

The marker file ``.work/SHARD/done.json`` commits a shard and describes its part; ``.work/SHARD/begun-N`` marks the
start of attempt N and contains its node id. To save requests, a worker reads the markers of a shard only if the driver
found any or Ray restarted the actor. Names of parts end in the job's fingerprint, so a worker that outlives its job
cannot overwrite a part of the next job.
"""

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

from agggen.corpora.prepared import check_no_extension_types
from agggen.corpora.rejects import Reject, write_rejects
from agggen.errors import AggGenError
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.storage.errors import DamagedError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.verified import measure

_log = logging.getLogger(__name__)
ATTEMPTS = 3  # maximum number of workers that may die while processing a shard
WORK_FOLDER = ".work"  # of marker files; kept after the job, so that a damaged part can be rewritten
_BEGUN, _DONE = "begun-", "done.json"


class Tally:
    """Base of dataclasses that count rows by outcome; fields are numbers or dictionaries of numbers."""

    noun: ClassVar[str]  # what `total` counts, for messages, such as "records"
    rejects: int

    @property
    def total(self) -> int:
        raise NotImplementedError

    def speeds(self, seconds: float) -> dict[str, float]:
        """Rates by metric name, such as ``records_per_second``."""
        raise NotImplementedError

    def add(self, counts: Self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            count, added = getattr(self, field.name), getattr(counts, field.name)
            total = count + added if isinstance(count, int) else dict(Counter(count) + Counter(added))
            setattr(self, field.name, total)

    def numbers(self) -> dict[str, int]:
        """The fields that are numbers."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, int)}  # type: ignore[call-overload]


C = TypeVar("C", bound=Tally)


@dataclass(frozen=True, slots=True)
class PartFile:
    """An output file as listed in the manifest."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FinishedShard(Generic[C]):
    """The result of a shard."""

    shard: int  # the shard's index
    counts: C
    files: tuple[PartFile, ...]  # the part, and the file of rejects if there are any
    reused: bool  # whether an earlier run finished the shard
    retries: int  # number of earlier attempts in all runs
    seconds: float  # duration of the last attempt

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, counts: type[C]) -> Self:
        """Parses the result of an actor; raises its error as a JobError with the same message and exit code."""
        data = json.loads(text)
        if "error" in data:
            error = JobError(data["error"])
            error.exit_code = data["exit_code"]
            raise error
        files = tuple(PartFile(**file) for file in data["files"])
        return cls(**data | {"counts": counts(**data["counts"]), "files": files})


class Worker(ABC, Generic[C]):
    """Processes one shard per call; subclasses define `write_part`."""

    kind: ClassVar[str]  # the kind of job, a label of its metrics
    counts: ClassVar[type[Any]]  # the subclass of `Tally`
    crash_causes: str  # probable reasons why workers died, for the message of `crash_error`

    def __init__(self, out: str, job: str) -> None:
        self.out, self.job = Folder(out), job
        self._node, self._was_restarted = "", False  # set by the first call of an actor

    def __call__(self, batch: dict[str, Any]) -> pa.Table:
        """Processes a batch of Ray Data, which is one shard as JSON, and returns the result or the error as JSON.

        Ray would lose the message of a raised error. Null rows pad the table, so that Ray's dashboard counts rows.
        """
        (content,) = batch["shard"]
        shard = Shard.from_json(content)
        try:
            if not self._node:
                self._node, self._was_restarted = this_actor()
            result = self.run(shard).as_json()
        except AggGenError as error:
            result = json.dumps({"error": str(error), "exit_code": error.exit_code})
        except Exception as error:
            _log.exception("%s", shard)
            reason = f"a worker failed at {shard} ({type(error).__name__}: {error}); finished shards are kept"
            result = json.dumps({"error": reason, "exit_code": JobError.exit_code})
        return pa.table({"result": pa.array([result, *[None] * (shard.rows - 1)], pa.string())})

    def run(self, shard: Shard) -> FinishedShard[C]:
        """Processes a shard, unless an earlier run finished it without failed rows; raises AggGenError if it fails."""
        start = time.monotonic()
        marker_folder = _marker_folder(shard)
        may_have_markers = shard.attempts or self._was_restarted
        markers = [name.rpartition("/")[2] for name in self.out.names(marker_folder)] if may_have_markers else []
        if _DONE in markers and (earlier := self._earlier_result(shard)) and not earlier.counts.numbers().get("failed"):
            return earlier
        retries = sum(name.startswith(_BEGUN) for name in markers)
        deaths = self._count_deaths(marker_folder, range(shard.attempts, retries))
        if deaths > ATTEMPTS:
            raise self.crash_error(shard)
        self.out.write(f"{marker_folder}/{_BEGUN}{retries}", self._node.encode())
        with self.out.new(shard.part) as path:
            write = self.write_part if deaths < ATTEMPTS else self.write_after_crashes
            counts, rows, rejects = write(shard, path)
            files = [PartFile(shard.part, rows, *measure(path))]
        if rejects:
            name = f"rejects/{shard.part.rpartition('/')[2].rpartition('.')[0]}.jsonl"
            with self.out.new(name) as path:
                files.append(PartFile(name, write_rejects(path, rejects), *measure(path)))
        result = FinishedShard(shard.index, counts, tuple(files), False, retries, time.monotonic() - start)
        marker = json.dumps({"shard": _identity(shard), "done": result.as_json()})
        self.out.write(f"{marker_folder}/{_DONE}", marker.encode())
        return result

    def run_all(self, shards: Sequence[Shard]) -> Iterator[FinishedShard[C]]:
        """Processes all shards lazily, in order."""
        return map(self.run, shards)

    @abstractmethod
    def write_part(self, shard: Shard, path: Path) -> tuple[C, int, Sequence[Reject]]:
        """Writes the part of a shard to `path`; returns the counts, the number of rows written, and the rejects."""

    def write_after_crashes(self, shard: Shard, path: Path) -> tuple[C, int, Sequence[Reject]]:
        """Called instead of `write_part` if `ATTEMPTS` workers died while processing this shard in this run."""
        raise self.crash_error(shard)

    def crash_error(self, shard: Shard) -> JobError:
        causes = f"{self.crash_causes}; finished shards are kept"
        return JobError(f"{ATTEMPTS} workers died while processing {shard}: {causes}")

    def close(self) -> None:
        """Releases resources; not called in actors."""

    def _count_deaths(self, marker_folder: str, attempts: range) -> int:
        """The number of these attempts in which the worker died while its node stayed alive."""
        dead_ids = dead_nodes() if attempts and self._node else set()
        node_ids = [(self.out.read(f"{marker_folder}/{_BEGUN}{attempt}") or b"").decode() for attempt in attempts]
        return sum(node_id not in dead_ids for node_id in node_ids)

    def _earlier_result(self, shard: Shard) -> FinishedShard[C] | None:
        """The result of an earlier run; None if its shard had other rows, or its part is missing or incomplete."""
        try:
            marker = json.loads(self.out.read(f"{_marker_folder(shard)}/{_DONE}") or b"{}")
            if marker.get("shard") != _identity(shard):
                return None
            result: FinishedShard[C] = FinishedShard.from_json(marker["done"], self.counts)
        except (ValueError, TypeError):  # an incomplete marker, or one of another version of agggen
            return None
        is_complete = all(self.out.size(file.name) == file.bytes for file in result.files)
        return replace(result, reused=True) if is_complete else None


@contextmanager
def open_part(folder: Folder, part: str) -> Iterator[pq.ParquetFile]:
    """Opens the part of a finished shard; raises DamagedError if it is incomplete."""
    address = folder.at(part)
    try:
        with folder.open(part) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
            check_no_extension_types(parquet.schema_arrow, address)
            yield parquet
    except pa.ArrowInvalid as error:
        raise DamagedError(f"{address} is damaged ({error}); run the same command again to rewrite it") from error


def with_attempts(shards: Sequence[Shard], out: Folder) -> list[Shard]:
    """The shards with their numbers of attempts by marker files; a finished shard has one, so that markers are read."""
    markers = [name.rpartition("/") for name in out.names(WORK_FOLDER)]
    attempts = Counter(folder for folder, _, name in markers if name.startswith(_BEGUN))
    attempts |= Counter({folder: 1 for folder, _, name in markers if name == _DONE})
    return [replace(shard, attempts=attempts[_marker_folder(shard)]) for shard in shards] if attempts else list(shards)


def this_actor() -> tuple[str, bool]:
    """The id of this actor's node, and whether Ray restarted the actor."""
    import ray

    context = ray.get_runtime_context()
    return context.get_node_id(), bool(context.was_current_actor_reconstructed)


def dead_nodes() -> set[str]:
    import ray

    return {node["NodeID"] for node in ray.nodes() if not node["Alive"]}


def _marker_folder(shard: Shard) -> str:
    return f"{WORK_FOLDER}/{shard.part.rpartition('.')[0]}"


def _identity(shard: Shard) -> list[Any]:
    """Distinguishes shards with the same part name but different rows, for example after a change of `shard_rows`."""
    return [shard.part, shard.address, list(shard.groups), shard.skip, shard.first, shard.rows]
