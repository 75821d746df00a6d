"""Finds the texts with the highest risk in a complete output, with their records, for manual review."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from agggen.checks import CheckedText, check_all
from agggen.records import Record
from agggen_platform.bulk.inputs import InputFile, plan_shards, prepare_inputs, read_records
from agggen_platform.bulk.model import Model, load_generator
from agggen_platform.bulk.output import INPUT, Output
from agggen_platform.bulk.records import read_record
from agggen_platform.bulk.rows import text_schema
from agggen_platform.bulk.worker import BATCH_ROWS
from agggen_platform.sharded.worker import open_part
from agggen_platform.storage.critics import open_critic
from agggen_platform.storage.folder import Folder

_SHARD_ROWS = 1024  # approximate number of input rows that are read to find one record
_Key = tuple[int, int]  # (row of the record, rank of the text)


def riskiest(output: Output, inputs: list[InputFile], model: Model, critic: str, count: int) -> list[CheckedText]:
    """The `count` texts with the highest ``risk``, highest first; ties in output order.

    Reads the risks of all parts, but the texts only of parts that contain a chosen text.
    """
    manifest = output.manifest()
    assert manifest is not None, "only a complete output can be reviewed"
    chosen: list[tuple[float, _Key, str]] = []  # (negative risk, key, part)
    for name in (file["name"] for file in manifest["texts"]):
        part = _read_columns(output, name, ["row", "rank", "risk"])
        descending = np.argsort(-part["risk"].to_numpy(), kind="stable")[:count]
        chosen += [(-row["risk"], (row["row"], row["rank"]), name) for row in part.take(descending).to_pylist()]
        chosen = sorted(chosen)[:count]
    if not chosen:
        return []
    texts: dict[_Key, str] = {}
    for name in {name for _, _, name in chosen}:
        for row in _read_columns(output, name, ["row", "rank", "text"]).to_pylist():
            texts[row["row"], row["rank"]] = row["text"]
    records = _records(inputs, output, {row for _, (row, _), _ in chosen})
    checker = load_generator(model.address, model.fingerprint, "cpu").checker
    chosen_records = [records[row] for _, (row, _), _ in chosen]
    chosen_texts = [texts[key] for _, key, _ in chosen]
    return check_all(chosen_records, chosen_texts, checker, open_critic(critic)[0])


def _read_columns(output: Output, name: str, columns: Sequence[str]) -> pa.Table:
    if name.endswith(".jsonl"):
        rows = map(json.loads, (output.folder.read(name) or b"").splitlines())
        schema = text_schema(scores=True)
        return pa.Table.from_pylist(list(rows), pa.schema([schema.field(column) for column in columns]))
    with open_part(output.folder, name) as part:
        return part.read(columns)


def _records(inputs: list[InputFile], output: Output, rows: set[int]) -> Mapping[int, Record]:
    """The records at these `rows` by row number; rows are numbered consecutively over all input files."""
    files = prepare_inputs(inputs, Folder(output.folder.at(INPUT)))
    shards = plan_shards(files, _SHARD_ROWS, "{}", unique=False)
    records: dict[int, Record] = {}
    for shard in shards:
        first_row = shard.rows_before + shard.first
        if any(first_row <= row < first_row + shard.rows for row in rows):
            for first, batch in read_records(shard, BATCH_ROWS):
                numbered_batch = enumerate(batch, start=shard.rows_before + first)
                records |= {row: read_record(data)[0] for row, data in numbered_batch if row in rows}
    output.delete_input_copies()
    return records
