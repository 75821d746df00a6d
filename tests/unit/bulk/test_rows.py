"""Rows get the texts that the generator writes for them alone together; what has none says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from agggen.generation.generator import Generation, Generator
from agggen.records import Plan, Record, Triple
from agggen_platform.bulk.config import BulkError
from agggen_platform.bulk.model import Model, load_generator
from agggen_platform.bulk.rows import RowWriter, part_schema
from tests.bulk_jobs import here, some_records


@pytest.fixture(scope="module")
def generator(model: Model) -> Generator:
    return load_generator(model.address, model.fingerprint, "cpu")


def row(record: Record, **more: Any) -> dict[str, Any]:
    triples = [{"subject": t.subject, "predicate": t.predicate, "object": t.object} for t in record.triples]
    return {"id": record.id, "triples": triples} | more


class Fragile(Generator):
    """Breaks on some records, wherever they are in the batch."""

    def __init__(self, sound: Generator, bad: set[str]) -> None:
        super().__init__(sound.model, sound.encoder, sound.config)
        self.bad, self.asked = bad, list[int]()

    def generate(self, records: Sequence[Record], *arguments: Any, **more: Any) -> list[list[Generation]]:
        self.asked.append(len(records))
        if self.bad & {record.id for record in records}:
            raise RuntimeError("this record is beyond me")
        return super().generate(records, *arguments, **more)


def test_the_texts_are_the_generators(model: Model, generator: Generator) -> None:
    records = list(some_records(9))
    writer = RowWriter(generator, "print", here(model, "n_best=2", "inference.verify=off"))
    lines = writer.rows([row(record) for record in records], 100)
    free = replace(model.inference, verify="off")
    wanted = [one for found in generator.generate(records, None, False, 2, free) for one in found]
    assert [line["text"] for line in lines] == [one.text for one in wanted]
    assert [line["plan"] for line in lines] == [str(one.plan) for one in wanted]
    assert [line["faults"] for line in lines] == [one.faults for one in wanted]
    assert all(line["faults"] for line in lines), "the model has random weights"
    assert [line["text_log_probability"] for line in lines] == [one.text_log_probability for one in wanted]
    assert [line["row"] for line in lines if line["rank"] == 1] == list(range(100, 109))
    assert {line["rank"] for line in lines} == {1, 2}
    assert [line["seconds"] is None for line in lines] == [line["rank"] == 2 for line in lines]
    assert (writer.counts.records, writer.counts.texts, writer.counts.rejects) == (9, len(wanted), 0)
    assert pa.Table.from_pylist(lines, part_schema()).num_rows == len(wanted)


def test_a_row_says_what_training_never_saw_and_what_the_model_did_not_write(
    model: Model, generator: Generator
) -> None:
    known = next(iter(some_records(1)))
    record = Record("r", (known.triples[0], Triple("Neon", "used in", "signs")))
    ((line,), (own,)) = (RowWriter(generator, "print", here(model)).rows([row(each)], 0) for each in (record, known))
    assert (line["unknown_predicates"], own["unknown_predicates"]) == (("used in",), ())
    assert line["facts"][-1]["predicates"] == ("used in",) and line["facts"][-1]["fallback"]
    assert line["text"].endswith(" Neon: used in: signs.")
    assert pa.Table.from_pylist([line], part_schema())["unknown_predicates"].to_pylist() == [["used in"]]


def test_a_records_own_plan_is_followed(model: Model, generator: Generator) -> None:
    record = next(record for record in some_records(50) if len(record.triples) == 3)
    first, second, third = record.predicates
    whole, partial = str(Plan(((third, first), (second,)))), str(Plan(((third,),)))
    rows = [row(record, plan=plan) for plan in (whole, partial, "[nonsense]", "[broken")]
    lines = RowWriter(generator, "print", here(model)).rows(rows, 0)
    assert lines[0]["plan"] == whole
    assert [line.get("text") for line in lines[1:]] == [None] * 3
    for line, reason in zip(lines[1:], [first, "nonsense", "never closed"], strict=True):
        assert reason in line["error"]
    completed = RowWriter(generator, "print", here(model, "complete=true")).rows([rows[1]], 0)
    assert set(Plan.parse(completed[0]["plan"]).predicates) == set(record.predicates)
    assert Plan.parse(completed[0]["plan"]).predicates != ()


def test_one_record_that_breaks_the_generator_is_one_reject(model: Model, generator: Generator) -> None:
    records = list(some_records(12))
    wanted = RowWriter(generator, "print", here(model)).rows([row(record) for record in records], 0)
    fragile = Fragile(generator, {"r7"})
    writer = RowWriter(fragile, "print", here(model))
    lines = writer.rows([row(record) for record in records], 0)
    assert lines[7]["error"] == "RuntimeError: this record is beyond me"
    assert [line.get("text") for line in lines[:7] + lines[8:]] == [line["text"] for line in wanted[:7] + wanted[8:]]
    assert (writer.counts.rejects, writer.counts.failed) == (1, 1)
    assert len(fragile.asked) <= 9  # it is found by halving


def test_a_generator_that_always_fails_ends_the_job(model: Model, generator: Generator) -> None:
    records = list(some_records(24))
    fragile = Fragile(generator, {record.id for record in records})
    with pytest.raises(BulkError, match="any of 24 records; for the first: RuntimeError: this record is beyond me"):
        RowWriter(fragile, "print", here(model)).rows([row(record) for record in records], 0)


def test_rows_that_are_no_records_and_doubles_are_rejects(model: Model, generator: Generator) -> None:
    (record,) = some_records(1)
    long = Record("long", tuple(t for one in some_records(60) for t in one.triples)[:30])
    rows = [
        row(record),
        row(record, line=7),
        row(record) | {"id": None},
        {"id": "x", "line": 3, "error": "no JSON"},
        row(long),
    ]
    writer = RowWriter(generator, "print", here(model), {11: "in.jsonl, line 2"})
    lines = writer.rows(rows, 10)
    assert [line["row"] for line in lines] == [10, 11, 12, 13, 14]
    assert [line.get("line") for line in lines[1:4]] == [7, None, 3]
    assert lines[1]["error"] == "the id 'r0' occurs a second time, first in in.jsonl, line 2"
    assert "must be a string" in lines[2]["error"]
    assert lines[3]["error"] == "no JSON"
    assert "has 30 triples" in lines[4]["error"]
    assert (writer.counts.records, writer.counts.rejects, writer.counts.failed) == (1, 4, 0)
