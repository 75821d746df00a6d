"""The checkpoints of a run. Only checkpoints that were read back and verified after writing are in the index.

    STAGE/step-00001200-5f3a9c01.safetensors    a checkpoint, named by its step and the start of its SHA-256
    STAGE/latest.json                           the index of the verified checkpoints, newest first

The index is replaced atomically after the new checkpoint was verified. A process that is killed at any time therefore
leaves an index of complete checkpoints, and at most one file that is not in the index, which the next save removes.
"""

from __future__ import annotations

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
    """A verified checkpoint."""

    stage: str
    step: int
    name: str  # of the file, in the store's folder
    bytes: int
    sha256: str


class CheckpointStore:
    """The checkpoints in `folder`. Only the holder of the folder's claim may save."""

    def __init__(
        self,
        folder: Folder,
        keep: int = 2,
        report: Callable[[str], None] = _log.warning,
        check_claim: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            keep: the number of verified checkpoints to keep of each stage.
            report: receives a message about each recovered problem; by default, the message is logged.
            check_claim: raises if the folder's claim is lost; called before a save, and again before the index is written.
        """
        self.folder, self.keep, self._report, self._check_claim = folder, keep, report, check_claim
        self._damaged: set[str] = set()
        self._cleaned: set[str] = set()

    def save(self, stage: str, step: int, path: Path) -> SavedCheckpoint:
        """Stores and verifies the file at `path` as the newest checkpoint of `stage`.

        Raises:
            DamagedError: the stored file differs from the sent one; the index is unchanged.
            StorageError: the folder refused access, is full, or did not answer; the index is unchanged.
            ClaimedError: another job took the folder over.
        """
        self._check_claim()
        indexed = self._indexed(stage)
        self._tidy(stage, indexed)
        size, sha256 = verified.measure(path)
        saved = SavedCheckpoint(stage, step, f"{stage}/step-{step:08d}-{sha256[:8]}.safetensors", size, sha256)
        if saved not in indexed or not verified.matches(self.folder, saved.name, size, sha256):
            verified.put(self.folder, saved.name, path)
        self._damaged.discard(saved.name)
        newest = [saved, *(older for older in indexed if older.name != saved.name)][: self.keep]
        self._check_claim()
        checkpoints = [{name: value for name, value in asdict(kept).items() if name != "stage"} for kept in newest]
        self.folder.write(f"{stage}/{_INDEX}", (json.dumps({"checkpoints": checkpoints}, indent=1) + "\n").encode())
        self._tidy(stage, newest)
        return saved

    def latest(self, stage: str) -> SavedCheckpoint | None:
        """The newest checkpoint that has its full size and is not known to be damaged; None if there is none.

        Raises:
            StorageError: the index cannot be read.
        """
        for saved in self._indexed(stage):
            if saved.name in self._damaged:
                continue
            size = self.folder.size(saved.name)
            if size == saved.bytes:
                return saved
            state = "is missing" if size is None else f"has {size:,} bytes, not {saved.bytes:,}"
            self._report(f"the checkpoint {self.folder.at(saved.name)} {state}; trying an older one")
        return None

    def fetch(self, saved: SavedCheckpoint, path: Path) -> None:
        """Downloads a checkpoint to `path`, which is created only if the SHA-256 matches.

        Raises:
            DamagedError: the checkpoint is damaged or missing; `latest` then returns an older checkpoint.
            StorageError: the folder refused access or did not answer, or the disk of `path` is full.
        """
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
        with as_storage_error("write", path, saved.bytes):
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            verified.get(self.folder, saved.name, temporary, saved.bytes, saved.sha256)
            with as_storage_error("write", path, saved.bytes):
                os.replace(temporary, path)
        except DamagedError:
            self._damaged.add(saved.name)
            raise
        finally:
            temporary.unlink(missing_ok=True)

    def restore(self, stage: str, path: Path) -> SavedCheckpoint | None:
        """Fetches and returns the newest complete checkpoint; None if no checkpoint was ever saved.

        Raises:
            DamagedError: there are checkpoints, but none is complete.
            StorageError: the folder refused access or did not answer, or the disk of `path` is full.
        """
        while saved := self.latest(stage):
            try:
                self.fetch(saved, path)
            except DamagedError as error:
                self._report(f"{error}; trying an older one")
            else:
                return saved
        if indexed := self._indexed(stage):
            names = ", ".join(self.folder.at(checkpoint.name) for checkpoint in indexed)
            raise DamagedError(f"all checkpoints of {stage} are damaged or incomplete ({names}); --fresh starts over")
        return None

    def _indexed(self, stage: str) -> list[SavedCheckpoint]:
        name = f"{stage}/{_INDEX}"
        content = self.folder.read(name)
        if content is None:
            return []
        try:
            return [SavedCheckpoint(stage, **entry) for entry in json.loads(content)["checkpoints"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedError(
                f"{self.folder.at(name)} is damaged ({error!r}); remove it to restart the stage"
            ) from error

    def _tidy(self, stage: str, indexed: list[SavedCheckpoint]) -> None:
        """Removes old checkpoints and files of killed saves. A failure is reported but not raised."""
        indexed_names = {checkpoint.name for checkpoint in indexed}
        try:
            if stage not in self._cleaned:  # only once: later partial files may belong to a new holder of the claim
                self.folder.remove_partial_files(stage)
                self._cleaned.add(stage)
            for name in self.folder.names(stage):
                if name not in indexed_names and _CHECKPOINT_NAME.fullmatch(name.removeprefix(f"{stage}/")):
                    self.folder.delete(name)
        except StorageError as error:
            self._report(f"old checkpoints could not be removed: {error}")
