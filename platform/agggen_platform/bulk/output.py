"""The output folder of a bulk generation job: parts, manifest, and joined files for small jobs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow.parquet as pq

from agggen_platform.bulk.rows import text_schema
from agggen_platform.sharded.output import MANIFEST, REJECTS, JobFolder, as_json
from agggen_platform.sharded.worker import WORK_FOLDER, PartFile, open_part

TEXTS = "texts"
REPORT = "report.json"
INPUT = f"{WORK_FOLDER}/input"
"""The folder for copies of input files that workers cannot read."""
_JOINED_FILES = ("texts.parquet", "texts.jsonl", REJECTS)


class Output(JobFolder):
    kind, output_name = "bulk generation", "texts"

    def is_output_file(self, name: str, job_file: dict[str, Any] | None) -> bool:
        folders = (f"{TEXTS}/", "rejects/", f"{WORK_FOLDER}/")
        return name in (MANIFEST, REPORT, *_JOINED_FILES) or name.startswith(folders)

    def files(self, manifest: dict[str, Any]) -> list[dict[str, Any]]:
        return [*manifest["texts"], *manifest["rejects"]]

    def delete_input_copies(self) -> None:
        """Deletes the copies of input files; called when the output is complete."""
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
        names = [file["name"] for file in manifest["texts"]]
        if manifest["config"]["format"] == "jsonl":
            self._join_lines("texts.jsonl", names)
        else:
            schema = text_schema("critic" in manifest)
            with self.folder.new("texts.parquet") as path, pq.ParquetWriter(path, schema, compression="zstd") as joined:
                for name in names:
                    with open_part(self.folder, name) as part:
                        for group in range(part.num_row_groups):
                            joined.write_table(part.read_row_group(group))
        self._join_lines(REJECTS, [file["name"] for file in manifest["rejects"]])

    def _join_lines(self, target: str, names: Sequence[str]) -> None:
        with self.folder.new(target) as path, path.open("wb") as joined:
            for name in names:
                joined.writelines(self.folder.chunks(name))
