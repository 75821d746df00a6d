"""Run records on disk, and those that ship."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agggen.config import flatten
from agggen.errors import ConfigError
from agggen_platform.reproduction.comparison import compare
from agggen_platform.reproduction.records import records_of, write_record
from agggen_platform.reproduction.tables import TABLES, Table
from agggen_platform.reproduction.work import inference_of
from tests.unit.reproduction.made import made_record, made_table

TABLE = made_table()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert records_of(TABLE, tmp_path) == []
    records = [made_record("agggen", 2), made_record("agggen", 10, chrf="no Java"), made_record("transformer", 1)]
    for record in records:
        path = write_record(tmp_path, TABLE, record)
        assert path == tmp_path / "records" / "toy" / f"{record.system}-{record.seed}.json"
    (path.parent / ".agggen-2.json.1234abcd.tmp").touch()
    assert records_of(TABLE, tmp_path) == [records[2], records[0], records[1]], "by system, then seed"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"agggen-1\.json: invalid run record: JSON"),
        ("{}", r"agggen-1\.json: invalid run record: system"),
        ({"seed": "one"}, r"agggen-1\.json: invalid run record: seed"),
        ({"colour": "red"}, r"agggen-1\.json: invalid run record: colour"),
        ({"system": "other"}, r"agggen-1\.json: table toy has no system other, only transformer, agggen"),
    ],
)
def test_an_invalid_record_is_refused_by_name(tmp_path: Path, content: str | dict[str, object], message: str) -> None:
    path = write_record(tmp_path, TABLE, made_record())
    path.write_text(content if isinstance(content, str) else json.dumps(json.loads(path.read_text()) | content))
    with pytest.raises(ConfigError, match=message):
        records_of(TABLE, tmp_path)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_shipped_records_are_of_what_the_table_says(table: Table) -> None:
    records = records_of(table)
    compare(table, records)
    assert records or table.name in ("e2e-cross", "e2e-cleaned")
    for record in records:
        system = next(system for system in table.systems if system.key == record.system)
        assert record.recipe == table.recipe.decisive()
        assert record.inference(table) == table.relevant(flatten(inference_of(table.recipe, system)))
        assert record.inputs == table.inputs
