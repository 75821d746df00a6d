"""Downloads the files of a corpus from fixed URLs and verifies their SHA-256.

``manifests/NAME.tsv`` lists path, bytes, sha256 and url. A file without bytes and sha256 (WebNLG 3.0's test set) is
downloaded without verification. A file gets its final name when it is complete.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from agggen.corpora.catalogue import data_home, get_corpus
from agggen.errors import CorpusError
from agggen.files import replacing, sha256_of

Progress = Callable[[str, int, int | None], None]  # of (path of the file, received bytes, total bytes)

_CHUNK = 1 << 16
_TIMEOUT = 30  # seconds without data after which a request fails
_RETRY_DELAYS = (1, 2, 4)  # seconds before the first, second and third retry of a request; the next failure is an error


class RemoteFile(NamedTuple):
    """One line of a manifest."""

    path: str
    bytes: int | None
    sha256: str | None
    url: str


class FetchReport(NamedTuple):
    """The folder of the corpus, and the numbers of downloaded files and of files that were already present."""

    folder: Path
    n_downloaded: int
    n_present: int


def read_manifest(name: str) -> tuple[RemoteFile, ...]:
    """The files of a corpus; empty for a corpus that is included in agggen or that users must copy."""
    corpus = get_corpus(name)
    if corpus.folder is None or corpus.copied_from:
        return ()
    text = (files("agggen.corpora") / "manifests" / f"{name}.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return tuple(RemoteFile(path, int(size) if size else None, sha256 or None, url) for path, size, sha256, url in rows)


def fetch(name: str, progress: Progress | None = None) -> FetchReport:
    """Downloads a corpus into the data home, except valid files; CorpusError for any failure."""
    corpus = get_corpus(name)
    folder = data_home() / (corpus.folder or "")
    if corpus.copied_from:
        raise CorpusError(
            f"{name} cannot be downloaded, since its release states no licence: copy {corpus.copied_from} to {folder}"
        )
    return fetch_files(read_manifest(name), folder, progress)


def fetch_files(manifest: Sequence[RemoteFile], folder: Path, progress: Progress | None = None) -> FetchReport:
    """Downloads the files of `manifest` below `folder`; see `fetch`."""
    n_downloaded = 0
    for file in manifest:
        target = folder / file.path
        if target.is_file() and file.sha256 in (None, sha256_of(target)):
            continue
        content = _download(file, progress or (lambda *_: None))
        if file.sha256 not in (None, hashlib.sha256(content).hexdigest()):
            raise CorpusError(f"{file.url} does not have the expected SHA-256 (received {len(content):,} bytes)")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as temporary:
                temporary.write_bytes(content)
        except OSError as error:
            raise CorpusError(f"cannot write {target}: {error.strerror or error}") from error
        n_downloaded += 1
    return FetchReport(folder, n_downloaded, len(manifest) - n_downloaded)


def _download(file: RemoteFile, progress: Progress) -> bytes:
    """The content at the file's URL; if the content is longer than expected, only its beginning."""
    limit = math.inf if file.bytes is None else file.bytes
    for delay in (*_RETRY_DELAYS, None):
        content = b""
        try:
            with urlopen(Request(file.url, headers={"User-Agent": "agggen"}), timeout=_TIMEOUT) as response:
                while len(content) <= limit and (chunk := response.read(_CHUNK)):
                    content += chunk
                    progress(file.path, len(content), file.bytes)
            if len(content) >= int(response.headers.get("Content-Length") or 0) or len(content) > limit:
                return content
            reason = f"the connection ended after {len(content):,} bytes"
        except HTTPError as error:
            reason = f"the server responded {error.code} {error.reason}"
            if error.code < 500 and error.code != 429:
                delay = None
        except (OSError, HTTPException) as error:
            reason = str(getattr(error, "reason", None) or error)
        if delay is None:
            break
        time.sleep(delay)
    advice = "Without network, copy the corpus to the folder AGGGEN_DATA_HOME"
    raise CorpusError(f"cannot download {file.path} from {file.url}: {reason}. {advice}")
