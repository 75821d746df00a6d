"""The output folder of a job: its owner and its manifest."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from agggen.errors import CorpusError
from agggen_platform.storage.claim import Claim, claim
from agggen_platform.storage.errors import DamagedError
from agggen_platform.storage.folder import Folder

MANIFEST = "manifest.json"
REJECTS = "rejects.jsonl"
_JOB = ".job.json"


class JobFolder(ABC):
    """The output folder of one job."""

    kind: ClassVar[str]  # the kind of job, such as "segmentation"
    output_name: ClassVar[str]  # the name of the job's output in messages, such as "texts"

    def __init__(self, address: str, job: str, inputs: Iterable[Folder] = ()) -> None:
        """
        Args:
            job: the job's fingerprint.
            inputs: the folders of the input.

        Raises:
            CorpusError: the input is in the same folder.
        """
        self.folder, self.job = Folder(address), job
        if self.folder.address in {folder.address for folder in inputs}:
            raise CorpusError(f"{address} is the folder of the input; give another --out")

    @contextmanager
    def claimed(self, fresh: bool) -> Iterator[Claim]:
        """Claims the folder for the block; `fresh`: first removes the output of this or another job of this kind.

        Raises:
            ClaimedError: another job works on the folder.
            CorpusError: see `clear`.
        """
        with claim(self.folder) as check_claim:
            if fresh:
                self.clear()
            yield check_claim

    @abstractmethod
    def is_output_file(self, name: str, about: dict[str, Any] | None) -> bool:
        """Whether a job described by `about` (None: any job of this kind) writes a file of this name."""

    @abstractmethod
    def files(self, manifest: dict[str, Any]) -> list[dict[str, Any]]:
        """The files that the manifest lists, each with its name and size in bytes."""

    def manifest(self) -> dict[str, Any] | None:
        """The manifest of this job; None if there is none, or if a file that it lists is missing or incomplete."""
        try:
            manifest = json.loads(self.folder.read(MANIFEST) or b"null")
        except ValueError:  # written by another program; `begin` refuses the folder
            return None
        is_own = isinstance(manifest, dict) and manifest.get("job") == self.job
        return manifest if is_own and self._is_complete(manifest) else None

    def _is_complete(self, manifest: dict[str, Any]) -> bool:
        sizes = self.folder.sizes()
        return all(sizes.get(file["name"]) == file["bytes"] for file in self.files(manifest))

    def publish(self, manifest: dict[str, Any], folders: Sequence[str]) -> None:
        """Removes files in `folders` that are not in `manifest`, then writes the manifest, which completes the output.

        Raises:
            DamagedError: a listed file in the store is incomplete.
        """
        listed = {file["name"] for file in self.files(manifest)}
        for name in self.folder.names():
            if name.startswith(tuple(f"{folder}/" for folder in folders)) and name not in listed:
                self.folder.delete(name)  # written by a run with another shard size
        if not self._is_complete(manifest):
            raise DamagedError(
                f"the {self.output_name} in {self.folder} differ from those that were sent, so {MANIFEST} was not written; "
                "the same command writes them again"
            )
        self.folder.remove_partial_files()  # partial files of killed actors
        self.folder.write(MANIFEST, as_json(manifest))

    def begin(self, config: dict[str, Any], **about: Any) -> None:
        """Marks the folder as this job's and removes temporary files of killed processes.

        Args:
            config: settings that distinguish this job from others, for messages.
            about: additional members of the job file.

        Raises:
            CorpusError: the folder contains other files, or the output of another job.
        """
        owner = self._owner()
        if owner is None and (foreign := [name for name in self.folder.names() if self.is_output_file(name, None)]):
            raise CorpusError(
                f"{self.folder} contains {foreign[0]}, which is not the output of a {self.kind} job; give another --out"
            )
        if owner is not None and owner["job"] != self.job:
            raise CorpusError(
                f"{self.folder} contains another job's {self.output_name} ({_differences(owner['config'], config)}); "
                "replace them with --fresh, or give another --out"
            )
        self.folder.remove_partial_files()
        self.folder.delete(MANIFEST)
        self.folder.write(_JOB, as_json({"kind": self.kind, "job": self.job, "config": config} | about))

    def clear(self) -> None:
        """Removes the files of a job of this kind, the manifest first; other files stay.

        Raises:
            CorpusError: the folder belongs to a job of another kind.
        """
        owner = self._owner()
        if owner is None:
            return
        self.folder.delete(MANIFEST)
        for name in self.folder.names():
            if self.is_output_file(name, owner):
                self.folder.delete(name)
        self.folder.remove_partial_files()
        self.folder.delete(_JOB)

    def _owner(self) -> dict[str, Any] | None:
        content = self.folder.read(_JOB)
        if not content:
            return None
        owner: dict[str, Any] = json.loads(content)
        if (kind := owner["kind"]) != self.kind:
            raise CorpusError(f"{self.folder} contains the output of a {kind} job; give another --out")
        return owner


def as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _differences(existing: dict[str, Any], new: dict[str, Any]) -> str:
    pairs = {key: (existing.get(key, "none"), new.get(key, "none")) for key in (existing | new)}
    changed = [f"{key}: {before} there, {now} now" for key, (before, now) in pairs.items() if before != now]
    return "; ".join(changed) or "written by another version"
