"""The checkpoints of a run: saved whole, read back, and only then the ones that a restart begins from.

    STAGE/step-00001200-5f3a9c01.safetensors    a checkpoint, named by its step and the start of its SHA-256
    STAGE/latest.json                           the mark: the verified checkpoints that are kept, the newest first

The mark moves in one step, after the checkpoint that it names was read back. So a process killed at any moment leaves a
mark that names whole checkpoints, and at most a file that no mark names; the next save removes it.
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

from agggen.errors import ConfigError
from agggen_platform.storage import verified
from agggen_platform.storage.errors import DamagedError, StorageError, explained
from agggen_platform.storage.folder import Folder

_MARK = "latest.json"
_OURS = re.compile(r"step-\d{8,}-[0-9a-f]{8}\.safetensors")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that was read back after it was written."""

    stage: str
    step: int
    name: str
    """In the store's folder."""
    bytes: int
    sha256: str


class CheckpointStore:
    """The checkpoints in `folder`. One process at a time may save; `claim` sees to that."""

    def __init__(
        self,
        folder: Folder,
        keep: int = 2,
        report: Callable[[str], None] = _log.warning,
        claimed: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            keep: how many verified checkpoints of a stage stay.
            report: is told, in a sentence, of what the store had to make do with; by default the log is.
            claimed: raises if the folder's claim is lost; called before a save, and again before its mark.

        Raises:
            ConfigError: `keep` is below 1.
        """
        if keep < 1:
            raise ConfigError(f"at least one checkpoint must be kept, not {keep}")
        self.folder, self.keep, self._report, self._claimed = folder, keep, report, claimed
        self._damaged: set[str] = set()
        self._swept: set[str] = set()

    def save(self, stage: str, step: int, path: Path) -> Saved:
        """Stores the file at `path` as the newest checkpoint of `stage`; when this returns, `latest` is this one.

        Raises:
            DamagedError: it did not arrive as it was sent; the mark stays where it was.
            StorageError: the folder refused, is full, or did not answer; the mark stays where it was.
            ClaimedError: another job took the folder over.
        """
        self._claimed()
        marked = self._marked(stage)
        self._tidy(stage, marked)
        size, sha256 = verified.measure(path)
        saved = Saved(stage, step, f"{stage}/step-{step:08d}-{sha256[:8]}.safetensors", size, sha256)
        if saved not in marked or not verified.holds(self.folder, saved.name, size, sha256):
            verified.put(self.folder, saved.name, path)
        self._damaged.discard(saved.name)
        now = [saved, *(older for older in marked if older.name != saved.name)][: self.keep]
        self._claimed()
        self._mark(stage, now)
        self._tidy(stage, now)
        return saved

    def latest(self, stage: str) -> Saved | None:
        """The newest checkpoint that is there in its full size and was not found damaged; None where there is none.

        Raises:
            StorageError: the mark cannot be read.
        """
        for saved in self._marked(stage):
            if saved.name in self._damaged:
                continue
            size = self.folder.size(saved.name)
            if size == saved.bytes:
                return saved
            state = "is not there" if size is None else f"has {size:,} bytes, not {saved.bytes:,}"
            self._report(f"the checkpoint {self.folder.at(saved.name)} {state}; an older one is looked for")
        return None

    def fetch(self, saved: Saved, path: Path) -> None:
        """Downloads a checkpoint to `path`, which appears only if its SHA-256 is right.

        Raises:
            DamagedError: it is damaged or gone; `latest` gives an older one from now on.
            StorageError: the folder refused or did not answer, or there is no room at `path`.
        """
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
        with explained("write", path, saved.bytes):
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            verified.get(self.folder, saved.name, beside, saved.bytes, saved.sha256)
            with explained("write", path, saved.bytes):
                os.replace(beside, path)
        except DamagedError:
            self._damaged.add(saved.name)
            raise
        finally:
            beside.unlink(missing_ok=True)

    def restore(self, stage: str, path: Path) -> Saved | None:
        """Fetches the newest checkpoint that is whole, and says which it is; None where none was ever saved.

        Raises:
            DamagedError: there are checkpoints, and none of them is whole.
            StorageError: the folder refused or did not answer, or there is no room at `path`.
        """
        while saved := self.latest(stage):
            try:
                self.fetch(saved, path)
            except DamagedError as error:
                self._report(f"{error}; an older one is looked for")
            else:
                return saved
        if marked := self._marked(stage):
            names = ", ".join(self.folder.at(checkpoint.name) for checkpoint in marked)
            raise DamagedError(f"no checkpoint of {stage} is whole, neither is {names}; --fresh starts over")
        return None

    def clear(self, stage: str) -> None:
        """Forgets and removes all checkpoints of a stage."""
        self.folder.delete(f"{stage}/{_MARK}")
        self._tidy(stage, [])

    def _marked(self, stage: str) -> list[Saved]:
        name = f"{stage}/{_MARK}"
        content = self.folder.read(name)
        if content is None:
            return []
        try:
            return [Saved(stage, **entry) for entry in json.loads(content)["checkpoints"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedError(
                f"{self.folder.at(name)} is damaged ({error!r}); remove it to begin the stage anew"
            ) from error

    def _mark(self, stage: str, marked: list[Saved]) -> None:
        checkpoints = [
            {key: value for key, value in asdict(checkpoint).items() if key != "stage"} for checkpoint in marked
        ]
        self.folder.write(f"{stage}/{_MARK}", (json.dumps({"checkpoints": checkpoints}, indent=1) + "\n").encode())

    def _tidy(self, stage: str, marked: list[Saved]) -> None:
        """Removes the checkpoints of the stage that are not kept, and what a killed save left; nothing else.

        What cannot be removed costs room and no more, so it is reported and is no error.
        """
        marked_names = {checkpoint.name for checkpoint in marked}
        try:
            if stage not in self._swept:  # once: what others leave later is of a new owner
                self.folder.sweep(stage)
                self._swept.add(stage)
            for name in self.folder.names(stage):
                if name not in marked_names and _OURS.fullmatch(name.removeprefix(f"{stage}/")):
                    self.folder.delete(name)
        except StorageError as error:
            self._report(f"old checkpoints stay for now: {error}")
