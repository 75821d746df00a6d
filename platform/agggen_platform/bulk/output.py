"""The output folder: what makes it whole, and putting it together from the shards' files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from agggen.corpora.rejects import Reject
from agggen_platform.bulk.inputs import ReadyFile
from agggen_platform.bulk.rows import text_schema
from agggen_platform.bulk.worker import BulkWorker
from agggen_platform.sharded.output import MANIFEST, REJECTS, JobFolder, as_json
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import open_part
from agggen_platform.storage.verified import measure

TIMINGS = "timings.parquet"
REPORT = "report.json"
WORK = "work"
_ROWS = 4096  # texts of a row group


@dataclass(slots=True)
class Summary:
    """What is in the output; the same however often the job was killed."""

    records: int = 0
    """That got texts."""
    texts: int = 0
    rejects: int = 0
    fulfilled: int = 0
    """Records whose best text says every value whole, and nothing else."""
    plan_lengths: dict[str, int] = field(default_factory=dict)
    """How many records' best text has a plan of so many facts."""
    unknown_predicates: dict[str, int] = field(default_factory=dict)
    """How many records have each predicate that training never saw."""
    seconds: float = 0.0
    """That the generator worked on them, by whichever run."""

    @property
    def fulfilled_share(self) -> float:
        return self.fulfilled / max(1, self.records)

    @property
    def mean_plan_length(self) -> float:
        return sum(int(length) * count for length, count in self.plan_lengths.items()) / max(1, self.records)


def timing_schema() -> pa.Schema:
    """The columns of ``timings.parquet``, a row for each record that got texts."""
    row, identifier = text_schema().field("row"), text_schema().field("id")
    return pa.schema([row, identifier, pa.field("seconds", pa.float64(), nullable=False)])


class Output(JobFolder):
    """A folder that belongs to one bulk generation job."""

    kind, product = "bulk generation", "texts"

    def is_product(self, name: str, about: dict[str, Any] | None) -> bool:
        files = (MANIFEST, REJECTS, TIMINGS, REPORT, "texts.parquet", "texts.jsonl")
        return name in files or name.startswith(f"{WORK}/")

    def is_whole(self, manifest: dict[str, Any]) -> bool:
        return all(self.folder.size(name) == file["bytes"] for name, file in manifest["files"].items())

    def tidy(self) -> None:
        """Removes what only the work needed. For an output that is whole."""
        for name in self.folder.names(WORK):
            self.folder.delete(name)

    def write(
        self,
        files: Sequence[ReadyFile],
        shards: Sequence[Sequence[Shard]],
        texts_format: Literal["parquet", "jsonl"],
        wait: Callable[[Shard], None],
        accept: Callable[[Summary], tuple[dict[str, Any], dict[str, Any]]],
        confirm: Callable[[], None],
    ) -> Summary:
        """Puts the result together and publishes it, the manifest last.

        Args:
            shards: of each file.
            wait: returns when a shard's file is there.
            accept: called when all are, before anything but the rejects is published; returns what to add to the
                manifest, and the report.
            confirm: called before the manifest is written, since uploads take time; raises if the folder was lost.
        """
        summary = Summary()
        texts_name = f"texts.{texts_format}"
        with ExitStack() as publish:
            timings = publish.enter_context(self.folder.new(TIMINGS))
            texts = publish.enter_context(self.folder.new(texts_name))
            with self.folder.new(REJECTS) as rejects:
                with ExitStack() as open_files:
                    into: _Sink = _Parquet(texts, text_schema()) if texts_format == "parquet" else _JsonLines(texts)
                    sinks = _Sinks(
                        open_files.enter_context(into),
                        open_files.enter_context(_Parquet(timings, timing_schema())),
                        open_files.enter_context(rejects.open("w", encoding="utf-8", newline="\n")),
                    )
                    before = 0
                    for file, own in zip(files, shards, strict=True):
                        for shard in own:
                            wait(shard)
                            _add(self, shard, file, before, sinks, summary)
                        before += file.rows
                measured = {texts_name: measure(texts), REJECTS: measure(rejects)}
            more, report = accept(summary)
        self.folder.write(REPORT, as_json(report))
        named = {name: {"bytes": size, "sha256": sha256} for name, (size, sha256) in measured.items()}
        confirm()
        self.publish({"job": self.job, "files": named} | more)
        self.tidy()
        return summary


class _Sink(Protocol):
    def __enter__(self) -> _Sink: ...
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...
    def write(self, table: pa.Table) -> None: ...


@dataclass(frozen=True, slots=True)
class _Sinks:
    texts: _Sink
    timings: _Sink
    rejects: TextIO


def _add(output: Output, shard: Shard, file: ReadyFile, before: int, sinks: _Sinks, summary: Summary) -> None:
    """Takes a shard's file into the result; `before` is how many rows the files before this one have."""
    with open_part(output.folder, shard.part, BulkWorker.key, output.job) as parquet:
        part = parquet.read()
    is_reject = pc.is_valid(part["error"])
    for row in part.filter(is_reject).select(["row", "line", "id", "error"]).to_pylist():
        place = row["row"] if row["line"] is None and not file.is_text else row["line"]
        reject = Reject(file.input.address, place, row["id"], row["error"])
        sinks.rejects.write(json.dumps(asdict(reject)) + "\n")
        summary.rejects += 1
    part = part.set_column(0, "row", pc.add(part["row"], before)).filter(pc.invert(is_reject))
    best = part.filter(pc.equal(part["rank"], 1))
    sinks.texts.write(part.select(text_schema().names).cast(text_schema()))
    sinks.timings.write(best.select(timing_schema().names).cast(timing_schema()))
    summary.records += best.num_rows
    summary.texts += part.num_rows
    summary.fulfilled += pc.sum(best["fulfilled"]).as_py() or 0
    summary.seconds += pc.sum(best["seconds"]).as_py() or 0.0
    unknown = Counter(name for names in best["unknown_predicates"].to_pylist() for name in set(names))
    summary.unknown_predicates = dict(sorted((unknown + Counter(summary.unknown_predicates)).items()))
    lengths = Counter(pc.list_value_length(best["facts"]).to_pylist())
    lengths.update({int(length): count for length, count in summary.plan_lengths.items()})
    summary.plan_lengths = {str(length): lengths[length] for length in sorted(lengths)}


class _Parquet:
    """A Parquet file in row groups of the same size, however the rows arrive: the same rows are the same bytes."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._waiting: list[pa.Table] = []

    def __enter__(self) -> _Parquet:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush(1)
        self._writer.close()

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self._flush(_ROWS)

    def _flush(self, least: int) -> None:
        if sum(table.num_rows for table in self._waiting) < least:
            return
        rows = pa.concat_tables(self._waiting)
        while rows.num_rows >= least:
            self._writer.write_table(rows.slice(0, _ROWS).combine_chunks())
            rows = rows.slice(_ROWS)
        self._waiting = [rows]


class _JsonLines:
    """A JSON object a row."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def __enter__(self) -> _JsonLines:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._file.close()

    def write(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
