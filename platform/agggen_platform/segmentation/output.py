"""The output folder: what makes it whole, and putting it together from the shards' files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from agggen.corpora.prepared import fingerprint, write_rows
from agggen.corpora.rejects import Reject
from agggen.records import Plan
from agggen_platform.segmentation.rows import rejected
from agggen_platform.segmentation.shards import Source
from agggen_platform.sharded.output import MANIFEST, REJECTS, JobFolder
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import WORK, open_part

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


class Output(JobFolder):
    """A folder that belongs to one segmentation job."""

    kind, product = "segmentation", "facts"

    def is_product(self, name: str, about: dict[str, Any] | None) -> bool:
        splits = None if about is None else {f"{split}.parquet" for split in about["splits"]}
        is_split = name.endswith(".parquet") and "/" not in name if splits is None else name in splits
        return name in (MANIFEST, REJECTS) or name.startswith(("facts/", f"{WORK}/")) or is_split

    def is_whole(self, manifest: dict[str, Any]) -> bool:
        whole = all(self.folder.size(f"{name}.parquet") == split["bytes"] for name, split in manifest["splits"].items())
        return whole and self.folder.size(REJECTS) is not None

    def write(
        self,
        sources: Sequence[Source],
        shards: dict[str, list[Shard]],
        wait: Callable[[Shard], None],
        accept: Callable[[], dict[str, Any]],
        confirm: Callable[[], None],
    ) -> dict[str, SplitReport]:
        """Puts the result together and publishes it.

        Args:
            wait: returns when a shard's file is there.
            accept: called when all are, before anything is published; returns what to add to the manifest.
            confirm: called before the manifest is written, since uploads take time; raises if the folder was lost.
        """
        reports: dict[str, SplitReport] = {}
        with ExitStack() as publish:
            with self.folder.new(REJECTS) as path, path.open("w", encoding="utf-8", newline="\n") as rejects:
                for source in sources:
                    tally = _Tally()
                    rows = self._rows(source, shards[source.split], wait, rejects, tally)
                    file = publish.enter_context(self.folder.new(f"{source.split}.parquet"))
                    records = write_rows(file, rows, source.corpus, source.split)
                    counts = (tally.references, tally.facts, tally.rejects, len(shards[source.split]))
                    size, digest = file.stat().st_size, fingerprint(file)
                    reports[source.split] = SplitReport(source.rows, records, *counts, size, digest)
            more = accept()
        confirm()
        parts = {shard.part for split in shards.values() for shard in split}
        for name in self.folder.names("facts"):
            if name not in parts:  # of a run with other shards
                self.folder.delete(name)
        splits = {name: asdict(report) for name, report in reports.items()}
        self.publish({"job": self.job, "splits": splits} | more)
        return reports

    def _rows(
        self, source: Source, shards: list[Shard], wait: Callable[[Shard], None], rejects: TextIO, tally: _Tally
    ) -> Iterator[dict[str, Any]]:
        for shard in shards:
            wait(shard)
            with open_part(self.folder, shard.part) as parquet:
                for batch in parquet.iter_batches(_ROWS):
                    rows = batch.to_pylist()
                    for number, identifier, reason in rejected(rows):
                        reject = Reject(source.address, number, identifier, reason)
                        rejects.write(json.dumps(asdict(reject)) + "\n")
                        tally.rejects += 1
                    for row in good_rows(rows, source.corpus, source.split):
                        tally.references += len(row["references"])
                        tally.facts += sum(len(reference["facts"]) for reference in row["references"])
                        yield row


@dataclass(slots=True)
class _Tally:
    references: int = 0
    facts: int = 0
    rejects: int = 0


def good_rows(rows: Sequence[dict[str, Any]], corpus: str, split: str) -> Iterator[dict[str, Any]]:
    """The records among segmented rows, each with its good references, as `agggen.corpora.prepared` has them.

    They were read as records when they were segmented, so they are not checked a second time.
    """
    for row in rows:
        if row["error"] is None:
            yield {
                "id": row["id"].strip(),
                "corpus": corpus,
                "split": split,
                "category": row["category"],
                "triples": [{name: part.strip() for name, part in triple.items()} for triple in row["triples"]],
                "references": [
                    {
                        "text": reference["text"],
                        "facts": [{"text": f["text"], "predicates": f["predicates"]} for f in reference["facts"]],
                        "plan": str(Plan.parse(reference["plan"])) if reference["plan"] else None,
                    }
                    for reference in row["references"]
                    if reference["error"] is None
                ],
            }
