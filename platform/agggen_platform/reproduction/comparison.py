"""Our runs beside published systems: means and spread over seeds, of records that compare with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from agggen.errors import ConfigError
from agggen.evaluation.report.build import source_of
from agggen_platform.reproduction.records import RunRecord, Value
from agggen_platform.reproduction.tables import Line, Table

_ABSENT = Value(None, reason="its evaluation has no such score")


@dataclass(frozen=True)
class Cell:
    """A measure of a row: one number for each run or, of a published system, the published one; empty for none."""

    values: tuple[float, ...] = ()

    @property
    def mean(self) -> float | None:
        """Over the runs."""
        return fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of a sample; None of fewer than three runs."""
        return stdev(self.values) if len(self.values) >= 3 else None


@dataclass(frozen=True)
class Row:
    """A system of the table."""

    system: str
    cells: Mapping[str, Cell]
    """By column."""
    source: str = ""
    """Where a published system's numbers stand; empty for ours."""
    records: tuple[RunRecord, ...] = ()
    """The runs, where they are ours."""

    @property
    def ours(self) -> bool:
        """Whether the numbers were computed with agggen's models."""
        return not self.source


@dataclass(frozen=True)
class Comparison:
    """A whole table: each published system, with ours of the same name below it, and our other systems last."""

    table: Table
    rows: tuple[Row, ...]
    signatures: Mapping[str, str]
    """How ours are computed, by score."""
    missing: tuple[str, ...]
    """Why some of our cells have no number, in sentences."""

    @property
    def ours(self) -> list[Row]:
        """Our rows."""
        return [row for row in self.rows if row.ours]


def compare(table: Table, records: Sequence[RunRecord]) -> Comparison:
    """Puts the table together.

    Raises:
        ConfigError: two records do not compare: other test records or another recipe; in a row, another way of
            writing; or another signature of the same score. Names both.
    """
    check(table, records)
    ours = {line.name: row for line in table.lines if (row := _ours(table, line, records))}
    rows: list[Row] = []
    for system in table.published:
        cells = {name: Cell((score,)) for name, score in system.scores.items()}
        rows.append(Row(system.system, cells, source_of(system)))
        if row := ours.pop(system.system, None):
            rows.append(row)
    rows += ours.values()
    signatures = {score: value.signature for _, score, _, value in _shown(table, records) if value.signature}
    return Comparison(table, tuple(rows), signatures, tuple(_missing(table, records)))


def _ours(table: Table, line: Line, records: Sequence[RunRecord]) -> Row | None:
    """A row with a number where all its runs have one."""
    runs = tuple(record for record in records if record.system == line.system)
    if not runs:
        return None
    cells = {}
    for column, score in line.scores.items():
        values = [record.scores.get(score, _ABSENT).value for record in runs]
        numbers = tuple(value for value in values if value is not None)
        cells[column] = Cell(numbers if len(numbers) == len(values) else ())
    return Row(line.name, cells, records=runs)


def _shown(table: Table, records: Sequence[RunRecord]) -> Iterator[tuple[str, str, RunRecord, Value]]:
    """Every number of ours behind the table: its column, its score, its record, its value."""
    for line in table.lines:
        for column, score in line.scores.items():
            for record in records:
                if record.system == line.system:
                    yield column, score, record, record.scores.get(score, _ABSENT)


def _missing(table: Table, records: Sequence[RunRecord]) -> Iterator[str]:
    """A sentence for each column and reason."""
    absent: dict[tuple[str, str], dict[str, None]] = {}
    for column, _, record, value in _shown(table, records):
        if value.value is None:
            run = f"{record.system}-{record.seed}"
            absent.setdefault((column, value.reason or "it is undefined"), {})[run] = None
    for (column, reason), runs in absent.items():
        whose = "any of ours" if len(runs) == len(records) else ", ".join(runs)
        yield f"{column} has no number for {whose}: {reason}"


def check(table: Table, records: Sequence[RunRecord]) -> None:
    """Passes if the records may stand in one table; see `compare`."""
    for what in ("corpus_fingerprint", "protocol", "recipe"):
        _same(table, what.replace("_", " "), [(record.file, getattr(record, what)) for record in records])
    for system in table.systems:
        runs = [record for record in records if record.system == system.key]
        for key in dict.fromkeys(key for record in runs for key in record.writing):
            _same(table, f"inference setting {key}", [(record.file, record.writing.get(key)) for record in runs])
    for score in dict.fromkeys(score for line in table.lines for score in line.scores.values()):
        found = [(record.file, record.scores[score].signature) for record in records if score in record.scores]
        _same(table, f"signature of {score}", [(file, signature) for file, signature in found if signature])


def _same(table: Table, what: str, found: Sequence[tuple[str, object]]) -> None:
    """Raises ConfigError where two files have different values."""
    for file, value in found[1:]:
        if value != found[0][1]:
            raise ConfigError(
                f"the records {found[0][0]} and {file} cannot stand in one table: the {what} of the one is "
                f"{found[0][1]!r:.200}, of the other {value!r:.200}. Take one of them away, or evaluate it anew: "
                f"agggen reproduce {table.name} --runs DIR --seeds SEED --fresh"
            )
