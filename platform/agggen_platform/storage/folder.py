"""A folder on this machine or in an object store (``s3://bucket/prefix``), with writes that are whole or not there.

Credentials, region and endpoint of S3 come from the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ...).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow.fs as pafs

from agggen.errors import ConfigError

_CHUNK = 1 << 22  # bytes copied at once


class Folder:
    """A folder by its path or ``s3://`` address; names are relative to it, with ``/`` between parts."""

    def __init__(self, address: str) -> None:
        """Raises ConfigError: an address with a scheme other than ``s3`` or ``file``."""
        scheme, separator, rest = address.partition("://")
        if separator and scheme not in ("s3", "file"):
            raise ConfigError(f"{address!r}: there are folders (a path, or file://) and s3://bucket/prefix")
        self.local = None if scheme == "s3" and separator else Path(rest if separator else address).absolute()
        if self.local is None:
            if not rest.strip("/"):
                raise ConfigError(f"{address!r} names no bucket; write s3://bucket/prefix")
            self._files, self._root = pafs.FileSystem.from_uri(address.rstrip("/"))
        else:
            self._files, self._root = pafs.LocalFileSystem(), self.local.as_posix()
        self.address = address.rstrip("/") if self.local is None else self._root

    def __str__(self) -> str:
        return self.address

    def at(self, name: str) -> str:
        """What to call `name` when speaking to the user."""
        return f"{self.address}/{name}" if name else self.address

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, None where there is no such file."""
        info = self._files.get_file_info(self._path(name))
        return info.size if info.type == pafs.FileType.File else None

    def names(self, under: str = "") -> list[str]:
        """The files below `under`, in order."""
        chosen = pafs.FileSelector(self._path(under), recursive=True, allow_not_found=True)
        found = self._files.get_file_info(chosen)
        return sorted(i.path[len(self._root) :].lstrip("/") for i in found if i.type == pafs.FileType.File)

    def open(self, name: str) -> Any:
        """An open file of pyarrow that can be read anywhere; raises FileNotFoundError."""
        return self._files.open_input_file(self._path(name))

    def read(self, name: str) -> bytes | None:
        """A small file's content, None where there is no such file."""
        try:
            with self.open(name) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file, replacing one of this name."""
        with self.new(name) as path:
            path.write_bytes(content)

    @contextmanager
    def new(self, name: str) -> Iterator[Path]:
        """A local path to write to; the file becomes `name` when the block ends without an error, and not before."""
        if self.local is not None:
            target = self.local / name
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
            try:
                yield temporary
                with temporary.open("rb") as written:
                    os.fsync(written.fileno())
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)
            return
        with tempfile.TemporaryDirectory(prefix="agggen-") as scratch:
            temporary = Path(scratch) / "object"
            yield temporary
            # An object appears when its upload ends, never in part.
            with temporary.open("rb") as source, self._files.open_output_stream(self._path(name)) as sink:
                _copy(source, sink)

    def delete(self, name: str) -> None:
        """Removes a file; one that is not there is no error."""
        if self.size(name) is not None:
            self._files.delete_file(self._path(name))

    def download(self, name: str, path: Path) -> None:
        """Copies a file to this machine."""
        with self.open(name) as source, path.open("wb") as sink:
            _copy(source, sink)


def _copy(source: IO[bytes], sink: IO[bytes]) -> None:
    shutil.copyfileobj(source, sink, _CHUNK)
