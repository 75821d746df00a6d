"""Reads corpora from object stores; called by `agggen.datasets`."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from agggen.corpora.prepared import MANIFEST, listed_parts
from agggen.datasets import Dataset, load_dataset
from agggen.errors import CorpusError
from agggen_platform.storage.folder import Folder


def read_remote(address: str, splits: Sequence[str] | None = None) -> Dataset:
    """Reads `splits` (default: all) of a corpus that `agggen prepare` or `agggen segment` wrote to a store."""
    folder = Folder(address)
    with tempfile.TemporaryDirectory(prefix="agggen-corpus-") as scratch:
        copy = Folder(scratch)
        for name in (MANIFEST, ".job.json"):
            if (content := folder.read(name)) is not None:
                copy.write(name, content)
        parts = listed_parts(Path(scratch, MANIFEST))
        files = {split: [part["name"] for part in split_parts] for split, split_parts in parts.items()}
        if not files:
            names = [name for name in folder.names() if "/" not in name and name.endswith(".parquet")]
            files = {name.removesuffix(".parquet"): [name] for name in names}
        if files and (missing := [split for split in splits or () if split not in files]):
            raise CorpusError(f"{folder} has no split {missing[0]!r}; it has {', '.join(files)}")
        for split in splits or files:
            for name in files.get(split, ()):
                with copy.new(name) as path:
                    folder.download(name, path)
        try:
            return load_dataset(scratch, name=address, splits=splits)
        except CorpusError as error:
            raise CorpusError(str(error).replace(scratch, address)) from error
