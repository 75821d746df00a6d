"""A folder on this machine or in an object store (``s3://bucket/prefix``), with atomic writes.

Credentials, region and endpoint of S3 come from the environment, as for every AWS tool (``AWS_ACCESS_KEY_ID``,
``AWS_ENDPOINT_URL``, ...). Transient errors of a store are retried a bounded number of times; other failures raise
a `StorageError` with the operation, the address and a remedy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from agggen.errors import ConfigError
from agggen_platform.storage.local import LocalStore
from agggen_platform.storage.s3 import Policy, S3Store


class Folder:
    """A folder by its path or ``s3://`` address; file names are relative to the folder, with ``/`` between parts.

    A name with an empty part, ``.``, ``..``, a backslash or a NUL is refused with ConfigError. All methods raise
    StorageError if the disk or the store refuses an operation or does not answer. Can be pickled; thread-safe.
    """

    def __init__(self, address: str, policy: Policy = Policy()) -> None:  # noqa: B008 (it is frozen)
        """
        Args:
            policy: retries and timeouts of an object store.

        Raises:
            ConfigError: the address has a scheme other than ``s3`` or ``file``, or names no bucket, or boto3 is not
                installed.
        """
        scheme, separator, rest = address.partition("://")
        if separator and scheme not in ("s3", "file"):
            raise ConfigError(
                f"{address!r} is neither a path, file://PATH nor s3://BUCKET/PREFIX; other stores by s3:// and "
                "their S3 interface: Google Cloud Storage by AWS_ENDPOINT_URL_S3=https://storage.googleapis.com and "
                "HMAC keys, Azure by a gateway"
            )
        self.policy = policy
        self.local: Path | None = None
        self._store: LocalStore | S3Store
        if separator and scheme == "s3":
            bucket, _, prefix = rest.rstrip("/").partition("/")
            if not bucket:
                raise ConfigError(f"{address!r} names no bucket; write s3://bucket/prefix")
            if prefix:
                _check(prefix)
            self.address = address.rstrip("/")
            self._store = S3Store(bucket, prefix, policy)
        else:
            path = rest if separator else address
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
        return self._store.size(_check(name))

    def names(self, under: str = "") -> list[str]:
        """The files below `under`, recursively and sorted; empty if there is no such folder."""
        return sorted(self.sizes(under))

    def sizes(self, under: str = "") -> dict[str, int]:
        """The size in bytes of each file below `under`, recursively, by name."""
        return self._store.sizes(_check(under) if under else "")

    def open(self, name: str) -> Any:
        """A seekable binary file; raises FileNotFoundError."""
        return self._store.open(_check(name))

    def version(self, name: str) -> str:
        """A string that changes whenever the file is written: size and mtime, or ETag; raises FileNotFoundError."""
        return self._store.version(_check(name))

    def chunks(self, name: str, first: int = 0, end: int | None = None, version: str | None = None) -> Iterator[bytes]:
        """The bytes [first, end) of a file in chunks; raises FileNotFoundError.

        Args:
            version: the expected `Folder.version`; DamagedError is raised if the file's version differs.
        """
        return self._store.chunks(_check(name), first, end, version)

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if it does not exist."""
        try:
            return b"".join(self._store.chunks(_check(name)))
        except FileNotFoundError:
            return None

    def sha256(self, name: str) -> str:
        """SHA-256 of a file's content, in hexadecimal; raises FileNotFoundError."""
        digest = hashlib.sha256()
        for chunk in self._store.chunks(_check(name)):
            digest.update(chunk)
        return digest.hexdigest()

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file, replacing an existing file of this name."""
        self._store.write(_check(name), content)

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Replaces the content of a small file (None: no file) by ``change(content)``, unless the result is None.

        A compare-and-swap if the store has conditional writes: after a concurrent write, `change` is called again.

        Returns:
            The resulting content.
        """
        return self._store.update(_check(name), change)

    def new(self, name: str) -> AbstractContextManager[Path]:
        """A local path to write to; when the block ends without an error, the file is stored as `name`, atomically."""
        return self._store.new(_check(name))

    def upload(self, name: str, path: Path) -> None:
        """Copies a local file into the folder atomically, replacing an existing file of this name."""
        self._store.upload(_check(name), path)

    def download(self, name: str, path: Path) -> None:
        """Copies a file to `path`, which may be incomplete after an error; raises FileNotFoundError."""
        self._store.download(_check(name), path)

    def delete(self, name: str) -> None:
        """Removes a file, if it exists."""
        self._store.delete(_check(name))

    def remove_partial_files(self, under: str = "") -> None:
        """Removes partial files of killed processes. No other process may be writing below `under`."""
        self._store.remove_partial_files(_check(under) if under else "")


def _check(name: str) -> str:
    wrong = next((sign for sign in ("\\", "\0") if sign in name), None)
    if wrong is None:
        wrong = next((part or "//" for part in name.split("/") if part in ("", ".", "..")), None)
    if wrong is not None:
        raise ConfigError(
            f"{name!r} is not the name of a file in a folder, because of {wrong!r}; write parts with one / between them"
        )
    return name
