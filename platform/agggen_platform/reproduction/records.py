"""Run records: the scores of one system with one seed, with recipe, settings and fingerprints.

A record is one line of JSON. New records are written to ``RUNS/records/TABLE/SYSTEM-SEED.json``; the records that ship
with agggen are the lines of ``records/TABLE.jsonl`` in this package.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agggen.config import Scalar, flatten
from agggen.errors import ConfigError
from agggen.generation.config import InferenceConfig
from agggen_platform.reproduction.tables import Table
from agggen_platform.storage.folder import Folder

FOLDER = "records"
_STRICT = {"extra": "forbid"}


@dataclass(frozen=True)
class Score:
    """A score of a report."""

    __pydantic_config__ = _STRICT

    value: float | None = None  # None: undefined, or not computed
    interval: tuple[float | None, float | None] | None = None  # 95 % bootstrap confidence interval over test records
    signature: str = ""  # how the score was computed
    reason: str = ""  # why the score was not computed


@dataclass(frozen=True)
class RunRecord:
    """The scores of one system with one seed."""

    __pydantic_config__ = _STRICT

    system: str  # `System.key`
    seed: int
    recipe: tuple[str, ...]  # preset and overrides of the trainings, without settings of the machine
    corpus_fingerprint: str  # the fingerprint of the test records
    inputs: int  # number of test records
    protocol: str
    bundle: str  # the fingerprint of the model
    settings: Mapping[str, Scalar]  # inference settings that affect the scores
    scores: Mapping[str, Score]  # ``section/name`` in the report -> score

    @property
    def name(self) -> str:
        return f"{self.system}-{self.seed}"

    def inference(self, table: Table) -> dict[str, Scalar]:
        """The inference settings that affect the scores of `table`; defaults for settings not in the record."""
        return table.score_settings(flatten(InferenceConfig()) | dict(self.settings))

    def to_json(self) -> str:
        """One line of JSON."""
        values = _ADAPTER.dump_python(self, exclude_defaults=True)
        return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"


_ADAPTER: TypeAdapter[RunRecord] = TypeAdapter(RunRecord)


def records_of(table: Table, runs: Path | None = None) -> list[RunRecord]:
    """The records of a table, sorted by the table's order of systems, then by seed.

    Args:
        runs: the folder of runs; None: the records that ship with agggen.

    Raises:
        ConfigError: a record is invalid, or its system is not in the table.
    """
    if runs is None:
        shipped_file = resources.files("agggen_platform.reproduction") / FOLDER / f"{table.name}.jsonl"
        lines = shipped_file.read_text(encoding="utf-8").splitlines() if shipped_file.is_file() else []
        sources = [(f"{shipped_file}, line {number}", line) for number, line in enumerate(lines, start=1)]
    else:
        files = sorted((runs / FOLDER / table.name).glob("[!.]*.json"))
        sources = [(str(file), file.read_text(encoding="utf-8")) for file in files]
    records = [_parse_record(source, text) for source, text in sources]
    system_keys = [system.key for system in table.systems]
    for (source, _), record in zip(sources, records, strict=True):
        if record.system not in system_keys:
            raise ConfigError(
                f"{source}: table {table.name} has no system {record.system}; it has {', '.join(system_keys)}"
            )
    return sorted(records, key=lambda record: (system_keys.index(record.system), record.seed))


def _parse_record(source: str, text: str) -> RunRecord:
    try:
        return _ADAPTER.validate_json(text, strict=True)
    except ValidationError as error:
        first_error = error.errors(include_url=False)[0]
        field_name = ".".join(map(str, first_error["loc"]))
        raise ConfigError(f"{source}: invalid run record: {field_name or 'JSON'}: {first_error['msg']}") from error


def write_record(runs: Path, table: Table, record: RunRecord) -> Path:
    """Writes a record below the folder of runs, atomically, and returns its path."""
    name = f"{FOLDER}/{table.name}/{record.name}.json"
    Folder(str(runs)).write(name, record.to_json().encode())
    return runs / name
