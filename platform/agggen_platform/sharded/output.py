"""The output folder of a job: job file (settings and fingerprint) and manifest (list of files)."""

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
_JOB_FILE = ".job.json"


class JobFolder(ABC):
    kind: ClassVar[str]  # the kind of job, such as "segmentation"
    output_name: ClassVar[str]  # what the job writes, for messages, such as "texts"

    def __init__(self, address: str, job: str, inputs: Iterable[Folder] = ()) -> None:
        """`job`: the job's fingerprint. Raises CorpusError if `address` is one of the folders of the `inputs`."""
        self.folder, self.job = Folder(address), job
        if self.folder.address in {folder.address for folder in inputs}:
            raise CorpusError(f"{address} is the folder of the input; give another --out")

    @contextmanager
    def claimed(self, fresh: bool) -> Iterator[Claim]:
        """Claims the folder for the block; `fresh`: first deletes the output of any job of this kind (see `clear`)."""
        with claim(self.folder) as check_claim:
            if fresh:
                self.clear()
            yield check_claim

    @abstractmethod
    def is_output_file(self, name: str, job_file: dict[str, Any] | None) -> bool:
        """Whether the job with this job file (None: any job of this kind) writes a file of this name."""

    @abstractmethod
    def files(self, manifest: dict[str, Any]) -> list[dict[str, Any]]:
        """The files listed in `manifest`, each with the keys ``name`` and ``bytes``."""

    def manifest(self) -> dict[str, Any] | None:
        """This job's manifest; None if the output is not complete."""
        try:
            manifest = json.loads(self.folder.read(MANIFEST) or b"null")
        except ValueError:  # not written by agggen; `begin` will refuse the folder
            return None
        is_of_this_job = isinstance(manifest, dict) and manifest.get("job") == self.job
        return manifest if is_of_this_job and self._is_complete(manifest) else None

    def _is_complete(self, manifest: dict[str, Any]) -> bool:
        sizes = self.folder.sizes()
        return all(sizes.get(file["name"]) == file["bytes"] for file in self.files(manifest))

    def publish(self, manifest: dict[str, Any], folders: Sequence[str]) -> None:
        """Deletes unlisted files in `folders`, then writes the manifest; raises DamagedError if one is incomplete."""
        listed_names = {file["name"] for file in self.files(manifest)}
        for name in self.folder.names():
            if name.startswith(tuple(f"{folder}/" for folder in folders)) and name not in listed_names:
                self.folder.delete(name)  # written by a run with another shard size
        if not self._is_complete(manifest):
            raise DamagedError(
                f"files in {self.folder} are missing or incomplete, so {MANIFEST} was not "
                "written; run the same command again to rewrite them"
            )
        self.folder.remove_partial_files()  # partial files of killed actors
        self.folder.write(MANIFEST, as_json(manifest))

    def begin(self, config: dict[str, Any], **members: Any) -> None:
        """Writes the job file and removes partial files of killed processes.

        `config`: settings that distinguish this job from others, for messages; `members`: others of the job file.
        Raises CorpusError if the folder contains other files, or the output of another job.
        """
        job_file = self._read_job_file()
        names = self.folder.names() if job_file is None else []
        if foreign_files := [name for name in names if self.is_output_file(name, None)]:
            raise CorpusError(
                f"{self.folder} contains {foreign_files[0]}, which is not the output of a {self.kind} job; "
                "give another --out"
            )
        if job_file is not None and job_file["job"] != self.job:
            raise CorpusError(
                f"{self.folder} contains another job's {self.output_name} "
                f"({_differences(job_file['config'], config)}); replace them with --fresh, or give another --out"
            )
        self.folder.remove_partial_files()
        self.folder.delete(MANIFEST)
        self.folder.write(_JOB_FILE, as_json({"kind": self.kind, "job": self.job, "config": config} | members))

    def clear(self) -> None:
        """Deletes the output of a job of this kind, manifest first; raises CorpusError for another kind."""
        if (job_file := self._read_job_file()) is None:
            return
        self.folder.delete(MANIFEST)
        for name in self.folder.names():
            if self.is_output_file(name, job_file):
                self.folder.delete(name)
        self.folder.remove_partial_files()
        self.folder.delete(_JOB_FILE)

    def _read_job_file(self) -> dict[str, Any] | None:
        content = self.folder.read(_JOB_FILE)
        if not content:
            return None
        job_file: dict[str, Any] = json.loads(content)
        if (kind := job_file["kind"]) != self.kind:
            raise CorpusError(f"{self.folder} contains the output of a {kind} job; give another --out")
        return job_file


def as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _differences(existing: dict[str, Any], requested: dict[str, Any]) -> str:
    """The settings in which the job in the folder differs from the requested one, for messages."""
    differences = [
        f"{key}: {existing.get(key, 'none')} in the folder, {requested.get(key, 'none')} requested"
        for key in (existing | requested)
        if existing.get(key, "none") != requested.get(key, "none")
    ]
    return "; ".join(differences) or "written by another version"
