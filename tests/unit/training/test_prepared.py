"""Examples in a run's folder: lossless, reused, refused when damaged or inaccessible."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.run import Prepared, prepare
from agggen.training.batches import fingerprint
from agggen.training.data import Data
from agggen_platform.job_config import JobConfig
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.training.prepared import prepared_in, read_prepared
from tests.unit.model.enumeration import random_example
from tests.unit.training.toy import RECORDS, config_of


@pytest.fixture
def config(tmp_path: Path) -> JobConfig:
    return config_of(tmp_path / "toy")


def content(prepared: Prepared) -> tuple[object, ...]:
    """The content, for comparisons."""
    encoder = prepared.encoder
    described = encoder.vocabulary.to_json(), encoder.predicates, encoder.max_group_size
    return *described, list(prepared.train), list(prepared.dev), prepared.segmenter


DATA = Data(RECORDS[:8], RECORDS[8:], {"toy/train": "12", "toy/dev": "34"}, "sentences-1")


def test_the_round_trip_of_examples_is_lossless(config: JobConfig, tmp_path: Path) -> None:
    written, subfolder = prepared_in(Folder(str(tmp_path)), config, DATA)
    read = read_prepared(Folder(str(tmp_path)), subfolder)
    expected = prepare(config, DATA.train, DATA.dev)
    assert content(read) == content(written) == content(expected)
    assert fingerprint(read.train) == fingerprint(expected.train), "a checkpoint of the one fits the other"
    assert read.train[0].required, "the toy corpus has constraints to lose"


def test_unusual_examples_are_lossless(config: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = prepare(config, DATA.train, DATA.dev)
    odd = replace(
        random_example(3, 3, [2, 3]), facts=((1, 2), ()), kept=(0, 2), required=(1 << 23, 0), forbidden=(0, 5)
    )
    bare = replace(random_example(4, 2, []), facts=())
    odd_ones = Prepared(written.encoder, [odd, bare], written.dev, "a segmenter")
    monkeypatch.setattr("agggen_platform.training.prepared.prepare", lambda *_: odd_ones)
    _, subfolder = prepared_in(Folder(str(tmp_path)), config, DATA)
    assert content(read_prepared(Folder(str(tmp_path)), subfolder)) == content(odd_ones)


def test_examples_are_not_held_as_python_objects(
    config: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = prepare(config, DATA.train, DATA.dev)
    many = replace(written, train=[*written.train] * 250)
    monkeypatch.setattr("agggen_platform.training.prepared.prepare", lambda *_: many)
    _, subfolder = prepared_in(Folder(str(tmp_path)), config, DATA)
    tracemalloc.start()
    read = read_prepared(Folder(str(tmp_path)), subfolder)
    traced, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert traced < 100 * len(many.train)
    assert read.train[-2:] == [written.train[-2], written.train[-1]]
    with pytest.raises(IndexError):
        read.train[len(many.train)]


def test_the_folder_depends_on_everything_that_determines_the_examples(config: JobConfig, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))

    def subfolder(changed: JobConfig, data: Data = DATA) -> str:
        return prepared_in(folder, changed, data)[1]

    same = [
        config,
        replace(config, training=replace(config.training, seed=9)),
        replace(config, model=replace(config.model, width=16)),
    ]
    others = [
        replace(config, facts=replace(config.facts, source="clauses")),
        replace(config, facts=replace(config.facts, constraints="none")),
        replace(config, text=replace(config.text, min_count=2)),
        replace(config, corpus=replace(config.corpus, limit=3)),
        replace(config, model=replace(config.model, max_group_size=2)),
    ]
    assert len({subfolder(case) for case in same}) == 1
    subfolders = {subfolder(case) for case in [config, *others]}
    data = [replace(DATA, fingerprints={"toy/train": "13"}), replace(DATA, segmenter="sentences-2")]
    assert len(subfolders | {subfolder(config, case) for case in data}) == len(others) + 3


def test_an_incomplete_folder_is_rewritten(config: JobConfig, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    _, subfolder = prepared_in(folder, config, DATA)
    folder.delete(f"{subfolder}/encoder.json")  # it comes last
    written, _ = prepared_in(folder, config, DATA)
    assert content(read_prepared(folder, subfolder)) == content(written)


def test_damaged_examples_are_refused(config: JobConfig, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    _, subfolder = prepared_in(folder, config, DATA)
    original = folder.read(f"{subfolder}/train.parquet")
    assert original is not None
    folder.write(f"{subfolder}/train.parquet", original[:-1] + b"?")
    with pytest.raises(StorageError, match=r"train\.parquet is damaged"):
        read_prepared(folder, subfolder)


def test_a_worker_without_access_to_the_folder_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"every worker must see the run's folder, so set storage\.url"):
        read_prepared(Folder(str(tmp_path)), "prepared/123")
