"""Parquet files: any files of users, and prepared corpora, one file per split, lossless and written atomically.

A row of a prepared split is a record; `schema` has the columns. Corpus and split are in each row, to distinguish them
after concatenation. A plan has the notation ``[eatType] [near customerRating]``.

The file's key-value metadata contains ``agggen.format`` (the version of this layout), ``agggen.corpus``,
``agggen.split`` and ``agggen.fingerprint`` (SHA-256 of the records' canonical JSON lines).

A split may also be a folder of such files, written by `agggen segment`; ``manifest.json`` next to it lists the files.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agggen.errors import CorpusError, RecordError
from agggen.files import replacing
from agggen.records import Record

FORMAT = "1"
MANIFEST = "manifest.json"
_KEY_PREFIX = "agggen."  # prefix of the keys of the file's metadata
_METADATA = ("format", "corpus", "split", "fingerprint")
_BLOCK_ROWS = 1024  # records per block while reading and writing


def schema() -> pa.Schema:
    """The Parquet schema of a prepared split."""

    def required(name: str, data_type: pa.DataType | None = None) -> pa.Field:
        return pa.field(name, data_type or pa.string(), nullable=False)

    triple = pa.struct([required("subject"), required("predicate"), required("object")])
    fact = pa.struct([required("text"), pa.field("predicates", pa.list_(pa.string()))])
    facts, plan = pa.field("facts", pa.list_(fact)), pa.field("plan", pa.string())
    reference = pa.struct([required("text"), facts, plan])
    columns = [required("id"), required("corpus"), required("split"), pa.field("category", pa.string())]
    return pa.schema([*columns, required("triples", pa.list_(triple)), required("references", pa.list_(reference))])


def write_records(path: Path | str, records: Iterable[Record], corpus: str, split: str) -> int:
    """Writes `records` to `path`, atomically; returns their number.

    Raises RecordError, and writes nothing, if a record contains a lone surrogate, which is not valid Unicode.
    """
    digest = hashlib.sha256()
    count = 0
    with replacing(Path(path)) as temporary, pq.ParquetWriter(temporary, schema(), compression="zstd") as writer:
        block: list[dict[str, Any]] = []
        for record in records:
            digest.update(_canonical_line(record))
            block.append(_row(record, corpus, split))
            count += 1
            if len(block) == _BLOCK_ROWS:
                writer.write_table(pa.Table.from_pylist(block, schema()))
                block = []
        writer.write_table(pa.Table.from_pylist(block, schema()))
        metadata = {"format": FORMAT, "corpus": corpus, "split": split, "fingerprint": digest.hexdigest()}
        writer.add_key_value_metadata({_KEY_PREFIX + name: value for name, value in metadata.items()})
    return count


def read_records(path: Path | str) -> list[Record]:
    """The records of a prepared split, after the file's fingerprint is verified.

    `path` is a file, or the folder of a split that ``manifest.json`` lists (`listed_parts`). Raises CorpusError if a
    file is missing, not a prepared split, of another format version, or modified.
    """
    path = Path(path)
    if path.is_dir():
        return [record for part in _complete_parts(path) for record in read_records(part)]
    expected_fingerprint = describe(path)["fingerprint"]
    digest = hashlib.sha256()
    records: list[Record] = []
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(schema()):
                raise CorpusError(f"{path} does not have the columns of a prepared corpus; prepare the corpus again")
            for batch in file.iter_batches(batch_size=_BLOCK_ROWS):
                for row in batch.to_pylist():
                    records.append(Record.of({name: row[name] for name in ("id", "triples", "references", "category")}))
                    digest.update(_canonical_line(records[-1]))
    except (pa.ArrowException, OSError, RecordError) as error:
        raise CorpusError(f"{path} is damaged ({error}); prepare the corpus again") from error
    if digest.hexdigest() != expected_fingerprint:
        raise CorpusError(f"{path} was modified after preparation (fingerprint mismatch); prepare the corpus again")
    return records


def listed_parts(manifest: Path) -> dict[str, list[dict[str, Any]]]:
    """The files that a ``manifest.json`` of `agggen segment` lists for each split, in the order of the records.

    Each has a ``name`` (relative to the manifest's folder) and ``bytes``; {} without a manifest.
    """
    try:
        splits = json.loads(manifest.read_bytes())["splits"]
        return {split: entry["parts"] for split, entry in splits.items() if isinstance(entry["parts"], list)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # no file, or a file of another program or of an older agggen (one file per split)


def _complete_parts(split: Path) -> list[Path]:
    """The files of the split in the folder `split`, after a check of their sizes."""
    folder = split.parent
    parts = listed_parts(folder / MANIFEST).get(split.name)
    if parts is None:
        raise CorpusError(f"{split} is not a split of a segmented corpus: {folder / MANIFEST} does not list it")
    for part in parts:
        path = folder / part["name"]
        if not path.is_file() or path.stat().st_size != part["bytes"]:
            raise CorpusError(f"{path} is not the file that {MANIFEST} lists; run agggen segment again")
    return [folder / part["name"] for part in parts]


def is_prepared(path: Path | str) -> bool:
    """Whether the file is a prepared split; also True if it cannot be read, so that `read_records` raises the error."""
    try:
        return f"{_KEY_PREFIX}format".encode() in (pq.read_metadata(path).metadata or {})
    except (pa.ArrowException, OSError, ValueError, TypeError):
        return True


def describe(path: Path | str) -> dict[str, str]:
    """The file's metadata: format, corpus, split, and the fingerprint of the records; errors: see `read_records`."""
    try:
        raw_metadata = pq.read_metadata(path).metadata or {}
    except FileNotFoundError as error:
        raise CorpusError(f"{path} does not exist; make it with: agggen prepare NAME --out DIR") from error
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:  # extension types raise the last two
        raise CorpusError(f"{path} is not a Parquet file ({error})") from error
    try:
        metadata = {name: raw_metadata[f"{_KEY_PREFIX}{name}".encode()].decode() for name in _METADATA}
    except KeyError as error:
        raise CorpusError(f"{path} is Parquet, but not a prepared corpus; make one with: agggen prepare") from error
    if metadata["format"] != FORMAT:
        raise CorpusError(f"{path} has format {metadata['format']}, not {FORMAT}; prepare the corpus again")
    return metadata


def _canonical_line(record: Record) -> bytes:
    """The record as the JSON line that the fingerprint hashes."""
    text = json.dumps(record.as_dict(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError as error:
        problem = f"contains {text[error.start]!r}, which is not a Unicode character"
        raise RecordError(f"record {record.id!r} {problem}") from error


def _row(record: Record, corpus: str, split: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "corpus": corpus,
        "split": split,
        "category": record.category,
        "triples": list(map(asdict, record.triples)),
        "references": [
            {
                "text": reference.text,
                "facts": None if reference.facts is None else list(map(asdict, reference.facts)),
                "plan": None if reference.plan is None else str(reference.plan),
            }
            for reference in record.references
        ],
    }


def check_no_extension_types(columns: pa.Schema, source: str) -> None:
    """Raises CorpusError if a column contains an extension type, which may be nested in other types.

    Ray Data registers an extension type whose values are pickles, which are loaded on conversion to Python objects: if
    Ray Data is imported, an untrusted file could run code.
    """
    for column in columns:
        for extension in _extension_types(column.type):
            raise CorpusError(
                f"{source}: the column {column.name!r} has values of the extension type {extension.extension_name!r}, "
                "which could run code when they are read; write strings, numbers, lists and structs"
            )


def read_parquet(path: Path) -> pa.Table:
    """Reads a local Parquet file; raises CorpusError if it is missing, is not Parquet, or has an extension type."""
    try:
        check_no_extension_types(pq.read_schema(path), str(path))
        return pq.read_table(path)
    except CorpusError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:  # Ray Data's types raise the last two
        raise CorpusError(f"{path} cannot be read as Parquet: {error}") from error


def columns_of(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """The columns with these names, duplicates included."""
    return pa.schema([column for column in schema if column.name in names])


def _extension_types(data_type: pa.DataType) -> Iterator[pa.BaseExtensionType]:
    if isinstance(data_type, pa.BaseExtensionType):
        yield data_type
    elif pa.types.is_dictionary(data_type):
        yield from _extension_types(data_type.value_type)
    else:
        for number in range(data_type.num_fields):
            yield from _extension_types(data_type.field(number).type)
