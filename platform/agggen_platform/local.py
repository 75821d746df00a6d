"""Records by the name of a corpus, or the address of a prepared folder."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agggen.corpora.catalogue import list_corpora, load
from agggen.corpora.prepared import read_records
from agggen.corpora.rejects import Reject, split_rejects
from agggen.errors import CorpusError
from agggen.records import Record
from agggen_platform.storage.folder import Folder


def records_of(corpus: str, split: str) -> list[Record]:
    """The readable records of a corpus; see `read_split`."""
    return read_split(corpus, split)[0]


def read_split(corpus: str, split: str) -> tuple[list[Record], list[Reject]]:
    """The records of a corpus of the catalogue, or of a folder that `agggen corpora prepare` or `agggen segment` wrote,
    here or on S3, and what could not be read.

    Raises:
        CorpusError: there is no such corpus, folder or split.
        StorageError: the store refused or did not answer.
    """
    if "://" in corpus:
        return _from_store(Folder(corpus), split), []
    prepared = Path(corpus) / f"{split}.parquet"
    if prepared.is_file():
        return read_records(prepared), []
    if corpus not in {known.name for known in list_corpora()}:
        folder = Path(corpus)
        if splits := sorted(file.stem for file in folder.glob("*.parquet")):
            raise CorpusError(f"the folder {corpus} has no split {split!r}; it has {', '.join(splits)}")
        if folder.is_dir():
            raise CorpusError(
                f"the folder {corpus} holds no prepared corpus ({prepared} is missing); "
                "make one with: agggen corpora prepare NAME --out DIR"
            )
    return split_rejects(load(corpus, split))


def _from_store(folder: Folder, split: str) -> list[Record]:
    name = f"{split}.parquet"
    with tempfile.TemporaryDirectory(prefix="agggen-corpus-") as scratch:
        copy = Path(scratch) / name
        try:
            folder.download(name, copy)
            return read_records(copy)
        except FileNotFoundError as error:
            files = [Path(file) for file in folder.names() if "/" not in file]
            splits = ", ".join(file.stem for file in files if file.suffix == ".parquet")
            raise CorpusError(f"{folder} has no split {split!r}; it has {splits or 'none'}") from error
        except CorpusError as error:
            raise CorpusError(str(error).replace(str(copy), folder.at(name))) from error


def fingerprint_of(records: Sequence[Record]) -> str:
    """SHA-256 over the records' JSON, in their order."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps(record.as_dict(), ensure_ascii=False, sort_keys=True).encode())
    return digest.hexdigest()
