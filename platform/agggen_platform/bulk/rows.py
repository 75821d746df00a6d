"""Converts input rows to texts and rejects in memory; `worker` reads and writes the files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from agggen.checks import RISK_THRESHOLD, check_all
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, RecordError
from agggen.generation.generator import Generator
from agggen.generation.results import Generation, WrittenFact
from agggen.records import Plan, Record
from agggen.verification.critic.critic import Critic
from agggen_platform.bulk.model import BulkConfig
from agggen_platform.bulk.records import read_record
from agggen_platform.sharded.config import MIN_FAILURES_TO_STOP, JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import Tally

SCORES = ("risk", "coverage", "correctness", "fluency")


def text_schema(scores: bool = False) -> pa.Schema:
    """The columns of a Parquet part of texts, and the keys of a part in JSON lines.

    row          the number of the input row, from 0, over all input files
    rank         1 for the best text of the record
    plan_log_probability  log p(z | x), or null (see `PlannedRecord`); all logarithms are natural
    score        the joint score of plan and text, which the search maximises
    fulfilled    whether each fact states the values of its triples in full, and the strict check finds no fault
    faults       the faults that the strict check finds
    unknown_predicates  predicates that are not in the training data; each is stated in a separate sentence
    facts        the span text[start:end] and the predicates of each fact; `missing`: predicates whose values are not
                 stated in full; `fallback`: the span is a training sentence or a plain clause, not the model's output
    bundle       the fingerprint of the model
    risk, coverage, correctness, fluency  the scores of `agggen check`, to four decimals; only if the job has a critic
    """
    required = partial(pa.field, nullable=False)
    text, number, boolean = pa.string(), pa.float64(), pa.bool_()
    names = pa.list_(required("element", text))
    position = [required("start", pa.int32()), required("end", pa.int32())]
    predicates = [required("predicates", names), required("missing", names)]
    fact = pa.struct([*position, *predicates, required("fallback", boolean)])
    return pa.schema(
        [
            required("row", pa.int64()),
            required("id", text),
            required("rank", pa.int32()),
            required("text", text),
            required("plan", text),
            pa.field("plan_log_probability", number),
            required("plan_search", text),
            required("text_log_probability", number),
            required("score", number),
            required("fulfilled", boolean),
            required("faults", names),
            required("unknown_predicates", names),
            required("facts", pa.list_(fact)),
            required("bundle", text),
            *(required(name, number) for name in SCORES if scores),
        ]
    )


def generation_of(record_id: str, text: Any) -> Generation:
    """Converts a text from a mapping with the keys of `text_schema`, or from a text of an endpoint's answer."""
    facts = []
    for fact in text["facts"]:
        missing, fallback = tuple(fact.get("missing", ())), fact.get("fallback", False)
        facts.append(WrittenFact(fact["start"], fact["end"], tuple(fact["predicates"]), missing, fallback))
    names = ("text", "plan_log_probability", "plan_search", "text_log_probability", "score")
    fields = {name: text[name] for name in names}
    fields |= {name: tuple(text.get(name, ())) for name in ("faults", "unknown_predicates")}
    return Generation(id=record_id, plan=Plan.parse(text["plan"]), facts=tuple(facts), **fields)


@dataclass(slots=True)
class Counts(Tally):
    """Counts of records by outcome; independent of interruptions of the job."""

    noun = "records"

    records: int = 0  # records with texts
    texts: int = 0
    rejects: int = 0
    failed: int = 0  # records rejected because the generator failed; the next run retries them
    fulfilled: int = 0  # records whose best text passes the strict check
    scored: int = 0  # records whose texts a critic scored; 0 if the job has no critic
    risky: int = 0  # scored records whose best text has a risk above `agggen.checks.RISK_THRESHOLD`
    plan_lengths: dict[str, int] = field(default_factory=dict)  # number of facts of the best text -> number of records
    unknown_predicates: dict[str, int] = field(default_factory=dict)  # predicate not in training -> number of records

    @property
    def total(self) -> int:
        return self.records + self.rejects

    def speeds(self, seconds: float) -> dict[str, float]:
        return {"records_per_second": self.records / seconds, "texts_per_second": self.texts / seconds}

    def means(self) -> dict[str, float]:
        """The share of records whose best text passes the strict check, and the mean number of facts of best texts."""
        facts = sum(int(length) * count for length, count in self.plan_lengths.items())
        records = max(1, self.records)
        return {"fulfilled_share": self.fulfilled / records, "mean_plan_length": facts / records}

    def as_dict(self) -> dict[str, Any]:
        lengths = dict(sorted(self.plan_lengths.items(), key=lambda item: int(item[0])))
        predicates = dict(sorted(self.unknown_predicates.items()))
        return asdict(self) | {"plan_lengths": lengths, "unknown_predicates": predicates}


@dataclass(slots=True)
class _Task:
    number: int  # the row's number
    row: Mapping[str, Any]
    record: Record
    plan: Plan | None
    texts: list[Generation] = field(default_factory=list)
    error: str | None = None  # why the generator failed
    scores: list[dict[str, float]] = field(default_factory=list)  # the critic's, of each text; empty without a critic


