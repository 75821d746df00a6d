"""The output folder: who it belongs to, what makes it whole, and putting it together from the shards' files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, TextIO

import pyarrow.parquet as pq

from agggen.corpora.prepared import fingerprint, write_records
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError
from agggen.records import Record
from agggen_platform.segmentation.rows import good_records, rejected
from agggen_platform.segmentation.shards import Shard, Source
from agggen_platform.storage.folder import Folder

MANIFEST = "manifest.json"
REJECTS = "rejects.jsonl"
_JOB = ".job.json"
_ROWS = 1024  # held at once


@dataclass(frozen=True, slots=True)
class SplitReport:
    """A split of the output."""

    rows: int
    """Of the input; every one is in ``facts/SPLIT``."""
    records: int
    """The good ones; they are in ``SPLIT.parquet``."""
    references: int
    facts: int
    rejects: int
    parts: int
    """Files in ``facts/SPLIT``."""
    bytes: int
    fingerprint: str
    """Of ``SPLIT.parquet``, both."""


class Output:
    """A folder that belongs to one job. Whoever writes to it holds its claim."""

    def __init__(self, folder: Folder, job: str) -> None:
        self.folder, self.job = folder, job

    def manifest(self) -> dict[str, Any] | None:
        """The manifest of a whole output of this job; None where there is none, or one of its files is not whole."""
        content = self.folder.read(MANIFEST)
        manifest = json.loads(content) if content else None
        if not manifest or manifest["job"] != self.job:
            return None
        whole = all(self.folder.size(f"{name}.parquet") == split["bytes"] for name, split in manifest["splits"].items())
        return manifest if whole and self.folder.size(REJECTS) is not None else None

    def begin(self, splits: Sequence[str], described: dict[str, Any]) -> None:
        """Marks the folder as this job's, and removes what a killed run of it left half written.

        Raises:
            CorpusError: the folder holds something else.
        """
        owner = self._owner()
        names = self.folder.names()
        foreign = [
            name for name in names if name in (MANIFEST, REJECTS) or name.startswith("facts/") or _is_split(name)
        ]
        if owner is None and foreign:
            raise CorpusError(f"{self.folder} holds {foreign[0]}, which no segmentation wrote; give another --out")
        if owner is not None and owner["job"] != self.job:
            raise CorpusError(
                f"{self.folder} holds another job's facts ({_differences(owner['config'], described)}); "
                "replace them with --fresh, or give another --out"
            )
        for name in names:
            if name.endswith((".tmp", ".attempts")):
                self.folder.delete(name)
        self.folder.delete(MANIFEST)
        self.folder.write(_JOB, _json({"job": self.job, "splits": list(splits), "config": described}))

    def clear(self) -> None:
        """Removes what a segmentation job left here, the manifest first; leaves anything else alone."""
        owner = self._owner()
        if owner is None:
            return
        self.folder.delete(MANIFEST)
        splits = [f"{split}.parquet" for split in owner["splits"]]
        for name in self.folder.names():
            if name in (*splits, REJECTS) or name.startswith("facts/") or name.endswith(".tmp"):
                self.folder.delete(name)
        self.folder.delete(_JOB)

    def write(
        self,
        sources: Sequence[Source],
        shards: dict[str, list[Shard]],
        wait: Callable[[Shard], None],
        accept: Callable[[], dict[str, Any]],
    ) -> dict[str, SplitReport]:
        """Puts the result together and publishes it.

        Args:
            wait: returns when a shard's file is there.
            accept: called when all are, before anything is published; returns what to add to the manifest.
        """
        reports: dict[str, SplitReport] = {}
        with ExitStack() as publish:
            with self.folder.new(REJECTS) as path, path.open("w", encoding="utf-8", newline="\n") as rejects:
                for source in sources:
                    tally = _Tally()
                    rows = self._rows(source, shards[source.split], wait, rejects, tally)
                    file = publish.enter_context(self.folder.new(f"{source.split}.parquet"))
                    records = write_records(file, rows, source.corpus, source.split)
                    counts = (tally.references, tally.facts, tally.rejects, len(shards[source.split]))
                    size, digest = file.stat().st_size, fingerprint(file)
                    reports[source.split] = SplitReport(source.rows, records, *counts, size, digest)
            more = accept()
        parts = {shard.part for split in shards.values() for shard in split}
        for name in self.folder.names("facts"):
            if name not in parts:  # of a run with other shards
                self.folder.delete(name)
        splits = {name: asdict(report) for name, report in reports.items()}
        self.folder.write(MANIFEST, _json({"job": self.job, "splits": splits} | more))
        return reports

    def _rows(
        self, source: Source, shards: list[Shard], wait: Callable[[Shard], None], rejects: TextIO, tally: _Tally
    ) -> Iterator[Record]:
        for shard in shards:
            wait(shard)
            with self.folder.open(shard.part) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
                for batch in parquet.iter_batches(_ROWS):
                    rows = batch.to_pylist()
                    for row, identifier, reason in rejected(rows):
                        reject = Reject(source.address, row, identifier, reason)
                        rejects.write(json.dumps(asdict(reject)) + "\n")
                        tally.rejects += 1
                    for record in good_records(rows):
                        tally.references += len(record.references)
                        tally.facts += sum(len(reference.facts or ()) for reference in record.references)
                        yield record

    def _owner(self) -> dict[str, Any] | None:
        content = self.folder.read(_JOB)
        return json.loads(content) if content else None


@dataclass(slots=True)
class _Tally:
    references: int = 0
    facts: int = 0
    rejects: int = 0


def _is_split(name: str) -> bool:
    return name.endswith(".parquet") and "/" not in name


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    found = [f"{key}: {theirs.get(key)} there, {value} now" for key, value in ours.items() if theirs.get(key) != value]
    return "; ".join(found) or "of another version"
