"""Run records on disk, and those that ship."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from agggen.errors import ConfigError
from agggen_platform.config import flatten
from agggen_platform.reproduction import records as module
from agggen_platform.reproduction.comparison import compare
from agggen_platform.reproduction.records import read_record, records_of, shipped, write_record
from agggen_platform.reproduction.tables import TABLES, Recipe, Table, of_board
from agggen_platform.reproduction.work import inference_of
from tests.unit.reproduction.made import board, record

REPO = Path(__file__).parents[3]
TABLE = of_board("toy", "A toy", Recipe("toy", "toy", "tiny"), board())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    made = [record("agggen", 2), record("agggen", 10, chrf="no Java"), record("transformer", 1)]
    for one in made:
        path = write_record(tmp_path, one)
        assert path == tmp_path / "records" / "toy" / f"{one.system}-{one.seed}.json"
    (tmp_path / "records" / "toy" / ".agggen-2.json.1234abcd.tmp").touch()
    assert records_of(TABLE, tmp_path) == [made[2], made[0], made[1]], "by system, then seed"


def test_a_folder_without_records_has_none(tmp_path: Path) -> None:
    assert records_of(TABLE, tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, r"agggen-1\.json is a run record of format 2; this version reads 1"),
        ({"seed": "one"}, r"agggen-1\.json is no run record: seed"),
        ({"colour": "red"}, r"agggen-1\.json is no run record: colour"),
        ({"seed": 2}, r"agggen-1\.json is the record toy/agggen-2\.json"),
        ({"table": "webnlg"}, r"holds the record webnlg/agggen-1\.json; the table toy has"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = write_record(tmp_path, record())
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigError, match=message):
        records_of(TABLE, tmp_path)


@pytest.mark.parametrize("content", ["", "[1]", "{}"])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "agggen-1.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"agggen-1\.json is no run record"):
        read_record(path)


def test_a_record_of_no_system_of_the_table_is_refused(tmp_path: Path) -> None:
    write_record(tmp_path, record("agggen-zz"))
    with pytest.raises(ConfigError, match=r"holds the record toy/agggen-zz-1\.json"):
        records_of(TABLE, tmp_path)


# --- those that ship ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_shipped_records_are_readable_and_compare(table: Table) -> None:
    records = records_of(table)
    compare(table, records)
    for one in records:
        assert one.recipe == table.recipe.decisive(), "what ships was trained as the table says"
        system = table.system(one.system)
        assert system and one.writing == flatten(inference_of(table.recipe, system)), "and wrote as the table says"
        assert one.inputs == table.inputs
        assert (one.corpus, one.split) == (table.corpus, table.split)
        assert any(value.value is not None for value in one.scores.values())


def test_shipped_records_are_in_the_package() -> None:
    folder = Path(str(shipped()))
    patterns = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    package = folder.parents[1]
    listed = {path for pattern in patterns["agggen_platform"] for path in package.glob(pattern)}
    assert set(folder.rglob("*.json")) <= listed
    assert {path.parent.name for path in folder.rglob("*.json")} <= set(TABLES)
    assert "reproduction/records/*/*.json" in patterns["agggen_platform"]
    assert re.fullmatch(r".*agggen_platform/reproduction/records", folder.as_posix())
    assert Path(module.__file__).parent == folder.parent
