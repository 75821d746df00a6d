"""Run records: one small JSON file for each evaluated run of a table, with all that its numbers depend on.

    TABLE/SYSTEM-SEED.json

They lie below ``RUNS/records`` where they are made, and below ``records/`` of this package where they ship.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agggen.errors import ConfigError
from agggen.generation.config import InferenceConfig, current
from agggen_platform.config import Scalar, flatten
from agggen_platform.reproduction.tables import Table
from agggen_platform.storage.folder import Folder

FORMAT = 1
FOLDER = "records"
_STRICT = {"extra": "forbid"}


@dataclass(frozen=True)
class Value:
    """A score of a report."""

    __pydantic_config__ = _STRICT

    value: float | None
    """None where it is undefined or was not computed."""
    interval: tuple[float | None, float | None] | None = None
    """95 %, over records."""
    signature: str = ""
    reason: str = ""
    """Why it was not computed."""


@dataclass(frozen=True)
class RunRecord:
    """What one system of one seed scored, and what gave it."""

    __pydantic_config__ = _STRICT

    table: str
    system: str
    """Its key."""
    seed: int
    commands: tuple[str, ...]
    """That make it again; DIR stands for the folder of runs."""
    recipe: tuple[str, ...]
    """The preset and the overrides that both models of all seeds were trained with, but for those of the machine."""
    corpus: str
    split: str
    inputs: int
    """How many records were written about."""
    corpus_fingerprint: str
    """Of these records."""
    protocol: str
    bundle: str
    """Its fingerprint."""
    sources: Mapping[str, str]
    """Fingerprints of what it was trained on: splits, vocabulary, segmenter, the bundle that it began with."""
    training: str
    """The hash of its whole training configuration."""
    inference: str
    """The hash of the settings by which it wrote."""
    settings: Mapping[str, Scalar]
    """These settings."""
    dev: Mapping[str, float]
    """Losses on the development split, and updates, of each stage."""
    environment: Mapping[str, Scalar]
    """Versions, machine and commit of the evaluation."""
    finished: str
    """When."""
    scores: Mapping[str, Value]
    """By ``section/name``."""

    @property
    def writing(self) -> dict[str, Scalar]:
        """How it wrote, in today's settings: what was not one yet when it wrote has its default, and what is none any
        more is left out if it changed nothing.
        """
        return flatten(InferenceConfig()) | current(self.settings, "beam.")

    @property
    def file(self) -> str:
        """Its name below the folder of records."""
        return f"{self.table}/{self.system}-{self.seed}.json"

    def to_json(self) -> str:
        """The content of its file."""
        return json.dumps({"format": FORMAT} | asdict(self), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


_READER: TypeAdapter[RunRecord] = TypeAdapter(RunRecord)


def scores_of(report: Mapping[str, Any]) -> dict[str, Value]:
    """The scores of a report's JSON form, by ``section/name``."""
    return {
        f"{key}/{one['name']}": Value(
            one["value"], one.get("interval_95"), one.get("signature", ""), one.get("not_computed", "")
        )
        for key, section in report["scores"].items()
        for one in section["measures"]
    }


def read_record(file: Traversable | Path) -> RunRecord:
    """Reads a run record.

    Raises:
        ConfigError: it is none, or of another format.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        found = content.pop("format")
        if found != FORMAT:
            raise ConfigError(f"{file} is a run record of format {found}; this version reads {FORMAT}")
        record = _READER.validate_json(json.dumps(content), strict=True)
    except ConfigError:
        raise
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{file} is no run record: {where}: {first['msg']}") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError(f"{file} is no run record ({type(error).__name__}: {error})") from error
    if file.name != record.file.rpartition("/")[2]:
        raise ConfigError(f"{file} is the record {record.file}; a record is called as its system and seed say")
    return record


def records_of(table: Table, runs: Path | None = None) -> list[RunRecord]:
    """The records of a table, in the order of its systems and by seed.

    Args:
        runs: the folder of runs that made them; None for those that ship with agggen.

    Raises:
        ConfigError: a file among them is no run record, or of another table or a system that this one does not have.
    """
    folder = (runs / FOLDER if runs else shipped()).joinpath(table.name)
    if not folder.is_dir():
        return []
    files = [file for file in folder.iterdir() if file.name.endswith(".json") and not file.name.startswith(".")]
    found = [read_record(file) for file in files]
    order = [system.key for system in table.systems]
    for record in found:
        if record.table != table.name or record.system not in order:
            raise ConfigError(
                f"{folder} holds the record {record.file}; the table {table.name} has records of the systems "
                f"{', '.join(order)}"
            )
    return sorted(found, key=lambda record: (order.index(record.system), record.seed))


def shipped() -> Traversable:
    """The folder of the records that ship with agggen; it need not be there."""
    return resources.files("agggen_platform.reproduction") / FOLDER


def write_record(runs: Path, record: RunRecord) -> Path:
    """Writes a record below the folder of runs, whole or not at all, and says where.

    Raises:
        StorageError: the file system refuses.
    """
    name = f"{FOLDER}/{record.file}"
    Folder(str(runs)).write(name, record.to_json().encode())
    return runs / name
