"""A folder on this machine or in an object store (``s3://bucket/prefix``), with atomic writes.

Credentials, region and endpoint of S3 come from the standard AWS environment variables (``AWS_ACCESS_KEY_ID``,
``AWS_ENDPOINT_URL``, ...). Transient errors are retried within the limits of a `Policy`. The `StorageError` after the
last attempt, or for any other error, names the operation, the address and a remedy.
"""

import hashlib
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from agggen.errors import ConfigError
from agggen_platform.storage.errors import DamagedError, StorageError, as_storage_error
from agggen_platform.storage.s3 import S3Store
from agggen_platform.storage.s3_client import Policy

_CHUNK = 1 << 20  # bytes
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp(?:\.\d+\.tmp)?")
"""Temporary files of `new`, and of functions that write to its path atomically, such as ``prepared.write_records``."""


class Folder:
    """A folder by its path or ``s3://`` address; file names are relative paths with ``/`` as separator.

    All methods raise ConfigError for a name with an empty part, ``.``, ``..``, a backslash or a NUL, and StorageError
    if the disk or the store refuses an operation or does not answer. Can be pickled; thread-safe.
    """

    def __init__(self, address: str, policy: Policy = Policy()) -> None:  # noqa: B008 (Policy is immutable)
        """Raises ConfigError if the scheme is not ``s3`` or ``file``, the bucket is missing, or boto3 not installed."""
        scheme, separator, location = address.partition("://")
        if separator and scheme not in ("s3", "file"):
            raise ConfigError(
                f"{address!r} is neither a path, file://PATH nor s3://BUCKET/PREFIX; use other stores through their S3 "
                "interface: Google Cloud Storage with AWS_ENDPOINT_URL_S3=https://storage.googleapis.com and HMAC "
                "keys, Azure with an S3 gateway"
            )
        self.policy = policy
        self.local: Path | None = None
        self._store: LocalStore | S3Store
        if separator and scheme == "s3":
            bucket, _, prefix = location.rstrip("/").partition("/")
            if not bucket:
                raise ConfigError(f"{address!r} names no bucket; write s3://bucket/prefix")
            if prefix:
                _valid_name(prefix)
            self.address = address.rstrip("/")
            self._store = S3Store(bucket, prefix, policy)
        else:
            path = location if separator else address
            if "\0" in path:
                raise ConfigError(f"{address!r} is not a path: it contains a NUL")
            self.local = Path(path).absolute()
            self.address = self.local.as_posix()
            self._store = LocalStore(self.local)

    def __str__(self) -> str:
        return self.address

    def __reduce__(self) -> tuple[Any, ...]:
        return Folder, (self.address, self.policy)

    def at(self, name: str) -> str:
        """The full address of `name`, for messages."""
        return f"{self.address}/{name}" if name else self.address

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        return self._store.size(_valid_name(name))

    def names(self, subfolder: str = "") -> list[str]:
        """The names of all files below `subfolder`, sorted; empty if `subfolder` does not exist."""
        return sorted(self.sizes(subfolder))

    def sizes(self, subfolder: str = "") -> dict[str, int]:
        """Name -> size in bytes of all files below `subfolder`."""
        return self._store.sizes(_valid_name(subfolder) if subfolder else "")

    def open(self, name: str) -> Any:
        """Opens a file for reading: seekable, binary. Raises FileNotFoundError."""
        return self._store.open(_valid_name(name))

    def version(self, name: str) -> str:
        """A string that changes whenever the file is written: size and mtime, or ETag; raises FileNotFoundError."""
        return self._store.version(_valid_name(name))

    def chunks(self, name: str, first: int = 0, end: int | None = None, version: str | None = None) -> Iterator[bytes]:
        """The bytes [first, end) of a file; raises DamagedError if `Folder.version` is not `version`."""
        return self._store.chunks(_valid_name(name), first, end, version)

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if it does not exist."""
        try:
            return b"".join(self._store.chunks(_valid_name(name)))
        except FileNotFoundError:
            return None

    def sha256(self, name: str) -> str:
        """SHA-256 of a file's content, in hexadecimal; raises FileNotFoundError."""
        digest = hashlib.sha256()
        for chunk in self._store.chunks(_valid_name(name)):
            digest.update(chunk)
        return digest.hexdigest()

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file, replacing an existing file of this name."""
        self._store.write(_valid_name(name), content)

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Replaces the content of a small file (None: no such file) by ``change(content)``, unless that is None.

        Returns the final content. A store with conditional writes calls `change` again after a concurrent write.
        """
        return self._store.update(_valid_name(name), change)

    def new(self, name: str) -> AbstractContextManager[Path]:
        """Yields a local path to write to; if the block raises no error, stores that file as `name`, atomically."""
        return self._store.new(_valid_name(name))

    def upload(self, name: str, path: Path) -> None:
        """Copies a local file into the folder atomically, replacing an existing file of this name."""
        self._store.upload(_valid_name(name), path)

    def download(self, name: str, path: Path) -> None:
        """Copies a file to `path`; after an error `path` may be incomplete. Raises FileNotFoundError."""
        self._store.download(_valid_name(name), path)

    def delete(self, name: str) -> None:
        """Deletes a file if it exists."""
        self._store.delete(_valid_name(name))

    def remove_partial_files(self, subfolder: str = "") -> None:
        """Deletes partial files of killed processes; no other process may be writing below `subfolder`."""
        self._store.remove_partial_files(_valid_name(subfolder) if subfolder else "")


def _valid_name(name: str) -> str:
    """Returns `name`; raises ConfigError if it is not valid (see `Folder`)."""
    invalid_parts = [character for character in ("\\", "\0") if character in name]
    invalid_parts += [part or "//" for part in name.split("/") if part in ("", ".", "..")]
    if invalid_parts:
        raise ConfigError(
            f"{name!r} is not a valid file name in a folder: it contains {invalid_parts[0]!r}; separate its parts by "
            "single slashes"
        )
    return name


class LocalStore:
    """The files below `root`. Refuses to write through a symbolic link that leads out of `root`."""

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
                handle = os.open(target.parent, os.O_RDONLY)
                try:
                    os.fsync(handle)  # flushes the directory entry, so that the renamed file survives a power failure
                finally:
                    os.close(handle)
        finally:
            temporary.unlink(missing_ok=True)

    def write(self, name: str, content: bytes) -> None:
        with self.new(name) as path, as_storage_error("write", self.root / name, len(content)):
            path.write_bytes(content)

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        current = b"".join(self.chunks(name)) if self.size(name) is not None else None
        if (new_content := change(current)) is not None:
            self.write(name, new_content)
        return current if new_content is None else new_content

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
    size = source.stat().st_size
    with as_storage_error("write", path_in_errors, size), source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer, _CHUNK)
        writer.flush()
        os.fsync(writer.fileno())


def _version(stat: os.stat_result) -> str:
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
