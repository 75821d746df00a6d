"""Parquet files with pickles as values are refused by all readers and never loaded.

Importing Ray Data, as every worker of a job over shards does, registers Arrow types whose values are pickles.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agggen.corpora.prepared import read_records, schema, write_records
from agggen.errors import CorpusError
from agggen.records import Record
from agggen.training.data import Data
from agggen_platform.bulk.inputs import find_inputs
from agggen_platform.bulk.records import record_schema
from agggen_platform.sharded.shards import Shard, read_rows, rows_at
from agggen_platform.sharded.worker import open_part
from agggen_platform.storage import verified
from agggen_platform.storage.folder import Folder
from agggen_platform.training.prepared import load_or_prepare, read_prepared
from tests.canary import Canary
from tests.command import Run
from tests.unit.registry.examples import save_model
from tests.unit.training.toy import RECORDS, config_of

pytest.importorskip("ray.data", reason="Ray is not installed: pip install -e '.[dev]'")


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path / "canary")


def pickles(canary: Canary) -> pa.Array:
    from ray.data._internal.object_extensions.arrow import ArrowPythonObjectType

    return ArrowPythonObjectType().wrap_array(pa.array([canary.pickled()], pa.large_binary()))


def pickles_in_triples(canary: Canary) -> pa.Array:
    """A column of triples that have pickles in an additional field."""
    triple = [pa.array([value]) for value in ("Oda", "birthPlace", "Bergen")]
    names = ["subject", "predicate", "object", "note"]
    return pa.ListArray.from_arrays([0, 1], pa.StructArray.from_arrays([*triple, pickles(canary)], names))


PICKLED_COLUMNS: dict[str, Callable[[Canary], pa.Array]] = {"triples": pickles_in_triples, "category": pickles}
every_pickled_column = pytest.mark.parametrize("column", PICKLED_COLUMNS)


def corpus(folder: Path, column: str, canary: Canary) -> Path:
    """A prepared corpus of one record, with pickles in `column`."""
    folder.mkdir(exist_ok=True)
    path = folder / "dev.parquet"
    record = Record.of({"id": "1", "triples": [["Oda", "birthPlace", "Bergen"]], "references": ["Oda is of Bergen."]})
    write_records(path, [record], "toy", "dev")
    table = pq.read_table(path)
    changed = table.set_column(table.column_names.index(column), column, PICKLED_COLUMNS[column](canary))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    return path


@every_pickled_column
@pytest.mark.parametrize(
    "arguments",
    [
        ("bulk", "BUNDLE", "FILE", "--out", "out", "actors=0"),
        ("segment", "FOLDER", "--out", "out", "--facts", "clauses", "actors=0", "cache=off"),
        ("generate", "BUNDLE", "-i", "FILE"),
        ("evaluate", "BUNDLE", "--corpus", "FOLDER", "--split", "dev"),
        ("train", "elements", "corpus.name=FOLDER"),
        ("prepare", "FILE", "--out", "prepared"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_load_no_pickles_in_parquet(
    run: Run, tmp_path: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], column: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")  # an invalid store, so that nothing is logged
    path = corpus(tmp_path / "corpus", column, canary)
    if arguments[0] == "train":
        (path.parent / "train.parquet").write_bytes(path.read_bytes())
    names = {"BUNDLE": save_model(tmp_path / "bundle", 1), "FILE": path, "FOLDER": path.parent}
    words = [str(names.get(word, word)).replace("FOLDER", str(path.parent)) for word in arguments]
    code, _, err = run(*words)
    assert not canary.was_loaded
    if arguments[0] not in ("bulk", "segment"):
        assert (code, "error: " in err) == (2, True), err  # bulk and segment may ignore unused columns


def test_workers_refuse_pickles_in_parquet(tmp_path: Path, canary: Canary) -> None:
    """The file was changed after the driver had checked it, so workers must check it."""
    corpus(tmp_path, "triples", canary)
    folder = Folder(str(tmp_path))
    shard = Shard(0, folder.address, "dev.parquet", "parts/0.parquet", (0,), 0, 0, 1, folder.at("dev.parquet"))
    for read in (
        lambda: list(read_rows(shard, 10, schema().names)),
        lambda: list(read_rows(shard, 10, record_schema().names)),
        lambda: list(read_rows(shard, 10, None)),
        lambda: list(rows_at(folder, shard.name, ["triples"], np.arange(1))),
        lambda: find_inputs(folder.at(shard.name)),
        lambda: read_records(folder.at(shard.name)),
    ):
        with pytest.raises(CorpusError):
            read()
    with pytest.raises(CorpusError, match="could run code"), open_part(folder, shard.name):
        pass
    assert not canary.was_loaded


def test_training_workers_refuse_pickles_in_parquet(tmp_path: Path, canary: Canary) -> None:
    """An attacker who can write to the run's folder can also write the matching hash."""
    folder = Folder(str(tmp_path / "run"))
    data = Data(RECORDS[:8], RECORDS[8:], {"train": "1", "dev": "2"}, "sentences")
    _, prepared_path = load_or_prepare(folder, config_of(tmp_path / "toy"), data)
    assert read_prepared(folder, prepared_path).train
    path = tmp_path / "run" / prepared_path / "train.parquet"
    pq.write_table(pa.table({"id": pickles(canary)}), path)
    size, digest = verified.measure(path)
    description = json.loads(folder.read(f"{prepared_path}/encoder.json") or b"")
    description["files"]["train"] = {"size": size, "sha256": digest}
    folder.write(f"{prepared_path}/encoder.json", json.dumps(description).encode())
    with pytest.raises(CorpusError, match=r"train\.parquet: the column 'id' has values of the extension type"):
        read_prepared(folder, prepared_path)
    assert not canary.was_loaded
