"""Copies bundles to and from a store.

The manifest is copied last, so a partial copy has no manifest and is not a bundle. Bundles from an object store are
cached by fingerprint in ``AGGGEN_CACHE``/bundles (default: ``~/.cache/agggen/bundles``); if the cache exceeds
``AGGGEN_CACHE_GB``, the least recently used bundles are removed.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agggen.bundle import check_bundle, files_of, fingerprint, resolve_shipped
from agggen.errors import BundleError
from agggen_platform.cache import cache_folder, cache_limit
from agggen_platform.locks import locked
from agggen_platform.storage import verified
from agggen_platform.storage.errors import as_storage_error
from agggen_platform.storage.folder import Folder

MANIFEST = "manifest.json"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def put_bundle(path: Path, address: str, check_claim: Callable[[], None] = lambda: None) -> str:
    """Copies the bundle at `path` to the folder `address`, local or in a store; returns the folder's full address.

    Verifies every file, and completes a partial copy. Calls `check_claim`, which raises if the folder's claim is lost,
    before it writes the manifest. Raises BundleError if `path` is not a complete bundle, or `address` has another one.
    """
    check_bundle(path)
    folder = Folder(address)
    manifest = (path / MANIFEST).read_bytes()
    entries = json.loads(manifest)
    existing = folder.read(MANIFEST)
    if existing not in (None, manifest):
        problem = f"{folder} contains another bundle, which is not overwritten"
        raise BundleError(f"{problem}: choose another address, or delete it")
    for name, entry in entries.items():
        if not verified.matches(folder, name, entry["bytes"], entry["sha256"]):
            verified.put(folder, name, path / name)
    if existing is None:
        check_claim()
        verified.put(folder, MANIFEST, path / MANIFEST)
    return folder.address


def get_bundle(address: str) -> Path:
    """A complete bundle on this machine: the folder itself, or the cached copy of a bundle in a store.

    `address`: a folder, ``elements`` (the shipped bundle), ``s3://bucket/prefix``, ``models:/NAME@ALIAS`` or
    ``models:/NAME/VERSION``. Raises BundleError if the bundle is missing or was modified after it was saved.
    """
    if address.startswith("models:/"):
        from agggen_platform.registry import resolve

        address = resolve(address)
    folder = Folder(resolve_shipped(address))
    if folder.local is not None:
        check_bundle(folder.local)
        return folder.local
    manifest = folder.read(MANIFEST)
    if manifest is None:
        raise BundleError(f"no bundle at {folder}: {MANIFEST} is missing")
    copy = cache_folder() / "bundles" / hashlib.sha256(manifest).hexdigest()
    with as_storage_error("store a copy (AGGGEN_CACHE sets its folder) at", copy), locked(Path(f"{copy}.lock")):
        try:
            check_bundle(copy)
            is_complete = fingerprint(copy) == copy.name
        except BundleError:
            is_complete = False
        if not is_complete:
            _fetch(folder, manifest, copy)
            _evict(copy)
        os.utime(copy)  # the time of last use, which `_evict` compares
    return copy


def _evict(newest: Path) -> None:
    """Removes the least recently used bundles until the cache is within its limit; always keeps `newest`."""
    total = sum(file.stat().st_size for file in newest.iterdir())
    with suppress(FileNotFoundError):  # removed by another process
        older = [path for path in newest.parent.iterdir() if _FINGERPRINT.fullmatch(path.name) and path != newest]
        for path in sorted(older, key=lambda path: path.stat().st_mtime, reverse=True):
            total += sum(file.stat().st_size for file in path.iterdir())
            if total > cache_limit():
                shutil.rmtree(path.rename(path.with_name(f".{path.name}-gone")))


def _fetch(folder: Folder, manifest: bytes, copy: Path) -> None:
    """Downloads a bundle to `copy` and replaces an existing copy; the caller must hold the lock of `copy`."""
    # Remove a damaged copy, and staging folders of killed processes.
    for leftover in (copy, *copy.parent.glob(f".{copy.name}-*")):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink(missing_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{copy.name}-", dir=copy.parent))
    try:
        entries = None
        with suppress(ValueError, RecursionError):  # `check_bundle` reports invalid manifests and missing files
            entries = json.loads(manifest)
        for name in files_of(entries):
            with suppress(FileNotFoundError):
                folder.download(name, staging / name)
        (staging / MANIFEST).write_bytes(manifest)
        try:
            check_bundle(staging)
        except BundleError as error:
            raise BundleError(f"the bundle at {folder} was modified after it was saved: {error}") from error
        staging.chmod(0o755)
        os.rename(staging, copy)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
