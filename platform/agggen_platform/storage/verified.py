"""Uploads and downloads that are verified by size and SHA-256."""

from pathlib import Path

from agggen.files import sha256_of
from agggen_platform.storage.errors import DamagedError, as_storage_error
from agggen_platform.storage.folder import Folder

_ATTEMPTS = 2  # downloads: the second attempt corrects transfer errors, but not a damaged file in the store


def measure(path: Path) -> tuple[int, str]:
    """The size in bytes and the SHA-256 (hexadecimal) of a local file."""
    with as_storage_error("read", path):
        return path.stat().st_size, sha256_of(path)


def put(folder: Folder, name: str, path: Path) -> None:
    """Uploads a file and reads it back to verify it; raises DamagedError, and deletes the copy, if it differs.

    A copy on a local disk may be read from the page cache, so errors of the disk itself are not detected.
    """
    size, sha256 = measure(path)
    folder.upload(name, path)
    if not matches(folder, name, size, sha256):
        folder.delete(name)
        raise DamagedError(
            f"{folder.at(name)} differs from the file that was sent ({size:,} bytes, SHA-256 {sha256}); it was deleted"
        )


def matches(folder: Folder, name: str, size: int, sha256: str) -> bool:
    """Whether the file exists with this size and SHA-256."""
    try:
        return folder.size(name) == size and folder.sha256(name) == sha256
    except FileNotFoundError:
        return False


def get(folder: Folder, name: str, path: Path, size: int, sha256: str) -> None:
    """Downloads and verifies a file; raises DamagedError, without leaving `path`, if it is missing or differs."""
    reason = "no such file"
    for _ in range(_ATTEMPTS):
        try:
            folder.download(name, path)
        except FileNotFoundError:
            break
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        actual_size, actual_sha256 = measure(path)
        if (actual_size, actual_sha256) == (size, sha256):
            return
        reason = f"it has {actual_size:,} bytes and SHA-256 {actual_sha256}"
        path.unlink()
    raise DamagedError(
        f"{folder.at(name)} is damaged: it should have {size:,} bytes and SHA-256 {sha256}, but {reason}"
    )
