"""Loading records and splits from files, folders, patterns, DataFrames, Arrow tables and lists."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agggen import Dataset, Record, load_dataset, load_records
from agggen.datasets import divide
from agggen.errors import CorpusError

ROWS: list[dict[str, Any]] = [
    {"id": str(n), "title": f"Film {n}", "year": 1950 + n, "text": f"Film {n} is of {1950 + n}."} for n in range(20)
]


def sizes(data: Dataset) -> dict[str, int]:
    return {split: len(records) for split, records in data.splits.items()}


def write(path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        return path
    lines = list(map(json.dumps, ROWS))
    if path.suffix == ".csv":
        lines = [",".join(ROWS[0]), *(",".join(map(str, row.values())) for row in ROWS)]
    path.write_text(json.dumps(ROWS) if path.suffix == ".json" else "\n".join(lines), encoding="utf-8")
    return path


def test_all_sources_have_the_same_records(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    expected = load_records(ROWS)
    assert len(expected) == 20 and str(expected[3].triples[0]) == "Film 3 | year | 1953"
    files = [write(tmp_path / f"films.{ending}") for ending in ("csv", "parquet", "json", "jsonl")]
    for source in (pa.Table.from_pylist(ROWS), pandas.DataFrame(ROWS), *files, expected):
        assert load_records(source) == expected


def test_data_without_splits_are_divided_by_record_and_seed(tmp_path: Path) -> None:
    data = load_dataset(str(write(tmp_path / "films.csv")))
    assert sizes(data) == {"train": 16, "dev": 2, "test": 2}
    assert {record.id for records in data.splits.values() for record in records} == {row["id"] for row in ROWS}
    assert load_dataset(ROWS).test == data.test
    assert load_dataset(ROWS, seed=2).test != data.test
    extended = load_dataset([*ROWS, {"id": "z", "title": "Z", "year": 1, "text": "Z."}])
    kept = {record.id for record in data.train} & {record.id for record in extended.train}
    assert len(kept) >= 14, "a new record must not move many others to another split"


def test_records_with_the_same_triples_stay_together() -> None:
    duplicates = [
        Record.of({"id": f"{number}{suffix}", "triples": [["s", "p", str(number)]], "references": ["t"]})
        for number in range(9)
        for suffix in "ab"
    ]
    for seed in range(5):
        for records in divide(duplicates, seed).values():
            assert {record.id[0] + "a" for record in records} <= {record.id for record in records}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (ROWS[:2], "2 different records have texts; train, dev and test need at least three"),
        ("elemnts", "no corpus 'elemnts'; did you mean elements"),
        ("films.csv", r"cannot read films\.csv: there is no such file"),
        (7, "records cannot be read from int"),
    ],
)
def test_an_invalid_source_is_refused(source: Any, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        load_dataset(source)


def test_splits_by_a_column() -> None:
    rows = [row | {"part": ("train", "valid", "test")[n % 3]} for n, row in enumerate(ROWS)]
    data = load_dataset(rows, split="part")
    assert sizes(data) == {"train": 7, "dev": 7, "test": 6}
    with pytest.raises(CorpusError, match=r"1 records have no split \(first: record '19'\), other records"):
        load_dataset([*rows[:-1], ROWS[-1]], split="part")


def test_splits_by_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "valid", "test"):
        write(tmp_path / f"{name}.jsonl")
    (tmp_path / "notes.jsonl").write_text("no records")
    monkeypatch.chdir(tmp_path)
    for source in (".", tmp_path, "{train,valid,test}.jsonl", {"train": "train.jsonl", "dev": ROWS, "test": ROWS}):
        assert sizes(load_dataset(source)) == {"train": 20, "dev": 20, "test": 20}
    assert list(load_dataset(".", splits=("dev",)).splits) == ["dev"]
    with pytest.raises(CorpusError, match=r"the folder \. has no split 'tset'; it has dev, test, train"):
        load_dataset(".", splits=("tset",))


def test_the_catalogue_by_name() -> None:
    data = load_dataset("elements")
    assert sizes(data) == {"train": 1128, "dev": 72, "test": 72}
    assert "train       1,128 records     3,384 texts" in repr(data)


def test_the_round_trip_of_a_saved_dataset_and_its_rejects(tmp_path: Path) -> None:
    data = load_dataset([*ROWS, {"id": "bad", "title": "B", "year": b"1"}])
    assert sum(map(len, data.rejects.values())) == 1
    data.save(tmp_path / "films")
    assert load_dataset(tmp_path / "films").splits == data.splits
    (line,) = (tmp_path / "films" / "rejects.jsonl").read_text().splitlines()
    assert json.loads(line)["line"] == 21


def test_records_in_a_list_are_neither_merged_nor_skipped() -> None:
    first, other = (Record.of({"id": "1", "triples": [["s", "p", value]]}) for value in "ab")
    assert load_records([first, other, first]) == [first, other, first]


def test_a_split_of_a_json_file_may_have_invalid_rows(tmp_path: Path) -> None:
    path = tmp_path / "films.json"
    path.write_text(json.dumps({"train": [ROWS[0], "x"], "dev": ROWS[1:2]}), encoding="utf-8")
    data = load_dataset(path)
    assert sizes(data) == {"train": 1, "dev": 1}
    assert [str(reject) for reject in data.rejects[str(path)]] == [f"{path}:2: a record must be an object, not str"]


def test_skipped_rows_cause_a_warning() -> None:
    with pytest.warns(UserWarning, match="1 rows are invalid and skipped; the first: the data:2: a record must be an"):
        assert len(load_records([ROWS[0], 3])) == 1
