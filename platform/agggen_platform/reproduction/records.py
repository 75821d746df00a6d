"""Run records (the scores of one system with one seed), and their comparison with published scores.

A record is one line of JSON. New records are written to ``RUNS/records/TABLE/SYSTEM-SEED.json``; the records that ship
with agggen are the lines of ``records/TABLE.jsonl`` in this package.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import fmean, stdev

from pydantic import TypeAdapter, ValidationError

from agggen.config import Scalar, flatten
from agggen.errors import ConfigError
from agggen.evaluation import without_counts
from agggen.evaluation.values import VALUE_METRICS
from agggen.generation.config import InferenceConfig
from agggen.report.build import source_of
from agggen_platform.reproduction.tables import FOUR_DIGITS, SystemRow, Table
from agggen_platform.storage.folder import Folder

FOLDER = "records"
_STRICT = {"extra": "forbid"}


@dataclass(frozen=True)
class Score:
    __pydantic_config__ = _STRICT

    value: float | None = None  # None: undefined, or not computed
    interval: tuple[float | None, float | None] | None = None  # 95 % bootstrap confidence interval over test records
    signature: str = ""  # how the score was computed
    reason: str = ""  # why the score was not computed


@dataclass(frozen=True)
class RunRecord:
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
_ABSENT = Score(reason="the report does not contain this score")


def records_of(table: Table, runs: Path | None = None) -> list[RunRecord]:
    """The records of a table in the folder of runs, or those that ship with agggen (None), by system, then by seed.

    Raises ConfigError if a record is invalid, or its system is not in the table.
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


# --- comparison with published scores -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    system: str
    scores: Mapping[str, tuple[float, ...]]  # column -> one score per run, or the published score
    source: str = ""  # the source of published scores; empty for our systems
    runs: int = 0  # number of our runs; 0 for published systems


@dataclass(frozen=True)
class Comparison:
    """A table's rows: published systems, each followed by our system of the same name; then our other systems."""

    table: Table
    records: tuple[RunRecord, ...]
    rows: tuple[Row, ...]
    missing: tuple[str, ...]  # messages about missing scores of our systems


def compare(table: Table, records: Sequence[RunRecord]) -> Comparison:
    """The rows of the table from our records and the published scores; raises ConfigError for incomparable records."""
    _check_comparable(table, records)
    our_rows = {system_row.name: row for system_row in table.system_rows if (row := _our_row(system_row, records))}
    rows: list[Row] = []
    for system in table.published:
        rows.append(Row(system.name, {name: (score,) for name, score in system.scores.items()}, source_of(system)))
        if system.name in our_rows:
            rows.append(our_rows.pop(system.name))
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for column, _, record, score in _scores(table, records):
        if score.value is None:
            reasons.setdefault((column, score.reason or "it is undefined"), {})[record.name] = None
    missing = tuple(
        f"{column} is missing for {'all our runs' if len(runs) == len(records) else ', '.join(runs)}: {reason}"
        for (column, reason), runs in reasons.items()
    )
    return Comparison(table, tuple(records), (*rows, *our_rows.values()), missing)


def _our_row(system_row: SystemRow, records: Sequence[RunRecord]) -> Row | None:
    """The row of one of our systems, None without records; a column is empty unless all runs have its score."""
    runs = [record for record in records if record.system == system_row.system]
    scores = {}
    for column, name in system_row.scores.items():
        values = [record.scores.get(name, _ABSENT).value for record in runs]
        scores[column] = tuple(value for value in values if value is not None) if None not in values else ()
    return Row(system_row.name, scores, runs=len(runs)) if runs else None


def _scores(table: Table, records: Sequence[RunRecord]) -> Iterator[tuple[str, str, RunRecord, Score]]:
    """(column, name in the report, record, score) for each of our scores."""
    for system_row in table.system_rows:
        for column, name in system_row.scores.items():
            for record in records:
                if record.system == system_row.system:
                    yield column, name, record, record.scores.get(name, _ABSENT)


