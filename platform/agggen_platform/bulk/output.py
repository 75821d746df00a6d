"""The output folder of a bulk generation job: parts, manifest, joined files for small jobs, and the riskiest texts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agggen.checks import CheckedText, check_all
from agggen.records import Record
from agggen_platform.bulk.inputs import InputFile, plan_shards, prepare_inputs, read_records
from agggen_platform.bulk.model import Model, load_generator
from agggen_platform.bulk.records import read_record
from agggen_platform.bulk.rows import text_schema
from agggen_platform.bulk.worker import BATCH_ROWS
from agggen_platform.sharded.output import MANIFEST, REJECTS, JobFolder, as_json
from agggen_platform.sharded.worker import WORK_FOLDER, PartFile, open_part
from agggen_platform.storage.critics import open_critic
from agggen_platform.storage.folder import Folder

TEXTS = "texts"
REPORT = "report.json"
INPUT = f"{WORK_FOLDER}/input"  # the folder for copies of input files that workers cannot read
_JOINED_FILES = ("texts.parquet", "texts.jsonl", REJECTS)
_SHARD_ROWS = 1024  # approximate number of input rows that are read to find one record
_Key = tuple[int, int]  # (row of the record, rank of the text)


class Output(JobFolder):
    kind, output_name = "bulk generation", "texts"

    def is_output_file(self, name: str, job_file: dict[str, Any] | None) -> bool:
        folders = (f"{TEXTS}/", "rejects/", f"{WORK_FOLDER}/")
        return name in (MANIFEST, REPORT, *_JOINED_FILES) or name.startswith(folders)

    def files(self, manifest: dict[str, Any]) -> list[dict[str, Any]]:
        return [*manifest["texts"], *manifest["rejects"]]

    def delete_input_copies(self) -> None:
        for name in self.folder.names(INPUT):
            self.folder.delete(name)

    def finish(self, files: Sequence[PartFile], members: dict[str, Any], report: dict[str, Any]) -> None:
        """Writes the report, then the manifest, which lists `files` and completes the output (see `publish`)."""
        self.folder.write(REPORT, as_json(report))
        folders = (TEXTS, "rejects")
        texts, rejects = ([asdict(file) for file in files if file.name.startswith(f"{kind}/")] for kind in folders)
        self.publish({"job": self.job, "texts": texts, "rejects": rejects} | members, folders)
        self.delete_input_copies()

    def join(self) -> None:
        """Joins all texts into one file and all rejects into another, in input order."""
        manifest = self.manifest()
        assert manifest is not None, "only a complete output can be joined"
        line_files = {REJECTS: manifest["rejects"]}
        if manifest["config"]["format"] == "jsonl":
            line_files["texts.jsonl"] = manifest["texts"]
        else:
            schema = text_schema("critic" in manifest)
            with self.folder.new("texts.parquet") as path, pq.ParquetWriter(path, schema, compression="zstd") as joined:
                for file in manifest["texts"]:
                    with open_part(self.folder, file["name"]) as part:
                        for group in range(part.num_row_groups):
                            joined.write_table(part.read_row_group(group))
        for target, files in line_files.items():
            with self.folder.new(target) as path, path.open("wb") as lines:
                for file in files:
                    lines.writelines(self.folder.chunks(file["name"]))


def riskiest(output: Output, inputs: list[InputFile], model: Model, critic: str, count: int) -> list[CheckedText]:
    """The `count` texts with the highest ``risk``, highest first; reads the texts only of parts that contain one."""
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