class RowWriter:
    """Generates the texts of a shard's rows."""

    def __init__(
        self, generator: Generator, bundle: str, config: BulkConfig, shard: Shard, critic: Critic | None = None
    ) -> None:
        """`bundle`: the fingerprint of the generator's bundle."""
        self.generator, self.bundle, self.config, self.shard, self.critic = generator, bundle, config, shard, critic
        self.columns = text_schema(scores=critic is not None).names
        self.duplicates = dict(shard.duplicates)
        self.counts = Counts()  # of all rows so far
        self._rejects: list[tuple[int, Reject]] = []

    def texts(self, rows: Sequence[Mapping[str, Any]], first: int) -> Iterator[dict[str, Any]]:
        """The texts of rows numbered from `first`, with the keys of `text_schema`; raises JobError if all fail."""
        tasks = [task for number, row in enumerate(rows, start=first) if (task := self._task(row, number))]
        self._generate(tasks)
        n_failed = sum(task.error is not None for task in tasks)
        if n_failed == len(tasks) >= MIN_FAILURES_TO_STOP:
            raise JobError(f"the generator failed on all {n_failed} records of a batch; on the first: {tasks[0].error}")
        self.counts.failed += n_failed
        self._score([task for task in tasks if task.error is None])
        for task in tasks:
            if task.error is not None:
                self._reject(task.row, task.number, task.error)
            else:
                yield from self._text_rows(task)

    def reject(self, rows: Sequence[Mapping[str, Any]], first: int, reason: str) -> Iterator[dict[str, Any]]:
        """Rejects all rows and counts them as failed; no texts."""
        for number, row in enumerate(rows, start=first):
            self._reject(row, number, reason)
        self.counts.failed += len(rows)
        return iter(())

    @property
    def rejects(self) -> list[Reject]:
        """The rejects of all rows so far, in input order."""
        return [reject for _, reject in sorted(self._rejects, key=lambda item: item[0])]

    def _task(self, row: Mapping[str, Any], number: int) -> _Task | None:
        """The task of a row; None if the row is rejected."""
        try:
            if (first_location := self.duplicates.get(number)) is not None:
                identifier = row["id"].strip()
                raise RecordError(f"the id {identifier!r} occurs a second time, first in {first_location}")
            record, plan = read_record(row)
            self.generator.planner.check(record, plan, self.config.complete, self.config.inference)
        except AggGenError as error:
            self._reject(row, number, str(error))
            return None
        return _Task(number, row, record, plan)

    def _generate(self, tasks: Sequence[_Task]) -> None:
        """Generates the texts; on an exception, halves the batch until the failing records are isolated."""
        if not tasks:
            return
        records, plans = [task.record for task in tasks], [task.plan for task in tasks]
        config = self.config
        try:
            generated = self.generator.generate(records, plans, config.complete, config.n_best, config.inference)
        except JobError:  # not caused by a record: the endpoint is unreachable or serves another bundle
            raise
        except Exception as error:
            if len(tasks) == 1:
                tasks[0].error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                half = len(tasks) // 2
                self._generate(tasks[:half])
                self._generate(tasks[half:])
            return
        for task, texts in zip(tasks, generated, strict=True):
            task.texts = texts

    def _score(self, tasks: Sequence[_Task]) -> None:
        if self.critic is None or not tasks:
            return
        pairs = [(task.record, text.text) for task in tasks for text in task.texts]
        records, texts = zip(*pairs, strict=True)
        checks = iter(check_all(records, texts, self.generator.checker, self.critic))
        for task in tasks:
            for check in islice(checks, len(task.texts)):
                scores = {"risk": check.risk} | check.scores
                task.scores.append({name: round(scores[name], 4) for name in SCORES})
            self.counts.scored += 1
            self.counts.risky += task.scores[0]["risk"] > RISK_THRESHOLD

    def _text_rows(self, task: _Task) -> Iterator[dict[str, Any]]:
        """Counts a record and yields its texts with the keys of `text_schema`."""
        best = task.texts[0]
        counts = Counts(records=1, texts=len(task.texts), fulfilled=int(best.fulfilled))
        counts.plan_lengths = {str(len(best.plan.states)): 1}
        counts.unknown_predicates = dict.fromkeys(best.unknown_predicates, 1)
        self.counts.add(counts)
        for number, text in enumerate(task.texts):
            values = asdict(text) | {"plan": str(text.plan), "fulfilled": text.fulfilled, "bundle": self.bundle}
            values |= {"row": self.shard.rows_before + task.number, "rank": number + 1}
            values |= task.scores[number] if task.scores else {}
            yield {name: values[name] for name in self.columns}

    def _reject(self, row: Mapping[str, Any], number: int, reason: str) -> None:
        self.counts.rejects += 1
        reason = reason.encode(errors="backslashreplace").decode()  # UTF-8 cannot encode a quoted lone surrogate
        position = row.get("line", number)
        self._rejects.append((number, Reject(self.shard.address, position, row.get("id"), reason)))
