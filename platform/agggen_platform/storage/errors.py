"""Errors of disks and object stores, with messages that say how to fix the problem."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agggen.errors import AggGenError

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "it exceeds the largest file size here",
}
_REFUSED = {
    errno.EACCES: "permission denied; correct the permissions, or choose another folder",
    errno.EPERM: "not permitted; correct the permissions, or choose another folder",
    errno.EROFS: "the file system is read-only; choose another folder",
}


class StorageError(AggGenError):
    """A disk or an object store refused an operation, or did not answer."""

    exit_code = 5


class DamagedError(StorageError):
    """A stored file differs from the one that was written."""


@contextmanager
def explained(operation: str, path: Path, size: int | None = None) -> Iterator[None]:
    """Converts an OSError of the block to a StorageError.

    Args:
        operation: the verb of the message "cannot VERB PATH".
        size: the number of bytes to write, if known.

    Raises:
        StorageError: in place of any OSError except FileNotFoundError.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refused(operation, path, error, size) from error


def refused(operation: str, path: Path, error: OSError, size: int | None = None) -> StorageError:
    """The StorageError for the OSError of an operation on `path`."""
    code = error.errno or 0
    if code in _FULL:
        needed = "" if size is None else f"{size:,} bytes needed, "
        reason = f"{_FULL[code]} ({needed}{_free(path):,} free); make room, or choose another folder"
    else:
        reason = _REFUSED.get(code) or error.strerror or str(error)
    return StorageError(f"cannot {operation} {path}: {reason}")


def is_full(error: OSError) -> bool:
    """Whether `error` means that the disk or quota is full."""
    return error.errno in _FULL


def _free(path: Path) -> int:
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    return shutil.disk_usage(existing).free
