"""Room on disks and in shared memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from agggen.facts.allennlp.environment import cache_folder
from agggen_platform.doctor.findings import Check, Finding, error, note, ok, warning
from agggen_platform.doctor.settings import Settings
from agggen_platform.ray_cluster import OBJECT_STORE_BYTES

AREA = "disk"
NEEDED = 1 << 30
"""Bytes for a run: its bundle, two checkpoints and another that is being written, and its log."""
_COMFORT = 5 << 30
_RAY_STOPS = 0.95  # Ray's local_fs_capacity_threshold: on a fuller disk it keeps no objects
_RAY_NEAR = 0.90
_OF_MEMORY = 0.3  # that the object store of `ray start` takes
_SHARED = Path("/dev/shm")


def checks(settings: Settings) -> list[Check]:
    return [
        Check(AREA, "room", lambda: room(settings), 20),
        Check(AREA, "ray", ray_folder, 20),
        Check(AREA, "shared memory", shared_memory, 20),
    ]


def room(settings: Settings) -> Iterator[Finding]:
    """Where bundles, checkpoints and caches are written on this machine."""
    folders = {"runs": (settings.runs, "--runs FOLDER"), "cache": (cache_folder(), "export AGGGEN_CACHE=FOLDER")}
    for name, (folder, choose) in folders.items():
        free = shutil.disk_usage(_there(folder)).free
        found = f"{free / 2**30:,.1f} GiB are free where {folder} lies"
        remedy = f"du -xsh {_there(folder)}/* | sort -h | tail  # what takes it; or {choose}"
        if free < NEEDED:
            yield error(name, f"{found}; a run takes up to {NEEDED / 2**30:g} GiB", remedy)
        elif free < _COMFORT:
            yield warning(name, found, remedy)
        else:
            yield ok(name, found)


def ray_folder() -> Iterator[Finding]:
    """The disk of Ray's logs and spilled objects."""
    folder = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray"
    usage = shutil.disk_usage(_there(folder))
    share = 1 - usage.free / usage.total
    found = f"the disk of {folder} is {share:.0%} full"
    remedy = f"du -sh {folder}/session_* | sort -h  # those of ended clusters may go; or export RAY_TMPDIR=FOLDER"
    if share >= _RAY_STOPS:
        yield error("ray", f"{found}; from {_RAY_STOPS:.0%} on Ray keeps no objects there and tasks fail", remedy)
    elif share >= _RAY_NEAR:
        yield warning("ray", f"{found}; at {_RAY_STOPS:.0%} Ray stops", remedy)
    else:
        yield ok("ray", found)


def shared_memory() -> Iterator[Finding]:
    """Ray's object store lies in /dev/shm; containers have 64 MiB there unless told otherwise."""
    if not _SHARED.is_dir():
        yield note("shared memory", f"there is no {_SHARED}; Ray's object store lies on disk")
        return
    usage = shutil.disk_usage(_SHARED)
    mib = f"{_SHARED} has {usage.free / 2**20:,.0f} MiB free of {usage.total / 2**20:,.0f}"
    of_node = int(_OF_MEMORY * psutil.virtual_memory().total)
    if usage.free < OBJECT_STORE_BYTES:
        yield warning(
            "shared memory",
            f"{mib}; the object store of a job's own cluster takes {OBJECT_STORE_BYTES / 2**20:.0f} and goes to disk",
            "docker run --shm-size=2g ...  # on Kubernetes an emptyDir with medium: Memory at /dev/shm",
        )
    elif usage.free < of_node:
        remedy = f"ray start --object-store-memory={usage.free // 2**20 * 9 // 10 * 2**20}"
        yield note(
            "shared memory", f"{mib}; `ray start` would take {of_node / 2**20:,.0f} for its object store", remedy
        )
    else:
        yield ok("shared memory", mib)


def _there(folder: Path) -> Path:
    return next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
