"""Downloads files over HTTP: to ``PATH.part`` first, with SHA-256 verification and resumption.

A file under its final name is always complete. Interrupted downloads of a file with a known SHA-256 are resumed by HTTP
range requests, also in a later run; without one, each attempt starts from the beginning.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from agggen.errors import AggGenError

Progress = Callable[[str, int, int | None], None]
"""Called during a download with (name, received bytes, total bytes or None if unknown)."""

_CHUNK = 1 << 16


class DownloadError(AggGenError):
    """A file cannot be downloaded, or its SHA-256 is wrong."""


def download(
    url: str,
    target: Path,
    sha256: str | None = None,
    *,
    name: str = "",
    advice: str = "",
    size: int | None = None,
    progress: Progress | None = None,
    attempts: int = 4,
    timeout: float = 30.0,
    pause: float = 1.0,
) -> None:
    """Downloads `url` to `target`.

    Args:
        url: an HTTP address.
        target: the local path.
        sha256: the expected digest; None accepts any file.
        name: of the file, for messages and progress; by default that of `target`.
        advice: an alternative without network, for the message.
        size: the expected size in bytes, to stop the download of a longer file early.
        progress: called during the download.
        attempts: number of requests; each resumes the interrupted one before.
        timeout: seconds without data after which a connection counts as interrupted.
        pause: seconds before the second attempt; doubled for each further one.

    Raises:
        DownloadError: the server refuses, all attempts fail, or the SHA-256 differs (the file is deleted).
        OSError: `target` cannot be written.
    """
    name = name or target.name
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, attempts + 1):
        if sha256 is None:
            part.unlink(missing_ok=True)  # it may belong to another version of the file
        try:
            _transfer(url, part, name, size, progress or (lambda *_: None), timeout)
            break
        except HTTPError as error:
            if error.code == 416 and part.exists() and attempt < attempts:
                part.unlink()  # longer than the server's file
            elif attempt == attempts or (error.code < 500 and error.code != 429):
                message = f"{without_secrets(url)} responded {error.code} {error.reason}; {name} was not downloaded"
                raise DownloadError(message) from error
        except _Interrupted as interrupted:
            if attempt == attempts:
                raise DownloadError(
                    f"cannot download {name} from {without_secrets(url)} ({interrupted}); check the network and run "
                    f"again: received data is kept{advice and f'. {advice}'}"
                ) from interrupted
        time.sleep(pause * 2 ** (attempt - 1))
    if sha256 is not None and (digest := file_sha256(part)) != sha256:
        length = part.stat().st_size
        part.unlink()
        raise DownloadError(
            f"{name} from {without_secrets(url)} is not the expected file ({length:,} bytes with sha256 "
            f"{digest[:12]}..., expected {sha256[:12]}...); it was deleted"
        )
    part.replace(target)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def without_secrets(url: str) -> str:
    """An address without what may be secret in it: user, password, query, fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _Interrupted(Exception):
    """The transfer was interrupted; another attempt may succeed."""


def _transfer(url: str, part: Path, name: str, size: int | None, progress: Progress, timeout: float) -> None:
    """Appends the missing bytes to `part`."""
    done = part.stat().st_size if part.exists() else 0
    if done == size:
        return
    # Without "identity" a server may compress, and a range of compressed bytes cannot be appended.
    headers = {"User-Agent": "agggen", "Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        response = urlopen(Request(url, headers=headers), timeout=timeout)
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        raise _Interrupted(getattr(error, "reason", None) or error) from error
    with response:
        if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            if response.status == 206:
                part.unlink()
                raise _Interrupted("the server sent a different range than requested")
            done = 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else None
        with part.open("ab" if done else "wb") as stream:
            # One byte beyond the expected size suffices to detect another file.
            while size is None or done <= size:
                try:
                    chunk = response.read(_CHUNK if size is None else min(_CHUNK, size + 1 - done))
                except (OSError, HTTPException) as error:
                    raise _Interrupted(error) from error
                if not chunk:
                    break
                stream.write(chunk)
                done += len(chunk)
                progress(name, done, size or total)
    if done < (total or 0) and (size is None or done < size):
        raise _Interrupted(f"the connection ended after {done:,} of {total:,} bytes")
