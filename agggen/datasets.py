"""Loads records from corpora of the catalogue, files, folders, DataFrames, Arrow tables and lists.

Files may be CSV, TSV, JSON, JSON lines or Parquet, in the forms of `agggen.corpora.tables`.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from agggen.corpora.catalogue import list_corpora, load
from agggen.corpora.lines import delimiter_in, open_source, read_rows, read_values
from agggen.corpora.rejects import Reject, split_rejects, write_rejects
from agggen.corpora.tables import Columns, Table, read_table, split_name
from agggen.errors import CorpusError, hint
from agggen.records import Record

SUFFIXES = (".parquet", ".jsonl", ".json", ".csv", ".tsv")  # the suffixes of files with records
_STANDARD_SPLITS = ("train", "dev", "test")
_BRACES = re.compile(r"\{([^{}]*)\}")
_REMOTE_READER = "agggen_platform.remote_corpora:read_remote"  # agggen_platform has the clients of object stores


@dataclass(frozen=True, repr=False)
class Dataset:
    """Records by split."""

    name: str
    splits: Mapping[str, list[Record]]
    rejects: Mapping[str, list[Reject]] = field(default_factory=dict)  # by split, or by `name` if in one source

    @property
    def train(self) -> list[Record]:
        return self.split("train")

    @property
    def dev(self) -> list[Record]:
        return self.split("dev")

    @property
    def test(self) -> list[Record]:
        return self.split("test")

    def split(self, name: str) -> list[Record]:
        """The records of a split; raises CorpusError for an unknown split."""
        if name not in self.splits:
            raise CorpusError(f"{self.name} has no split {name!r}; it has {', '.join(sorted(self.splits)) or 'none'}")
        return self.splits[name]

    @property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of each split by ``NAME/SPLIT``."""
        return {f"{self.name}/{split}": fingerprint_of(records) for split, records in self.splits.items()}

    def save(self, folder: Path | str) -> None:
        """Writes ``FOLDER/SPLIT.parquet``, which `load_dataset` reads, and ``FOLDER/rejects.jsonl``."""
        from agggen.corpora.prepared import write_records

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for split, records in self.splits.items():
            write_records(folder / f"{split}.parquet", records, self.name, split)
        write_rejects(folder / "rejects.jsonl", list(chain(*self.rejects.values())))

    def __repr__(self) -> str:
        counts = [
            f"  {split:<8}{len(records):>9,} records {sum(len(record.references) for record in records):>9,} texts"
            for split, records in self.splits.items()
        ]
        rejected = sum(map(len, self.rejects.values()))
        return "\n".join([f"{self.name}", *counts, *([f"  rejected{rejected:>9,} (.rejects)"] if rejected else [])])


