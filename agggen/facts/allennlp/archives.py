"""Archives of AllenNLP models: found on this machine or fetched, and known by their sha256.

An archive (``model.tar.gz``) holds pickles: loading one runs whatever its author put there. A local one counts as
trusted. A remote one is verified against a pinned sha256 before it is loaded; without one its trust must be said. What
is fetched stays in ``allennlp-archives`` of the cache folder, and an interrupted download is continued.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from agggen.facts.allennlp.environment import cache_folder, only_one
from agggen.facts.allennlp.errors import AllenNLPError
from agggen.facts.allennlp.worker import hash_of

_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")

Progress = Callable[[str, int, int | None], None]
"""Told (what, bytes there, bytes in all or None if not known) as a download goes on."""


class Remote(NamedTuple):
    """A remote file, opened."""

    stream: IO[bytes]
    start: int
    """The byte at which `stream` begins: the one asked for, or 0 where the server cannot do that."""
    size: int | None
    """Of the whole file."""
    version: str | None
    """Differs between two states of the file; None if not known."""


OpenRemote = Callable[[str, int], Remote]
"""Opens an address at a byte, or at 0. Raises OSError where trying again may help, AllenNLPError where not."""


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
    if is_remote(location) and sha256 is None and not trust:
        raise AllenNLPError(
            f"{shown(location)} is a remote archive without a sha256; loading an archive runs code of its author. Give "
            "the sha256 of the one you mean, or say that you trust whatever is there (--trust-archive, trust=True)"
        )


def shown(location: str | Path) -> str:
    """An address without what may be secret in it: user, password, query."""
    if not is_remote(location):
        return str(location)
    parts = urlsplit(str(location))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def open_remote(address: str, start: int) -> Remote:
    """Opens a remote archive, ``http://``, ``https://`` or ``s3://``."""
    match urlsplit(address).scheme:
        case "http" | "https":
            return open_http(address, start)
        case "s3":
            return open_s3(address, start)
        case _:
            raise AllenNLPError(f"{shown(address)}: an archive is a path, http://, https:// or s3://")


def open_s3(address: str, start: int) -> Remote:
    """Opens ``s3://bucket/key``; credentials, region and endpoint are those of the environment (``AWS_...``)."""
    import pyarrow as pa
    import pyarrow.fs as pafs

    try:
        files, path = pafs.FileSystem.from_uri(address)
        info = files.get_file_info(path)
    except pa.ArrowInvalid as error:
        raise AllenNLPError(f"{shown(address)} is no address of an object, s3://bucket/key ({error})") from error
    if info.type != pafs.FileType.File:
        raise AllenNLPError(f"there is no object {shown(address)}, or it may not be read")
    stream = files.open_input_file(path)
    begin = start if start < info.size else 0
    stream.seek(begin)
    return Remote(stream, begin, info.size, f"{info.size}-{info.mtime_ns}")


def open_http(address: str, start: int, timeout: float = 30.0) -> Remote:
    """Opens an ``http://`` or ``https://`` address."""
    headers = {"User-Agent": "agggen", "Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = urlopen(Request(address, headers=headers), timeout=timeout)
    except HTTPError as error:
        if error.code == 416 and start:
            return open_http(address, 0, timeout)  # beyond the file's end: what we hold is of another one
        if error.code >= 500 or error.code == 429:
            raise
        raise AllenNLPError(f"{shown(address)} answers {error.code} {error.reason}") from error
    if response.status == 206 and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
        response.close()
        return open_http(address, 0, timeout)
    length = response.headers.get("Content-Length", "")
    begins = start if response.status == 206 else 0
    size = begins + int(length) if length.isdigit() else None
    return Remote(response, begins, size, response.headers.get("ETag") or response.headers.get("Last-Modified"))


def get_archive(
    location: str | Path,
    sha256: str | None = None,
    trust: bool = False,
    opener: OpenRemote = open_remote,
    progress: Progress | None = None,
    attempts: int = 4,
    pause: float = 1.0,
) -> Archive:
    """The archive at `location`, fetched if it is remote and not in the cache.

    Several processes may ask at once; one of them fetches it.

    Args:
        sha256: what it must have; of a folder, see ``worker.hash_of``.
        opener: opens a remote one.
        trust: take a remote one without sha256. It is fetched once: delete it from the cache to get a newer one.
        attempts, pause: tries, and seconds before the second; doubled for each further one.

    Raises:
        AllenNLPError: not there, not trusted, or not what its sha256 says.
    """
    check_location(location, sha256, trust)
    if is_remote(location):
        name = sha256 or hashlib.sha256(str(location).encode()).hexdigest()
        path = cache_folder() / "allennlp-archives" / f"{'' if sha256 else 'unpinned-'}{name}.tar.gz"
        with only_one(path):
            if not path.exists():
                _fetch(str(location), path, sha256, opener, progress or (lambda *_: None), attempts, pause)
    else:
        path = Path(location).expanduser().absolute()
        if not path.exists():
            raise AllenNLPError(f"there is no archive {path}")
    found = hash_of(str(path))
    if sha256 is not None and found != sha256:
        raise AllenNLPError(f"{path} has the sha256 {found}, not {sha256}; it is another archive, or was changed")
    return Archive(path, found)


def _fetch(
    address: str,
    path: Path,
    sha256: str | None,
    opener: OpenRemote,
    progress: Progress,
    attempts: int,
    pause: float,
) -> None:
    part = path.with_name(path.name + ".part")
    if sha256 is None:
        part.unlink(missing_ok=True)  # nothing tells whether what is left is of the same file
    seen: list[str | None] = []
    for attempt in range(1, attempts + 1):
        try:
            _transfer(address, part, seen, opener, progress)
            break
        except (HTTPException, OSError) as error:
            if attempt == attempts:
                raise AllenNLPError(
                    f"cannot fetch {shown(address)} ({getattr(error, 'reason', None) or error}); check the network and "
                    "run again, or give the path of an archive on this machine"
                ) from error
        time.sleep(pause * 2 ** (attempt - 1))
    if sha256 is not None and (found := hash_of(str(part))) != sha256:
        part.unlink()
        raise AllenNLPError(f"{shown(address)} has the sha256 {found}, not {sha256}; it was not loaded but deleted")
    os.replace(part, path)


def _transfer(address: str, part: Path, seen: list[str | None], opener: OpenRemote, progress: Progress) -> None:
    """Appends to `part` what it lacks, or starts anew if the file is another than the one `seen` before."""
    remote = opener(address, part.stat().st_size if part.exists() else 0)
    if remote.start and seen and remote.version not in seen:
        remote.stream.close()
        remote = opener(address, 0)
    seen[:] = [remote.version]
    done = remote.start
    with remote.stream as stream, part.open("ab" if done else "wb") as file:
        while chunk := stream.read(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            progress(part.name.removesuffix(".part"), done, remote.size)
    if remote.size is not None and done < remote.size:
        raise ConnectionError(f"the connection ended after {done:,} of {remote.size:,} bytes")
