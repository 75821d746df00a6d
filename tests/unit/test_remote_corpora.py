"""Records of catalogue corpora and of prepared folders in a store."""

from pathlib import Path

import pytest

from agggen.datasets import load_dataset
from agggen.errors import ConfigError, CorpusError
from agggen.records import Record
from agggen_platform.storage.folder import Folder
from tests.unit.training.toy import RECORDS, write_corpus


def records_of(corpus: str, split: str) -> list[Record]:
    return load_dataset(corpus, splits=(split,)).split(split)


def test_a_folder_named_like_a_corpus_does_not_hide_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e2e").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path / "home"))
    with pytest.raises(CorpusError, match="agggen corpora fetch e2e"):
        records_of("e2e", "dev")


def test_records_of_a_folder_in_a_store(tmp_path: Path, s3: str) -> None:
    corpus = write_corpus(tmp_path / "toy")
    folder = Folder(f"{s3}/toy")
    for name in ("train", "dev"):
        folder.upload(f"{name}.parquet", corpus / f"{name}.parquet")
    assert records_of(folder.address, "train") == RECORDS[:8]
    with pytest.raises(CorpusError, match=rf"{folder} has no split 'test'; it has dev, train"):
        records_of(folder.address, "test")
    folder.write("dev.parquet", (folder.read("dev.parquet") or b"")[:-20])
    with pytest.raises(CorpusError, match=rf"^{folder}/dev\.parquet is not a Parquet file"):
        records_of(folder.address, "dev")
    with pytest.raises(ConfigError, match="is neither a path, file://PATH nor s3://BUCKET/PREFIX"):
        records_of("https://toy", "dev")
