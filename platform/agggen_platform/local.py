"""Records by the name of a corpus, or the address of a file or folder, also in a store."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from agggen.corpora.prepared import read_records
from agggen.datasets import Dataset, load_dataset
from agggen.errors import CorpusError
from agggen.records import Record
from agggen_platform.storage.folder import Folder


def records_of(corpus: str, split: str) -> list[Record]:
    """The readable records of a split of a corpus as `agggen.load_dataset` takes it.

    Raises:
        CorpusError: there is no such corpus, file, folder or split.
        StorageError: the store refused or did not answer.
    """
    return load_dataset(corpus, splits=(split,)).split(split)


def read_remote(address: str, splits: Sequence[str] | None = None) -> Dataset:
    """A folder in a store that `agggen corpora prepare` or `agggen segment` wrote; all its splits by default."""
    folder = Folder(address)
    chosen = splits or [Path(file).stem for file in folder.names() if "/" not in file and file.endswith(".parquet")]
    return Dataset(address, {split: _from_store(folder, split) for split in chosen})


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