def _check_comparable(table: Table, records: Sequence[RunRecord]) -> None:
    for record in records:
        if table.inputs not in (None, record.inputs):
            raise ConfigError(
                f"the record {record.name} is for {record.inputs:,} test records, but the published scores of table "
                f"{table.name} are for {table.inputs:,}; {_remedy(table)}"
            )
    for field in ("recipe", "protocol", "corpus_fingerprint"):
        _check_equal(table, field.replace("_", " "), [(record.name, getattr(record, field)) for record in records])
    for system in table.systems:
        by_run = {record.name: record.inference(table) for record in records if record.system == system.key}
        for key in dict.fromkeys(key for settings in by_run.values() for key in settings):
            values = [(run, settings.get(key)) for run, settings in by_run.items()]
            _check_equal(table, f"inference setting {key}", values)
    signatures: dict[str, list[tuple[str, object]]] = {}
    for _, name, record, score in _scores(table, records):
        if score.signature:
            signatures.setdefault(name, []).append((record.name, without_counts(score.signature)))
    for name, rows in signatures.items():
        _check_equal(table, f"signature of {name}", rows)


def _check_equal(table: Table, subject: str, values: Sequence[tuple[str, object]]) -> None:
    for run, value in values[1:]:
        if value != values[0][1]:
            raise ConfigError(
                f"the records {values[0][0]} and {run} are not comparable: the {subject} is {values[0][1]!r:.200} and "
                f"{value!r:.200}; {_remedy(table)}"
            )


def _remedy(table: Table) -> str:
    return f"delete the record, or evaluate again: agggen reproduce {table.name} --runs DIR --seeds SEED --fresh"


def rows_of(comparison: Comparison) -> list[list[str]]:
    """The cells of the table, header row first; the last column is the source of the scores."""
    sources = _sources(comparison)
    columns = comparison.table.columns
    rows = [["system", *columns, "from"]]
    for row in comparison.rows:
        cells = [_format_cell(row.scores.get(name, ()), 4 if name in FOUR_DIGITS else 2) for name in columns]
        source = f"ours, n={row.runs}" if row.runs else f"[{sources.index(row.source) + 1}]"
        rows.append([row.system, *cells, source])
    return rows


def notes_of(comparison: Comparison, location: str) -> Iterator[str]:
    """The notes below the table: sources, protocol, signatures, missing scores. `location`: where our records are."""
    table = comparison.table
    yield from (f"[{number}] {source}." for number, source in enumerate(_sources(comparison), start=1))
    if table.published_protocol:
        yield f"Published: {table.published_protocol}."
    if not comparison.records:
        command = f"agggen reproduce {table.name} --runs runs --seeds 1,2,3"
        yield f"No records {location}. To create them: {command}"
        return
    yield from (f"{name}: {VALUE_METRICS[name]}." for name in table.columns if name in VALUE_METRICS)
    record = comparison.records[0]
    yield (
        f"Ours: from the records {location}, {table.corpus} {table.split} ({record.inputs:,} records), trained by "
        f"{' '.join(record.recipe)}. Means over n seeds; n=2: with both values; n>2: ± the standard deviation."
    )
    scores = [(name, score) for _, name, _, score in _scores(table, comparison.records) if score.signature]
    signatures = {name: without_counts(score.signature) for name, score in scores}
    yield from (f"{name}: {signature}" for name, signature in signatures.items())
    yield from comparison.missing


def _sources(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(row.source for row in comparison.rows if row.source))


def _format_cell(values: Sequence[float], digits: int) -> str:
    """The mean: ``58.74`` for one run, ``58.74 (58.50 to 58.98)`` for two, ``58.74 ± 0.24`` for more; ``-``: none."""
    if not values:
        return "-"
    mean = f"{fmean(values):.{digits}f}"
    if len(values) == 2:
        return f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return mean if len(values) == 1 else f"{mean} ± {stdev(values):.{digits}f}"
