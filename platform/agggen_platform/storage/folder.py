"""A folder on this machine or in an object store (``s3://bucket/prefix``), with atomic writes.

Credentials, region and endpoint of S3 come from the standard AWS environment variables (``AWS_ACCESS_KEY_ID``,
``AWS_ENDPOINT_URL``, ...). Transient errors are retried within the limits of a `Policy`. The `StorageError` after the
last attempt, or for any other error, names the operation, the address and a remedy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from agggen.errors import ConfigError
from agggen_platform.storage.local import LocalStore
from agggen_platform.storage.s3 import S3Store
from agggen_platform.storage.s3_client import Policy


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

    def __reduce__(self) -> tuple[type[Folder], tuple[str, Policy]]:
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
        """The bytes [first, end) of a file in chunks; raises FileNotFoundError.

        `version`: the expected `Folder.version`; if the file's version differs, DamagedError is raised.
        """
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
        """Replaces the content of a small file by ``change(content)``, unless it is None; returns the final content.

        `content` is None if the file does not exist. A store with conditional writes compares and swaps: after a
        concurrent write, `change` is called again with the new content.
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
