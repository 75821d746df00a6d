"""The implementation of `Folder` for this machine's file system."""

import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agggen_platform.storage.errors import DamagedError, StorageError, as_storage_error

_CHUNK = 1 << 20  # bytes
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp(?:\.\d+\.tmp)?")
"""Temporary files of `new`, and of functions that write to its path atomically, such as ``prepared.write_records``."""


class LocalStore:
    """The files below `root`; see `Folder`. Refuses to write through a symbolic link that leads out of `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def size(self, name: str) -> int | None:
        path = self.root / name
        with as_storage_error("inspect", path):
            return path.stat().st_size if path.is_file() else None

    def sizes(self, subfolder: str) -> dict[str, int]:
        top_folder = self.root / subfolder
        sizes = {}
        with as_storage_error("list", top_folder):
            for folder, _, files in os.walk(top_folder, onerror=_raise_unless_missing):
                for path in (Path(folder) / file for file in files):
                    with suppress(FileNotFoundError):  # deleted after it was listed
                        sizes[path.relative_to(self.root).as_posix()] = path.stat().st_size
        return sizes

    def open(self, name: str) -> Any:
        import pyarrow as pa

        path = self.root / name
        with as_storage_error("read", path):
            return pa.OSFile(str(path), "rb")  # releases the GIL while it reads

    def version(self, name: str) -> str:
        path = self.root / name
        with as_storage_error("inspect", path):
            return _version(path.stat())

    def chunks(self, name: str, first: int = 0, end: int | None = None, version: str | None = None) -> Iterator[bytes]:
        path = self.root / name
        with as_storage_error("read", path), path.open("rb") as file:
            file.seek(first)
            remaining = sys.maxsize if end is None else end - first
            while chunk := file.read(min(_CHUNK, remaining)):
                if version not in (None, _version(os.fstat(file.fileno()))):
                    raise DamagedError(f"cannot read {path}: it was replaced while it was read")
                remaining -= len(chunk)
                yield chunk

    @contextmanager
    def new(self, name: str) -> Iterator[Path]:
        target = self.root / name
        with as_storage_error("write", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            self._check_inside(target)
            temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            with as_storage_error("write", target, only_full=True):
                yield temporary
            with as_storage_error("write", target):
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())
                temporary.replace(target)
                _sync(target.parent)
        finally:
            temporary.unlink(missing_ok=True)

    def write(self, name: str, content: bytes) -> None:
        with self.new(name) as path, as_storage_error("write", self.root / name, len(content)):
            path.write_bytes(content)

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        current = b"".join(self.chunks(name)) if self.size(name) is not None else None
        if (new_content := change(current)) is None:
            return current
        self.write(name, new_content)
        return new_content

    def upload(self, name: str, path: Path) -> None:
        with self.new(name) as copy:
            _copy(path, copy, self.root / name)

    def download(self, name: str, path: Path) -> None:
        _copy(self.root / name, path, path)

    def delete(self, name: str) -> None:
        path = self.root / name
        with as_storage_error("delete", path):
            if path.parent.is_dir():
                self._check_inside(path)
                path.unlink(missing_ok=True)

    def remove_partial_files(self, subfolder: str) -> None:
        for name in self.sizes(subfolder):
            if _TEMPORARY.fullmatch(name.rpartition("/")[2]):
                self.delete(name)

    def _check_inside(self, path: Path) -> None:
        folder = path.parent.resolve()
        if not folder.is_relative_to(self.root.resolve()):
            raise StorageError(
                f"a symbolic link redirects {path} to {folder}, outside {self.root}: remove the link, or use the "
                "folder that it points to"
            )


def _copy(source: Path, target: Path, path_in_errors: Path) -> None:
    """Copies a file and flushes it to the disk."""
    size = source.stat().st_size
    with as_storage_error("write", path_in_errors, size), source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer, _CHUNK)
        writer.flush()
        os.fsync(writer.fileno())


def _version(stat: os.stat_result) -> str:
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def _sync(folder: Path) -> None:
    """Flushes the directory entries to the disk, so that a renamed file survives a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
