"""Records in, texts with their plans or the reasons why there are none out. No files, no Ray."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from agggen.errors import AggGenError
from agggen.generation.generator import Generator
from agggen.generation.results import Generation
from agggen.records import Plan, Record
from agggen_platform.bulk.config import BulkConfig, BulkError
from agggen_platform.bulk.inputs import read_record
from agggen_platform.sharded.worker import Tally

_HOPELESS = 20  # records in a row that fail before the model or the device is taken to be broken, and not the records


def text_schema() -> pa.Schema:
    """The columns of ``texts.parquet``, and the keys of ``texts.jsonl``.

    row          the record's place in the whole input, counted from 0; records that were rejected count too
    rank         1 for the best text of the record
    *probability natural logarithms; of the plan: log p(z | x), null where the model assigns none (groups beyond L)
    score        what the joint choice maximises
    fulfilled    whether every fact says the values of its triples whole, and the strict check finds no fault
    faults       what it finds, in words
    unknown_predicates  predicates that training never saw; plain clauses say them
    facts        pieces text[start:end] and the predicates of each; `missing` are those whose values it does not say
                 whole; a `fallback` is a wording of the training texts or a plain clause
    bundle       the fingerprint of the model
    """
    names = pa.list_(pa.field("element", pa.string(), nullable=False))
    fact = pa.struct(
        [
            pa.field("start", pa.int32(), nullable=False),
            pa.field("end", pa.int32(), nullable=False),
            pa.field("predicates", names, nullable=False),
            pa.field("missing", names, nullable=False),
            pa.field("fallback", pa.bool_(), nullable=False),
        ]
    )
    return pa.schema(
        [
            pa.field("row", pa.int64(), nullable=False),
            pa.field("id", pa.string(), nullable=False),
            pa.field("rank", pa.int32(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("plan", pa.string(), nullable=False),
            pa.field("plan_log_probability", pa.float64()),
            pa.field("plan_search", pa.string(), nullable=False),
            pa.field("text_log_probability", pa.float64(), nullable=False),
            pa.field("score", pa.float64(), nullable=False),
            pa.field("fulfilled", pa.bool_(), nullable=False),
            pa.field("faults", names, nullable=False),
            pa.field("unknown_predicates", names, nullable=False),
            pa.field("facts", pa.list_(fact), nullable=False),
            pa.field("bundle", pa.string(), nullable=False),
        ]
    )


def part_schema() -> pa.Schema:
    """The columns of a shard's file: those of `text_schema`, null where there is no text, and

    line       of the record in a text file
    seconds    that it took, of its batch shared out; with the best text
    error      why there is no text
    """
    texts = [column.with_nullable(True) for column in text_schema() if column.name != "row"]
    more = [pa.field("line", pa.int64()), pa.field("seconds", pa.float64()), pa.field("error", pa.string())]
    return pa.schema([text_schema().field("row"), *texts, *more])


@dataclass(slots=True)
class Counts(Tally):
    """What became of some rows."""

    records: int = 0
    """That got texts."""
    texts: int = 0
    rejects: int = 0
    failed: int = 0
    """Rejects that the generator broke on, which may be its fault and not theirs."""


@dataclass(slots=True)
class _Task:
    number: int
    row: Mapping[str, Any]
    record: Record
    plan: Plan | None
    found: list[Generation] = field(default_factory=list)
    seconds: float = 0.0
    error: str | None = None


class RowWriter:
    """Writes the texts of rows."""

    def __init__(
        self, generator: Generator, bundle: str, config: BulkConfig, duplicates: Mapping[int, int | str] | None = None
    ) -> None:
        """
        Args:
            bundle: the fingerprint of the generator's.
            duplicates: the rows whose id an earlier record has, and where that one is.
        """
        self.generator, self.bundle, self.config = generator, bundle, config
        self.duplicates = duplicates or {}
        self.counts = Counts()
        """Of all rows so far."""

    def rows(self, rows: Sequence[Mapping[str, Any]], first: int) -> list[dict[str, Any]]:
        """The rows' texts as `part_schema` has them; `first` is the first row's number in the file."""
        read = [self._read(row, number) for number, row in enumerate(rows, start=first)]
        tasks = [item for item in read if isinstance(item, _Task)]
        self._write(tasks)
        failed = sum(task.error is not None for task in tasks)
        if failed == len(tasks) >= _HOPELESS:
            raise BulkError(f"no text could be written for any of {failed} records; for the first: {tasks[0].error}")
        self.counts.failed += failed
        return [line for item in read for line in (self._lines(item) if isinstance(item, _Task) else [item])]

    def _read(self, row: Mapping[str, Any], number: int) -> _Task | dict[str, Any]:
        """What to do for a row, or the line that says why it is rejected."""
        earlier = self.duplicates.get(number)
        if earlier is not None:
            return self._reject(row, number, f"the id {row['id'].strip()!r} occurs a second time, first in {earlier}")
        try:
            record, plan = read_record(row)
            self.generator.planner.check(record, plan, self.config.complete, self.config.inference)
        except AggGenError as error:
            return self._reject(row, number, str(error))
        return _Task(number, row, record, plan)

    def _write(self, tasks: Sequence[_Task]) -> None:
        """Has the texts written; where the generator fails, for whatever reason, halves the records until it is known
        on which."""
        if not tasks:
            return
        begin = time.perf_counter()
        records, plans = [task.record for task in tasks], [task.plan for task in tasks]
        config = self.config
        try:
            generations = self.generator.generate(records, plans, config.complete, config.n_best, config.inference)
        except Exception as error:
            if len(tasks) == 1:
                tasks[0].error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                return
            half = len(tasks) // 2
            self._write(tasks[:half])
            self._write(tasks[half:])
            return
        seconds = (time.perf_counter() - begin) / len(tasks)
        for task, texts in zip(tasks, generations, strict=True):
            task.found, task.seconds = texts, seconds

    def _lines(self, task: _Task) -> Iterator[dict[str, Any]]:
        if task.error is not None:
            yield self._reject(task.row, task.number, task.error)
            return
        self.counts.records += 1
        self.counts.texts += len(task.found)
        for rank, generation in enumerate(task.found, start=1):
            yield {
                "row": task.number,
                "id": generation.id,
                "rank": rank,
                "text": generation.text,
                "plan": str(generation.plan),
                "plan_log_probability": generation.plan_log_probability,
                "plan_search": generation.plan_search,
                "text_log_probability": generation.text_log_probability,
                "score": generation.score,
                "fulfilled": generation.fulfilled,
                "faults": generation.faults,
                "unknown_predicates": generation.unknown_predicates,
                "facts": [asdict(fact) for fact in generation.facts],
                "bundle": self.bundle,
                "line": task.row.get("line"),
                "seconds": task.seconds if rank == 1 else None,
            }

    def _reject(self, row: Mapping[str, Any], number: int, reason: str) -> dict[str, Any]:
        self.counts.rejects += 1
        reason = reason.encode(errors="backslashreplace").decode()  # it may quote half a surrogate pair
        return {"row": number, "id": row.get("id"), "line": row.get("line"), "error": reason}
