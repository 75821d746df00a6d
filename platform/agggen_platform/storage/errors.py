"""Errors of disks and object stores; each message names the cause and a remedy."""

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
def as_storage_error(operation: str, path: Path, size: int | None = None, only_full: bool = False) -> Iterator[None]:
    """Converts an OSError of the block, except FileNotFoundError, to a StorageError "cannot OPERATION PATH: ...".

    Args:
        size: the number of bytes to write, if known.
        only_full: convert only errors about a full disk or quota, because the block may also use other files.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        code = error.errno or 0
        if code in _FULL:
            required = "" if size is None else f"{size:,} bytes needed, "
            free = shutil.disk_usage(nearest_existing(path)).free
            reason = f"{_FULL[code]} ({required}{free:,} free); make room, or choose another folder"
        elif only_full:
            raise
        else:
            reason = _REFUSED.get(code) or error.strerror or str(error)
        raise StorageError(f"cannot {operation} {path}: {reason}") from error


def nearest_existing(path: Path) -> Path:
    """`path`, or its nearest parent that exists."""
    return next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
