"""Downloads the files of a corpus from fixed URLs and verifies their SHA-256 (`agggen.download`).

``manifests/NAME.tsv`` lists path, bytes, sha256 and url. A file without bytes and sha256 (WebNLG 3.0's test set) is
downloaded without verification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from agggen.corpora.catalogue import data_home, get_corpus
from agggen.download import DownloadError, Progress, download, file_sha256
from agggen.errors import CorpusError


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One line of a manifest."""

    path: str
    bytes: int | None
    sha256: str | None
    url: str


@dataclass(frozen=True, slots=True)
class FetchReport:
    """The folder of the files, and the numbers of downloaded and of already present ones."""

    folder: Path
    downloaded: int
    present: int


def read_manifest(name: str) -> tuple[RemoteFile, ...]:
    """The files of a corpus; none if it is included in agggen or must be copied by users."""
    corpus = get_corpus(name)
    if corpus.folder is None or corpus.copied_from:
        return ()
    text = (files("agggen.corpora") / "manifests" / f"{name}.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return tuple(RemoteFile(path, int(size) if size else None, sha256 or None, url) for path, size, sha256, url in rows)


def fetch(name: str, home: Path | str | None = None, progress: Progress | None = None) -> FetchReport:
    """Downloads a corpus into the data home; valid files are not downloaded again.

    Raises:
        CorpusError: the corpus is unknown or must be copied by users, the network fails, or a file has the wrong
            SHA-256.
    """
    corpus = get_corpus(name)
    folder = data_home(home) / (corpus.folder or "")
    if corpus.copied_from:
        raise CorpusError(
            f"{name} cannot be downloaded, since its release states no licence: copy {corpus.copied_from} to {folder}"
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
    """Downloads the files of `manifest` below `folder`; `attempts`, `timeout` and `pause` as in `download`.

    Raises:
        CorpusError: as `fetch`.
    """
    downloaded = 0
    for file in manifest:
        target = folder / file.path
        if target.is_file() and _is_right(target, file):
            continue
        try:
            download(
                file.url,
                target,
                file.sha256,
                name=file.path,
                advice="Without network, copy the corpus to the folder AGGGEN_DATA_HOME",
                size=file.bytes,
                progress=progress,
                attempts=attempts,
                timeout=timeout,
                pause=pause,
            )
        except DownloadError as error:
            raise CorpusError(str(error)) from error
        except OSError as error:
            raise CorpusError(f"cannot write {target}: {error.strerror or error}") from error
        downloaded += 1
    return FetchReport(folder, downloaded, len(manifest) - downloaded)


def _is_right(path: Path, file: RemoteFile) -> bool:
    return file.sha256 is None or (path.stat().st_size == file.bytes and file_sha256(path) == file.sha256)
