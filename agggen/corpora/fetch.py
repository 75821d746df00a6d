"""Downloads the files of a corpus: pinned URLs, each file checked by its sha256, interrupted downloads resumed.

``manifests/NAME.tsv`` lists path, bytes, sha256 and url. A file is written to ``PATH.part`` and renamed once its hash
is right, so a file under its final name is always whole; what a cut connection left in ``.part`` is continued by an
HTTP range request.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from ssl import SSLError
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from agggen.corpora.catalogue import data_home, get_corpus
from agggen.errors import CorpusError

Progress = Callable[[str, int, int], None]
"""Called with (path of the file in the corpus, bytes there, bytes in all) as a download goes on."""

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One line of a manifest."""

    path: str
    bytes: int
    sha256: str
    url: str


@dataclass(frozen=True, slots=True)
class FetchReport:
    """Where the files are, how many were downloaded, and how many were there before."""

    folder: Path
    downloaded: int
    present: int


def read_manifest(name: str) -> tuple[RemoteFile, ...]:
    """The files of a corpus of the catalogue; none for one that is part of agggen or that users copy themselves."""
    corpus = get_corpus(name)
    if corpus.folder is None or corpus.copied_from:
        return ()
    text = (files("agggen.corpora") / "manifests" / f"{name}.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return tuple(RemoteFile(path, int(size), sha256, url) for path, size, sha256, url in rows)


def fetch(name: str, home: Path | str | None = None, progress: Progress | None = None) -> FetchReport:
    """Downloads the corpus `name` into the data home; files that are already right are left alone.

    Raises:
        CorpusError: no such corpus, one that users copy themselves, no network, or a file that is not what the
            manifest pins.
    """
    corpus = get_corpus(name)
    folder = data_home(home) / (corpus.folder or "")
    if corpus.copied_from:
        raise CorpusError(
            f"{name} is not fetched, because its release states no licence: copy {corpus.copied_from} to {folder}"
        )
    return fetch_files(read_manifest(name), folder, progress)


def fetch_files(
    manifest: Sequence[RemoteFile],
    folder: Path,
    progress: Progress | None = None,
    attempts: int = 4,
    timeout: float = 30.0,
    pause: float = 1.0,
) -> FetchReport:
    """Downloads the files of `manifest` below `folder`.

    Args:
        attempts: tries per file; each continues where the one before was cut.
        timeout: seconds without a byte after which a connection counts as cut.
        pause: seconds before the second try; doubled for each further one.

    Raises:
        CorpusError: as `fetch`.
    """
    downloaded = 0
    for file in manifest:
        target = folder / file.path
        if target.is_file() and _is_right(target, file):
            continue
        _download(file, target, progress or (lambda *_: None), attempts, timeout, pause)
        downloaded += 1
    return FetchReport(folder, downloaded, len(manifest) - downloaded)


def _download(file: RemoteFile, target: Path, progress: Progress, attempts: int, timeout: float, pause: float) -> None:
    part = target.with_name(target.name + ".part")
    for attempt in range(1, attempts + 1):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _transfer(file, part, progress, timeout)
            break
        except HTTPError as error:
            if error.code == 416 and part.exists() and attempt < attempts:
                part.unlink()  # the range lies beyond the server's file: what we hold is of another one
            elif error.code < 500 or attempt == attempts:
                raise CorpusError(
                    f"{file.url} answers {error.code} {error.reason}; {file.path} was not fetched"
                ) from error
        except (URLError, HTTPException, SSLError, TimeoutError, ConnectionError) as error:
            if attempt == attempts:
                reason = getattr(error, "reason", None) or error
                raise CorpusError(
                    f"cannot download {file.path} from {file.url} ({reason}); check the network and run again: what "
                    "has arrived is kept. Without network, copy the corpus to the folder that AGGGEN_DATA_HOME names"
                ) from error
        except OSError as error:
            raise CorpusError(f"cannot write {part}: {error.strerror or error}") from error
        time.sleep(pause * 2 ** (attempt - 1))
    if not _is_right(part, file):
        size = part.stat().st_size
        part.unlink()
        raise CorpusError(
            f"{file.path} from {file.url} is not the pinned file ({size:,} bytes, expected {file.bytes:,} with sha256 "
            f"{file.sha256[:12]}...); it was deleted"
        )
    part.replace(target)


def _transfer(file: RemoteFile, part: Path, progress: Progress, timeout: float) -> None:
    """Appends to `part` what it lacks; a connection that ends early is a ConnectionError."""
    done = part.stat().st_size if part.exists() else 0
    if done > file.bytes:
        part.unlink()
        done = 0
    if done == file.bytes and part.exists():
        return
    # Without "identity" a server may compress, and a range of compressed bytes cannot be appended.
    headers = {"User-Agent": "agggen", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    with urlopen(Request(file.url, headers=headers), timeout=timeout) as response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
        if not resumed:
            done = 0
        with part.open("ab" if resumed else "wb") as stream:
            # One byte more than pinned is enough to see that the file is another one.
            while done <= file.bytes and (chunk := response.read(min(_CHUNK, file.bytes + 1 - done))):
                stream.write(chunk)
                done += len(chunk)
                progress(file.path, min(done, file.bytes), file.bytes)
        expected = response.headers.get("Content-Length")
        total = int(expected) if expected and expected.isdigit() else None
    if total is not None and not resumed and total != file.bytes:
        return  # another file: the caller compares hashes and says so
    if done < file.bytes:
        raise ConnectionError(f"the connection ended after {done:,} of {file.bytes:,} bytes")


def _is_right(path: Path, file: RemoteFile) -> bool:
    if path.stat().st_size != file.bytes:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
