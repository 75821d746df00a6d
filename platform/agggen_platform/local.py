"""Records on this machine, by the name of a corpus or the path of a prepared folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from agggen.corpora.catalogue import list_corpora, load
from agggen.corpora.prepared import read_records
from agggen.corpora.rejects import Reject, split_rejects
from agggen.errors import CorpusError
from agggen.records import Record


def records_of(corpus: str, split: str) -> list[Record]:
    """The readable records of a corpus; see `read_split`."""
    return read_split(corpus, split)[0]


def read_split(corpus: str, split: str) -> tuple[list[Record], list[Reject]]:
    """The records of a corpus of the catalogue, or of a folder that `agggen corpora prepare` wrote, and what could not
    be read.

    Raises:
        CorpusError: there is no such corpus, folder or split.
    """
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


def fingerprint_of(records: Sequence[Record]) -> str:
    """SHA-256 over the records' JSON, in their order."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps(record.as_dict(), ensure_ascii=False, sort_keys=True).encode())
    return digest.hexdigest()
