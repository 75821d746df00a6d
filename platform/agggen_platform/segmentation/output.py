"""The output folder: its parts, and the manifest that makes it whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agggen_platform.sharded.output import MANIFEST, JobFolder
from agggen_platform.sharded.worker import WORK, PartFile

_REJECTS = "rejects/"


@dataclass(frozen=True, slots=True)
class SplitReport:
    """A split of the output."""

    rows: int
    """Of the input."""
    records: int
    """The rows that are records; they are in the parts."""
    references: int
    facts: int
    rejects: int
    parts: tuple[PartFile, ...]
    """In the order of the input."""


class Output(JobFolder):
    """A folder that belongs to one segmentation job."""

    kind, product = "segmentation", "facts"

    def is_product(self, name: str, about: dict[str, Any] | None) -> bool:
        if name == MANIFEST or name.startswith((_REJECTS, f"{WORK}/")):
            return True
        if about is None:
            return name.endswith(".parquet")
        old = ("facts/", "rejects.jsonl", *(f"{split}.parquet" for split in about["splits"]))  # of earlier versions
        return name.startswith((*(f"{split}/" for split in about["splits"]), *old))

    def is_whole(self, manifest: dict[str, Any]) -> bool:
        sizes = self.folder.sizes()
        parts = [part for split in manifest["splits"].values() for part in split["parts"]]
        return all(sizes.get(part["name"]) == part["bytes"] for part in (*parts, *manifest["rejects"]))

    def finish(self, splits: dict[str, SplitReport], rejects: Sequence[PartFile], about: dict[str, Any]) -> None:
        """Publishes what the shards became, the manifest last.

        Args:
            about: what else the manifest says.

        Raises:
            DamagedError: a part did not arrive as it was sent.
        """
        files = {file.name for file in (*rejects, *(part for split in splits.values() for part in split.parts))}
        folders = (_REJECTS, *(f"{split}/" for split in splits))
        for name in self.folder.names():
            if name.startswith(folders) and name not in files:  # of a run with other shards
                self.folder.delete(name)
        reports = {name: asdict(report) for name, report in splits.items()}
        self.publish({"job": self.job, "splits": reports, "rejects": [asdict(file) for file in rejects]} | about)
