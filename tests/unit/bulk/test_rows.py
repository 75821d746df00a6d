"""Settings of a bulk job; rows become texts of the generator, or rejects with reasons."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest

from agggen.bundle import SHIPPED
from agggen.errors import ConfigError
from agggen.generation.generator import Generation, Generator
from agggen.records import Plan, Record
from agggen_platform.bulk import model as model_module
from agggen_platform.bulk.model import (
    BulkConfig,
    Model,
    bulk_config,
    fingerprint,
    job_identity,
    load_generator,
    open_model,
)
from agggen_platform.bulk.rows import RowWriter
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from tests.bulk_jobs import in_process, numbered_records


@pytest.fixture(scope="module")
def generator(model: Model) -> Generator:
    return load_generator(model.address, model.fingerprint, "cpu")


def writer_of(generator: Generator, config: BulkConfig, duplicates: dict[int, str] | None = None) -> RowWriter:
    pairs = tuple((duplicates or {}).items())
    shard = Shard(0, "in", "in.jsonl", "texts/0.parquet", (0,), 0, 0, 100, "in/in.jsonl", pairs, rows_before=1000)
    return RowWriter(generator, "print", config, shard)


def row(record: Record, **more: Any) -> dict[str, Any]:
    return {"id": record.id, "triples": list(map(asdict, record.triples))} | more


class FailingGenerator(Generator):
    """Fails on every batch that contains one of the records `failing_ids`."""

    def __init__(self, generator: Generator, failing_ids: set[str]) -> None:
        super().__init__(generator.model, generator.encoder, generator.config)
        self.failing_ids, self.batches = failing_ids, list[int]()

    def generate(self, records: Sequence[Record], *arguments: Any, **more: Any) -> list[list[Generation]]:
        self.batches.append(len(records))
        if self.failing_ids & {record.id for record in records}:
            raise RuntimeError("cannot write this record")
        return super().generate(records, *arguments, **more)


def test_the_plan_of_a_record_is_followed(model: Model, generator: Generator) -> None:
    record = next(record for record in numbered_records(50) if len(record.triples) == 3)
    first, second, third = record.predicates
    whole, partial = str(Plan(((third, first), (second,)))), str(Plan(((third,),)))
    rows = [row(record, plan=plan) for plan in (whole, partial, "[nonsense]", "[broken")]
    writer = writer_of(generator, in_process(model))
    assert [line["plan"] for line in writer.texts(rows, 0)] == [whole]
    for reject, reason in zip(writer.rejects, [first, "nonsense", "never closed"], strict=True):
        assert reason in reject.reason
    (completed,) = writer_of(generator, in_process(model, "complete=true")).texts([rows[1]], 0)
    assert set(Plan.parse(completed["plan"]).predicates) == set(record.predicates)


def test_a_record_on_which_the_generator_fails_is_one_reject(model: Model, generator: Generator) -> None:
    rows = [row(record) for record in numbered_records(12)]
    expected = list(writer_of(generator, in_process(model)).texts(rows, 0))
    fragile = FailingGenerator(generator, {"r7"})
    writer = writer_of(fragile, in_process(model))
    lines = list(writer.texts(rows, 0))
    assert [str(reject) for reject in writer.rejects] == [
        "in/in.jsonl:7: record 'r7': RuntimeError: cannot write this record"
    ]
    assert [line["text"] for line in lines] == [line["text"] for line in expected[:7] + expected[8:]]
    assert (writer.counts.rejects, writer.counts.failed) == (1, 1)
    assert len(fragile.batches) <= 9  # halving the batch isolates the record


def test_a_generator_that_always_fails_ends_the_job(model: Model, generator: Generator) -> None:
    records = list(numbered_records(24))
    fragile = FailingGenerator(generator, {record.id for record in records})
    problem = "all 24 records of a batch; on the first: RuntimeError: cannot write this record"
    with pytest.raises(JobError, match=problem):
        list(writer_of(fragile, in_process(model)).texts([row(record) for record in records], 0))


def test_invalid_rows_and_duplicates_are_rejects(model: Model, generator: Generator) -> None:
    (record,) = numbered_records(1)
    long = Record("long", tuple(t for other in numbered_records(60) for t in other.triples)[:30])
    rows = [
        row(record),
        row(record, line=7),
        row(record) | {"id": None},
        {"id": "x", "line": 3, "error": "no JSON"},
        row(long),
    ]
    writer = writer_of(generator, in_process(model), {11: "in.jsonl, line 2"})
    assert [line["row"] for line in writer.texts(rows, 10)] == [1010]
    assert [reject.line for reject in writer.rejects] == [7, 12, 3, 14]  # the line in a text file, else the row
    reasons = ["the id 'r0' occurs a second time, first in in.jsonl, line 2", "must be a string", "no JSON"]
    for reject, reason in zip(writer.rejects, [*reasons, "has 30 triples"], strict=True):
        assert reason in reject.reason
    assert (writer.counts.records, writer.counts.rejects, writer.counts.failed) == (1, 4, 0)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("inference.plan=3", "did you mean 'inference.plan"),
        ("inference.level=4", "exceeds this model's largest group of 3"),
        ("n_best=0", "n_best must be at least 1"),
        ("format=csv", "'parquet' or 'jsonl'"),
        ("max_reject_share=2", "from 0 to 1"),
        ("gpus_per_actor=-1", "at least 0"),
    ],
)
def test_invalid_settings_are_refused(override: str, message: str, model: Model) -> None:
    with pytest.raises(ConfigError, match=message):
        bulk_config(model, [override])


def test_the_fingerprint_covers_exactly_the_settings_that_affect_texts(model: Model) -> None:
    def job(*overrides: str, bundle: str = "b", content: str = "i") -> str:
        return fingerprint(job_identity(bulk_config(model, overrides), bundle, [("in.jsonl", content)]))

    assert {job("actors=3"), job("shard_rows=5"), job("max_reject_share=0.5")} == {job()}
    settings = ("n_best=2", "complete=true", "format=jsonl", "inference.plans=9", "inference.beam.beam=9")
    others = {job(setting) for setting in settings} | {job(bundle="c"), job(content="j")}
    assert len({job(), *others}) == 8


def test_a_name_or_an_alias_is_resolved_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "resolve", {"models:/agggen@champion": model.address}.__getitem__)
    assert open_model("models:/agggen@champion") == model
    assert open_model("elements").address == str(SHIPPED["elements"])
