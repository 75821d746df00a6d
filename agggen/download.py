"""Downloads a file over HTTP: to ``PATH.part`` first, checked by its sha256, resumed where a connection was cut.

A file under its final name is always whole. What a cut connection left of a pinned file is continued by an HTTP range
request, also by a later run; of a file without a sha256 every attempt starts anew.
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
"""Called with (name, bytes there, bytes in all or None if not known) as a download goes on."""

_CHUNK = 1 << 16


class DownloadError(AggGenError):
    """A file cannot be had from its address, or is not the one that was pinned."""


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
        sha256: what the file must have; None takes whatever is there.
        name: of the file, for messages and progress; by default that of `target`.
        advice: what else to do without network, for the message.
        size: of the pinned file in bytes, so that the download of a longer one stops early.
        attempts: requests for the file; each continues where the one before was cut.
        timeout: seconds without a byte after which a connection counts as cut.
        pause: seconds before the second attempt; doubled for each further one.

    Raises:
        DownloadError: the server refuses, the network fails in all attempts, or the file has another sha256 (it is
            deleted).
        OSError: `target` cannot be written.
    """
    name = name or target.name
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, attempts + 1):
        if sha256 is None:
            part.unlink(missing_ok=True)  # it may be of another state of the file
        try:
            _transfer(url, part, name, size, progress or (lambda *_: None), timeout)
            break
        except HTTPError as error:
            if error.code == 416 and part.exists() and attempt < attempts:
                part.unlink()  # longer than the server's file
            elif attempt == attempts or (error.code < 500 and error.code != 429):
                message = f"{without_secrets(url)} answers {error.code} {error.reason}; {name} was not fetched"
                raise DownloadError(message) from error
        except _Interrupted as interrupted:
            if attempt == attempts:
                raise DownloadError(
                    f"cannot download {name} from {without_secrets(url)} ({interrupted}); check the network and run "
                    f"again: what has arrived is kept{advice and f'. {advice}'}"
                ) from interrupted
        time.sleep(pause * 2 ** (attempt - 1))
    if sha256 is not None and (found := file_sha256(part)) != sha256:
        length = part.stat().st_size
        part.unlink()
        raise DownloadError(
            f"{name} from {without_secrets(url)} is not the pinned file ({length:,} bytes with sha256 {found[:12]}..., "
            f"expected {sha256[:12]}...); it was deleted"
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
    """The network failed or ended the transfer; another attempt may succeed."""


def _transfer(url: str, part: Path, name: str, size: int | None, progress: Progress, timeout: float) -> None:
    """Appends to `part` what it lacks."""
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
                raise _Interrupted("the server answers another range than was asked for")
            done = 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else None
        with part.open("ab" if done else "wb") as stream:
            # One byte more than pinned is enough to see that the file is another one.
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
