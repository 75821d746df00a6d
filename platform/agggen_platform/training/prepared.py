"""Training examples in a run's folder, written once by the job and read by every worker.

    prepared/KEY/{train,dev}.parquet    one example per row
    prepared/KEY/start.safetensors      initial weights, if ``training.start`` is set
    prepared/KEY/encoder.json           vocabulary, predicate table, lexicon, rejected references, and the hashes
                                        of the other files; written last

KEY is a hash of all data and settings that affect the examples; a resumed run therefore finds its own.
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.torch import load_file

from agggen.corpora.prepared import check_no_extension_types
from agggen.corpora.rejects import Reject
from agggen.datasets import fingerprint_of
from agggen.encoding import Encoder
from agggen.files import save_tensors
from agggen.model.batch import Example
from agggen.run import Prepared, RunConfig, prepare
from agggen.text import Vocabulary
from agggen.training.data import Data
from agggen.verification.lexicon import Lexicon
from agggen_platform.job_config import JobConfig
from agggen_platform.storage import verified
from agggen_platform.storage.errors import DamagedError
from agggen_platform.storage.folder import Folder

FORMAT = 4
_ENCODER = "encoder.json"
_START = "start.safetensors"


def load_or_prepare(folder: Folder, config: JobConfig, data: Data) -> tuple[Prepared, str]:
    """The examples of `data`, and their path in `folder`; prepares and writes them if they do not exist."""
    path = f"prepared/{_examples_key(config, data)}"
    if folder.read(f"{path}/{_ENCODER}") is not None:
        return read_prepared(folder, path), path
    start = data.start.bundle if data.start else None
    prepared = prepare(config, data.train, data.dev, config.max_reject_share, start, data.replay)
    _write_prepared(folder, path, prepared)
    return prepared, path


def read_prepared(folder: Folder, prefix: str) -> Prepared:
    """Reads the examples that `load_or_prepare` wrote to the path `prefix` in `folder`."""
    content = folder.read(f"{prefix}/{_ENCODER}")
    if content is None:
        raise DamagedError(
            f"{folder.at(prefix)} does not exist on this node; set storage.url to a folder that all nodes share, or to "
            "s3://bucket/prefix"
        )
    metadata = json.loads(content)
    vocabulary = Vocabulary.from_json(metadata["vocabulary"])
    encoder = Encoder(vocabulary, tuple(metadata["predicates"]), metadata["max_group_size"])
    with tempfile.TemporaryDirectory(prefix="agggen-") as scratch:

        def download(key: str, name: str) -> Path:
            path = Path(scratch) / name
            verified.get(folder, f"{prefix}/{name}", path, **metadata["files"][key])
            return path

        train, dev = (
            _read_examples(download(split, f"{split}.parquet"), folder.at(f"{prefix}/{split}.parquet"))
            for split in ("train", "dev")
        )
        start = load_file(download(_START, _START)) if _START in metadata["files"] else {}
    rejects = {split: [Reject(**reject) for reject in rejects] for split, rejects in metadata["rejects"].items()}
    lexicon = Lexicon.of(metadata["lexicon"], folder.at(f"{prefix}/{_ENCODER}"))
    return Prepared(encoder, train, dev, metadata["segmenter"], metadata["n_replayed"], rejects, lexicon, start)


def _examples_key(config: RunConfig, data: Data) -> str:
    identity = {
        "format": FORMAT,
        "data": data.fingerprints,
        "limit": config.corpus.limit,
        "facts": asdict(config.facts),
        "segmenter": data.segmenter,
        "text": asdict(config.text),
        "max_group_size": config.model.max_group_size,
    }
    if data.start:
        identity |= {"start": data.start.fingerprint, "model": asdict(config.model), "grow": config.training.grow}
    if data.replay:
        identity["replay"] = fingerprint_of(data.replay)
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


def _write_prepared(folder: Folder, prefix: str, prepared: Prepared) -> None:
    files = {}

    def add_file(key: str, name: str, write: Callable[[Path], None]) -> None:
        with folder.new(f"{prefix}/{name}") as path:
            write(path)
            size, sha256 = verified.measure(path)
        files[key] = {"size": size, "sha256": sha256}

    add_file("train", "train.parquet", lambda path: _write_examples(path, prepared.train))
    add_file("dev", "dev.parquet", lambda path: _write_examples(path, prepared.dev))
    if prepared.start:
        add_file(_START, _START, lambda path: save_tensors(path, prepared.start))
    metadata = {
        "files": files,
        "vocabulary": prepared.encoder.vocabulary.to_json(),
        "predicates": list(prepared.encoder.predicates),
        "max_group_size": prepared.encoder.max_group_size,
        "segmenter": prepared.segmenter,
        "n_replayed": prepared.n_replayed,
        "lexicon": prepared.lexicon.as_dict(),
        "rejects": {split: [asdict(reject) for reject in rejects] for split, rejects in prepared.rejects.items()},
    }
    folder.write(f"{prefix}/{_ENCODER}", json.dumps(metadata, ensure_ascii=False).encode())


def _write_examples(path: Path, examples: Sequence[Example]) -> None:
    integers = pa.list_(pa.int32())
    types = {"id": pa.string(), "facts": pa.list_(integers), "max_size": pa.int32()}
    schema = pa.schema([(field.name, types.get(field.name, integers)) for field in fields(Example)])
    columns = {name: [getattr(example, name) for example in examples] for name in schema.names}
    pq.write_table(pa.table(columns, schema), path, compression="zstd")


class StoredExamples(Sequence[Example]):
    """Examples in flat arrays, which need a quarter of the memory of tuples; an `Example` is created at each access."""

    def __init__(self, table: pa.Table) -> None:
        """`table` has a column for each field of `Example`."""
        self._columns = {name: _to_numpy(table[name].combine_chunks()) for name in table.column_names}
        self._size = table.num_rows

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(self._size)[index]]
        row = range(self._size)[index]
        return Example(**{name: _read_value(column, row) for name, column in self._columns.items()})


def _read_examples(path: Path, address: str) -> StoredExamples:
    with pq.ParquetFile(path) as file:
        check_no_extension_types(file.schema_arrow, address)
        examples = StoredExamples(file.read())
    pa.default_memory_pool().release_unused()
    return examples


def _to_numpy(array: Any) -> Any:
    """A column as a numpy array; a column of lists as a pair: the offsets, and the values converted in the same way."""
    if pa.types.is_list(array.type):
        return array.offsets.to_numpy(), _to_numpy(array.values)
    return array.to_numpy(zero_copy_only=False)


def _read_value(column: Any, row: int) -> Any:
    if not isinstance(column, tuple):
        return column[row : row + 1].tolist()[0]
    offsets, values = column
    start, end = offsets[row : row + 2].tolist()
    if isinstance(values, tuple):
        return tuple(_read_value(values, position) for position in range(start, end))
    return tuple(values[start:end].tolist())