def fingerprint_of(records: Sequence[Record]) -> str:
    """SHA-256 of the records' JSON, in their order."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps(record.as_dict(), ensure_ascii=False, sort_keys=True).encode())
    return digest.hexdigest()


def load_records(source: Any, **columns: Any) -> list[Record]:
    """The records of a file, a DataFrame, an Arrow table or a list of records or mappings; splits are concatenated.

    Invalid rows are skipped with a warning; `load_dataset` returns them as rejects. A list of records is copied
    unchanged. For `columns` and errors, see `load_dataset`.
    """
    if isinstance(source, Dataset):
        return list(chain(*source.splits.values()))
    if isinstance(source, list | tuple) and all(isinstance(item, Record) for item in source):
        return list(source)
    table = _table(source, Columns(**columns))
    if invalid := table.rejects:
        warnings.warn(f"{len(invalid):,} rows are invalid and skipped; the first: {invalid[0]}", stacklevel=2)
    return list(chain(*table.records.values()))


def load_dataset(
    source: Any, *, name: str | None = None, splits: Sequence[str] | None = None, seed: int = 1, **columns: Any
) -> Dataset:
    """A corpus with its splits.

    Args:
        source: the name of a corpus of the catalogue; a file; a folder with one file per split; a pattern such as
            ``my/{train,dev,test}.jsonl``; ``s3://...``; a DataFrame, an Arrow table, a list; a mapping from each split
            to one of these sources; a `Dataset`, which is returned unchanged.
        name: the dataset's name. [default: the source's name or path, else ``data``]
        splits: the splits to load. [default: train, dev and test of a corpus of the catalogue, else all]
        seed: seed of `divide`, if the source has no splits.
        columns: the columns of a table that are not predicates: ``id``, ``subject``, ``text`` (one or more), ``split``,
            ``category``, ``ignore``; and ``rename``, a mapping from columns to their predicates (see `Columns`).

    Raises CorpusError if the source or a split does not exist or cannot be read, or has too few records to be divided.
    """
    if isinstance(source, Dataset):
        return source
    table_columns = Columns(**columns)
    if isinstance(source, str) and "://" in source:
        return resolve_name(_REMOTE_READER)(source, splits)
    if isinstance(source, Mapping):
        parts = {split_name(split): part for split, part in source.items()}
        return _from_splits(name or "data", parts, table_columns, splits)
    if not isinstance(source, str | Path):
        return _from_table(name or "data", _table(source, table_columns), seed, splits)
    label = name or str(source)
    if braces := _BRACES.search(str(source)):
        prefix, suffix = str(source)[: braces.start()], str(source)[braces.end() :]
        parts = {split_name(part): Path(prefix + part + suffix) for part in braces[1].split(",")}
        return _from_splits(label, parts, table_columns, splits)
    path, catalogue = Path(source), {corpus.name: corpus.splits for corpus in list_corpora()}
    if parts := _split_files(path):
        if str(source) not in catalogue or not splits or set(splits) <= parts.keys():
            return _from_splits(label, parts, table_columns, splits)
    elif path.is_file():
        return _from_table(label, _table(path, table_columns), seed, splits)
    if str(source) not in catalogue:
        raise CorpusError(_unknown_source(path, catalogue))
    names = splits or [split for split in _STANDARD_SPLITS if split in catalogue[str(source)]]
    contents = {split: split_rejects(load(str(source), split)) for split in names}
    rejects = {split: rejected for split, (_, rejected) in contents.items() if rejected}
    return Dataset(label, {split: records for split, (records, _) in contents.items()}, rejects)


def _unknown_source(path: Path, corpora: Collection[str]) -> str:
    if (path / ".job.json").exists():
        return f"the folder {path} is the output of an unfinished job; run the same command again to finish it"
    if path.is_dir():
        return (
            f"the folder {path} has no prepared corpus and no files train, dev and test ({', '.join(SUFFIXES)}); "
            "make one with: agggen prepare FILE --out DIR"
        )
    if path.suffix.lower() in SUFFIXES:
        return f"cannot read {path}: no such file"
    return f"no corpus {str(path)!r}; {hint(str(path), corpora)}, or pass a file or folder"


def _split_files(folder: Path) -> dict[str, Path]:
    """The files of a folder by split: every Parquet file, and other files that are named after a standard split."""
    from agggen.corpora.prepared import MANIFEST, listed_parts

    if segmented := listed_parts(folder / MANIFEST):  # by `agggen segment`: each split is a folder of Parquet files
        return {split_name(split): folder / split for split in segmented}
    files: dict[str, Path] = {}
    for suffix in SUFFIXES:
        for file in sorted(folder.glob(f"*{suffix}")):
            split = split_name(file.stem)
            if suffix == ".parquet" or split in _STANDARD_SPLITS:
                files.setdefault(split, file)
    return files


def _from_splits(name: str, parts: Mapping[str, Any], columns: Columns, splits: Sequence[str] | None) -> Dataset:
    """The dataset whose splits are read from `parts`, a source per split; if `splits` is not None, only these."""
    if absent := [split for split in splits or () if split not in parts]:
        source = f"the folder {name}" if Path(name).is_dir() else name
        raise CorpusError(f"{source} has no split {absent[0]!r}; it has {', '.join(sorted(parts))}")
    ordered = [*(split for split in _STANDARD_SPLITS if split in parts), *sorted(parts.keys() - set(_STANDARD_SPLITS))]
    tables = {split: _table(parts[split], columns) for split in splits or ordered}
    records = {split: list(chain(*table.records.values())) for split, table in tables.items()}
    return Dataset(name, records, {split: table.rejects for split, table in tables.items() if table.rejects})


def _from_table(name: str, table: Table, seed: int, splits: Sequence[str] | None) -> Dataset:
    """The dataset of a table, split by its column ``split`` or else by `divide`; with only `splits`, if not None."""
    undivided = table.records.get(None, [])
    if undivided and len(table.records) > 1:
        problem = (
            f"{len(undivided):,} records have no split (first: record {undivided[0].id!r}), other records have one"
        )
        raise CorpusError(f"{name}: {problem}; fill the column for all records or none")
    if undivided:
        records = divide(undivided, seed, name)
    else:
        records = {str(split): split_records for split, split_records in table.records.items()}
    if not records:
        first_reject = f"; the first reject: {table.rejects[0]}" if table.rejects else ""
        raise CorpusError(f"{name} has no valid record{first_reject}")
    dataset = Dataset(name, records, {name: table.rejects} if table.rejects else {})
    if splits is None:
        return dataset
    return Dataset(name, {split: dataset.split(split) for split in splits}, dataset.rejects)


def divide(records: Sequence[Record], seed: int = 1, name: str = "the data") -> dict[str, list[Record]]:
    """Splits records into 80 % train, 10 % dev and 10 % test, each in the order of `records`.

    The split of a record depends only on the seed and the triples of all records; records with the same triples are in
    the same split. Records without a text are put in train; training skips them.
    """

    def rank(record: Record) -> str:
        triples = "\n".join(sorted(map(str, record.triples)))
        return hashlib.sha256(f"{seed}\n{triples}".encode()).hexdigest()

    ranks = sorted({rank(record) for record in records if record.references})
    if len(ranks) < 3:
        raise CorpusError(f"{name}: {len(ranks)} different records have texts; train, dev and test need at least three")
    tenth = max(round(len(ranks) / 10), 1)
    split_by_rank = dict.fromkeys(ranks[:tenth], "dev") | dict.fromkeys(ranks[tenth : 2 * tenth], "test")
    divided: dict[str, list[Record]] = {split: [] for split in _STANDARD_SPLITS}
    for record in records:
        divided[split_by_rank.get(rank(record), "train")].append(record)
    return divided


def _table(source: Any, columns: Columns) -> Table:
    if isinstance(source, str | Path):
        return read_file(Path(source), columns)
    return read_table(_rows(source), "the data", columns)


def read_file(path: Path, columns: Columns = Columns()) -> Table:  # noqa: B008 (`Columns` is frozen)
    """The records of a file in the format of its suffix (`SUFFIXES`); files with other suffixes are JSON lines."""
    suffix = path.suffix.lower()
    if suffix == ".parquet" or path.is_dir():
        from agggen.corpora.prepared import is_prepared, read_parquet, read_records

        if is_prepared(path):
            return Table({None: read_records(path)}, [])
        return read_table(_rows(read_parquet(path)), str(path), columns)
    if suffix == ".json":
        return read_table(enumerate(_json_objects(path), start=1), str(path), columns)
    with open_source(path) as (stream, label):
        if suffix in (".csv", ".tsv"):
            delimiter = delimiter_in(stream.readline(1 << 20))
            stream.seek(0)
            return read_table(read_rows(stream, label, (), delimiter, "keep"), label, columns)
        return read_table(read_values(stream, label, decode_errors="reject"), label, columns)


def _json_objects(path: Path) -> list[Any]:
    """The objects of a JSON file: a list, a single object, or an object with a list per split."""
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"cannot read {path}: {error}") from error
    if isinstance(value, dict) and value and all(isinstance(rows, list) for rows in value.values()):
        parts = {split_name(split): rows for split, rows in value.items()}
        if parts.keys() <= set(_STANDARD_SPLITS):
            rows = [(row, split) for split, rows in parts.items() for row in rows]
            return [row | {"split": split} if isinstance(row, dict) else row for row, split in rows]
    return value if isinstance(value, list) else [value]


def _rows(source: Any) -> Iterator[tuple[int, Any]]:
    """The rows of a DataFrame, an Arrow table or a list, or a single record or mapping, numbered from 1."""
    if hasattr(source, "to_pylist"):
        source = source.to_pylist()
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):
        index_names = [name for name in source.index.names if name is not None]
        source = (source.reset_index(index_names) if index_names else source).to_dict("records")
    elif isinstance(source, Record | Mapping):
        source = [source]
    elif not isinstance(source, Iterable):
        raise CorpusError(f"records cannot be read from {type(source).__name__}")
    return enumerate(source, start=1)
