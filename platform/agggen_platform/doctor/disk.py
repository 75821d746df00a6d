"""Folders that jobs write to: whether they can, and how much space is left."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agggen_platform.doctor.findings import Finding, error, ok, warning
from agggen_platform.doctor.settings import Settings

_NEEDED = 1 << 30  # bytes of a run: its bundle, three checkpoints and its log
_COMFORTABLE = 5 << 30
_RAY_LIMIT = 0.95  # Ray's local_fs_capacity_threshold: above it no objects are created


def check(settings: Settings) -> Iterator[Finding]:
    yield _folder("runs", Path(settings.runs), "agggen train PRESET --runs FOLDER")
    temporary = Path(tempfile.gettempdir())
    yield _folder("temporary files", temporary, "export TMPDIR=FOLDER")
    yield _ray(Path(os.environ.get("RAY_TMPDIR") or temporary))


def unwritable(folder: Path) -> str | None:
    """Why no file can be created in `folder`, or in its nearest existing parent; None where one can."""
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)) as file:
            file.write(b"agggen")
            file.flush()
    except OSError as failure:
        return failure.strerror or str(failure)
    return None


def _folder(subject: str, folder: Path, choose: str) -> Finding:
    if problem := unwritable(folder):
        return error(subject, f"{folder} cannot be written to: {problem}", choose)
    free = shutil.disk_usage(_existing(folder)).free
    message = f"{folder} can be written to; {free / 2**30:,.1f} GiB are free"
    remedy = f"du -xsh {_existing(folder)}/* | sort -h | tail  # or {choose}"
    if free < _NEEDED:
        return error(subject, f"{message}, and a run needs up to {_NEEDED / 2**30:g}", remedy)
    return warning(subject, message, remedy) if free < _COMFORTABLE else ok(subject, message)


def _ray(folder: Path) -> Finding:
    usage = shutil.disk_usage(_existing(folder))
    share = 1 - usage.free / usage.total
    message = f"the disk of Ray's files, {folder}, is {share:.0%} full"
    if share < _RAY_LIMIT:
        return ok("ray", message)
    remedy = f"du -sh {folder}/ray/session_* | sort -h  # sessions of ended clusters can be deleted"
    return error("ray", f"{message}; above {_RAY_LIMIT:.0%} Ray creates no objects and tasks fail", remedy)


def _existing(folder: Path) -> Path:
    """`folder`, or its nearest parent that exists."""
    return next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
