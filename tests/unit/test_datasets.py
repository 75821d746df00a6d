"""Loading records and splits from files, folders, patterns, stores, DataFrames, Arrow tables and lists."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agggen import Dataset, Record, load_dataset, load_records
from agggen.corpora.examine import examine
from agggen.datasets import divide
from agggen.errors import ConfigError, CorpusError
from agggen_platform.storage.folder import Folder
from tests.unit.training.toy import RECORDS, write_corpus

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
        ("films.csv", r"cannot read films\.csv: no such file"),
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


def row(number: int, text: str, **changes: object) -> dict[str, object]:
    return {"id": number, "title": f"Film {number}", "director": "Scott", "text": text, "split": "train"} | changes


def test_likely_errors_are_reported_with_examples() -> None:
    rows = [row(number, f"Film {number} is by Scott.") for number in range(25)]
    rows += [
        row(30, "Film 30 is nice."),  # lacks the director
        row(31, "Film 31 is by Scott and was shot in Malta in 1977."),
        row(32, "Film 32 is by Scott, a story of love.", genre="love"),
        row(33, ""),
        row(0, "Film 0 is by Scott.", split="dev"),
        row(40, "Film 40 is by Scott, for sale.", split="test", price="sale"),
        row(41, "A.", director=b"x"),
    ]
    result = examine(load_dataset(rows))
    uses = {name: (use.n_texts, len(use.missing)) for name, use in result.predicates.items()}
    assert uses == {"director": (28, 1), "genre": (1, 0)}
    by_problem = dict(finding.split(": ", 1) for finding in result.findings)
    assert "record '41': a cell has the type bytes" in by_problem["rows that could not be read"]
    hallucinated = by_problem["numbers and names in texts that the record lacks"]
    assert "'Malta'" in hallucinated and "'1977'" in hallucinated
    expected = {
        "records without a text": "1, such as 33",
        "values without a word in a text": "1, such as director 'Scott' (record 30)",
        "predicates with fewer than 20 training texts": "1, such as genre (1)",
        "predicates that are not in training": "1, such as price",
        "records with the same triples in several splits": "1, such as train 0, dev 0",
        "texts in several splits": "1, such as train 0, dev 0",
    }
    assert by_problem.items() >= expected.items()


def test_clean_data_have_no_findings() -> None:
    rows = [row(number, f"Film {number} is by Scott.") for number in range(25)]
    assert examine(load_dataset({"train": rows[:20], "dev": rows[20:]})).findings == []
