"""The checkpoints of a run.

    STAGE/step-00001200-5f3a9c01.safetensors    a checkpoint, named by its step and the start of its SHA-256
    STAGE/latest.json                           the index of verified checkpoints, newest first

A save writes the checkpoint, reads it back to verify it, and then replaces the index atomically. A killed process
leaves at most one checkpoint that is not in the index; the next save deletes it.
"""

import json
import logging
import os
import re
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from agggen_platform.storage import verified
from agggen_platform.storage.errors import DamagedError, StorageError, as_storage_error
from agggen_platform.storage.folder import Folder

_INDEX = "latest.json"
_CHECKPOINT_NAME = re.compile(r"step-\d{8,}-[0-9a-f]{8}\.safetensors")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    stage: str
    step: int
    name: str  # the file's name in the store's folder
    bytes: int
    sha256: str


class CheckpointStore:
    """The newest `keep` checkpoints per stage in `folder`. Only the process that holds the folder's claim may save.

    `report` receives messages about errors that do not stop the run. `check_claim` raises if the folder's claim is
    lost; it is called before a save, and again before writing the index.
    """

    def __init__(
        self,
        folder: Folder,
        keep: int = 2,
        report: Callable[[str], None] = _log.warning,
        check_claim: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder, self.keep, self._report, self._check_claim = folder, keep, report, check_claim
        self._damaged_names: set[str] = set()  # checkpoints found to be damaged
        self._cleaned_stages: set[str] = set()  # stages without partial files of earlier processes

    def save(self, stage: str, step: int, path: Path) -> SavedCheckpoint:
        """Stores and verifies the file at `path` as the newest checkpoint of `stage`. Errors leave the index unchanged.

        Raises DamagedError if the stored file differs from the sent one, ClaimedError if another job took the claim.
        """
        self._check_claim()
        indexed = self._read_index(stage)
        self._delete_unindexed(stage, indexed)
        size, sha256 = verified.measure(path)
        saved = SavedCheckpoint(stage, step, f"{stage}/step-{step:08d}-{sha256[:8]}.safetensors", size, sha256)
        if saved not in indexed or not verified.matches(self.folder, saved.name, size, sha256):
            verified.put(self.folder, saved.name, path)
        self._damaged_names.discard(saved.name)
        newest = [saved, *(older for older in indexed if older.name != saved.name)][: self.keep]
        self._check_claim()
        checkpoints = [{name: value for name, value in asdict(entry).items() if name != "stage"} for entry in newest]
        self.folder.write(f"{stage}/{_INDEX}", (json.dumps({"checkpoints": checkpoints}, indent=1) + "\n").encode())
        self._delete_unindexed(stage, newest)
        return saved

    def latest(self, stage: str) -> SavedCheckpoint | None:
        """The newest checkpoint that has the indexed size and is not known to be damaged; None if there is none."""
        for saved in self._read_index(stage):
            if saved.name in self._damaged_names:
                continue
            size = self.folder.size(saved.name)
            if size == saved.bytes:
                return saved
            state = "is missing" if size is None else f"has {size:,} bytes, not {saved.bytes:,}"
            self._report(f"the checkpoint {self.folder.at(saved.name)} {state}; trying an older one")
        return None

    def fetch(self, saved: SavedCheckpoint, path: Path) -> None:
        """Downloads a checkpoint and, if its SHA-256 matches, moves it to `path`.

        Raises DamagedError if the checkpoint is damaged or missing; from then on, `latest` returns an older one.
        """
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
        with as_storage_error("write", path, saved.bytes):
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            verified.get(self.folder, saved.name, temporary, saved.bytes, saved.sha256)
            with as_storage_error("write", path, saved.bytes):
                os.replace(temporary, path)
        except DamagedError:
            self._damaged_names.add(saved.name)
            raise
        finally:
            temporary.unlink(missing_ok=True)

    def restore(self, stage: str, path: Path) -> SavedCheckpoint | None:
        """Downloads the newest intact checkpoint; None if there is none. Raises DamagedError if all are damaged."""
        while saved := self.latest(stage):
            try:
                self.fetch(saved, path)
            except DamagedError as error:
                self._report(f"{error}; trying an older one")
            else:
                return saved
        if indexed := self._read_index(stage):
            names = ", ".join(self.folder.at(checkpoint.name) for checkpoint in indexed)
            raise DamagedError(f"all checkpoints of {stage} are damaged or incomplete ({names}); --fresh starts over")
        return None

    def _read_index(self, stage: str) -> list[SavedCheckpoint]:
        """The entries of the index, newest first; raises DamagedError if the index is invalid."""
        name = f"{stage}/{_INDEX}"
        content = self.folder.read(name)
        if content is None:
            return []
        try:
            return [SavedCheckpoint(stage, **entry) for entry in json.loads(content)["checkpoints"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            address = self.folder.at(name)
            raise DamagedError(f"{address} is damaged ({error!r}); remove it to restart the stage") from error

    def _delete_unindexed(self, stage: str, indexed: list[SavedCheckpoint]) -> None:
        """Deletes checkpoints that are not in `indexed`, and partial files. Passes errors to `report`."""
        indexed_names = {checkpoint.name for checkpoint in indexed}
        try:
            if stage not in self._cleaned_stages:  # only once: a new holder of the claim may write partial files later
                self.folder.remove_partial_files(stage)
                self._cleaned_stages.add(stage)
            for name in self.folder.names(stage):
                if name not in indexed_names and _CHECKPOINT_NAME.fullmatch(name.removeprefix(f"{stage}/")):
                    self.folder.delete(name)
        except StorageError as error:
            self._report(f"old checkpoints could not be deleted: {error}")
