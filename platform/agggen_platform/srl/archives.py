"""Archives of AllenNLP models: found on this machine or fetched, and known by their sha256.

An archive (``model.tar.gz``) holds pickles: loading one runs whatever its author put there. A local one counts as
trusted. A remote one is verified against a pinned sha256 before it is loaded; without one its trust must be said. What
is fetched stays in ``allennlp-archives`` of the cache folder.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agggen.download import DownloadError, Progress, download, without_secrets
from agggen_platform.cache import cache_folder, only_one
from agggen_platform.srl.errors import AllenNLPError
from agggen_platform.srl.worker import hash_of

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive on this machine."""

    path: Path
    sha256: str


def is_remote(location: str | Path) -> bool:
    return "://" in str(location)


def check_location(location: str | Path, sha256: str | None, trust: bool) -> None:
    """Raises AllenNLPError where the archive may not be loaded on these terms; reads nothing."""
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise AllenNLPError(f"{sha256!r:.80} is no sha256: that has 64 digits 0-9 a-f")
    if not is_remote(location):
        return
    address = without_secrets(str(location))
    if urlsplit(str(location)).scheme not in ("http", "https", "s3"):
        raise AllenNLPError(f"{address}: an archive is a path, http://, https:// or s3://")
    if sha256 is None and not trust:
        raise AllenNLPError(
            f"{address} is a remote archive without a sha256; loading an archive runs code of its author. Give the "
            "sha256 of the one you mean, or say that you trust whatever is there (--trust-archive, trust=True)"
        )


def get_archive(
    location: str | Path, sha256: str | None = None, trust: bool = False, progress: Progress | None = None
) -> Archive:
    """The archive at `location`, fetched if it is remote and not in the cache.

    Several processes may ask at once; one of them fetches it.

    Args:
        sha256: what it must have; of a folder, see ``worker.hash_of``.
        trust: take a remote one without sha256. It is fetched once: delete it from the cache to get a newer one.

    Raises:
        AllenNLPError: not there, not trusted, or not what its sha256 says.
        StorageError: the object store refuses or does not answer.
    """
    check_location(location, sha256, trust)
    if is_remote(location):
        name = sha256 or f"unpinned-{hashlib.sha256(str(location).encode()).hexdigest()}"
        path = cache_folder() / "allennlp-archives" / f"{name}.tar.gz"
        with only_one(path):
            if not path.exists():
                _fetch(str(location), path, sha256, progress)
    else:
        path = Path(location).expanduser().absolute()
        if not path.exists():
            raise AllenNLPError(f"there is no archive {path}")
    actual = hash_of(str(path))
    if sha256 is not None and actual != sha256:
        if is_remote(location):
            path.unlink()
        raise AllenNLPError(f"{path} has the sha256 {actual}, not {sha256}; it was not loaded")
    return Archive(path, actual)


def _fetch(address: str, path: Path, sha256: str | None, progress: Progress | None) -> None:
    if not address.startswith("s3://"):
        try:
            download(address, path, sha256, progress=progress, advice="Or give the path of an archive on this machine")
        except DownloadError as error:
            raise AllenNLPError(str(error)) from error
        return
    from agggen_platform.storage.folder import Folder

    bucket, _, key = address.removeprefix("s3://").partition("/")
    part = path.with_name(path.name + ".part")
    try:
        Folder(f"s3://{bucket}").download(key, part)
    except FileNotFoundError as error:
        raise AllenNLPError(f"there is no object {address}") from error
    part.replace(path)
