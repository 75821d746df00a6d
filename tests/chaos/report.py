"""A pytest plugin that reports on faults: what was promised of each, what was observed, how long recovery took.

A test claims a fault (``@pytest.mark.fault(NAME)``, see `faults`) and may say what it saw:

    @pytest.mark.fault("serving: a planner is killed")
    def test_it(observed: Observed) -> None:
        ...
        observed("no request failed", seconds=1.3)

At the end of a session that ran a test of ``tests/chaos``, or where AGGGEN_CHAOS_REPORT names a folder, a table is
printed and written as ``chaos.json`` and ``chaos.md``: there, else in the folder of pytest's temporary files. Sessions
that write to one folder add up: rows of tests that a session did not run stay as they were.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.chaos.faults import FAULTS, claims, problems

VARIABLE = "AGGGEN_CHAOS_REPORT"
_CHAOS = "tests/chaos/"
_MEANING = {"passed": "kept", "failed": "BROKEN", "skipped": "skipped"}


class Observed:
    """Takes down what a test saw of a fault; the last word counts, and the longest recovery."""

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties

    def __call__(self, what: str, seconds: float | None = None) -> None:
        """
        Args:
            what: happened, in a few words.
            seconds: from the fault to the recovery, where there is one to be measured.
        """
        self._properties.append(("observed", what))
        if seconds is not None:
            self._properties.append(("recovery", seconds))


@pytest.fixture
def observed(request: pytest.FixtureRequest) -> Observed:
    """For tests that claim a fault: what they saw, and how long recovery took."""
    return Observed(request.node.user_properties)


@dataclass(frozen=True)
class Row:
    """What one test says of one fault."""

    fault: str
    test: str
    outcome: str
    """kept, BROKEN or skipped: the promise."""
    observed: str
    recovery_seconds: float | None
    test_seconds: float
    at: str
    """When, in UTC."""


def rows_of(report: pytest.TestReport) -> list[Row]:
    """What a phase of a test (setup, call, teardown) says; nothing where it says no more than another phase."""
    if report.when != "call" and report.passed:
        return []
    properties = list(report.user_properties)
    words = [str(value) for name, value in properties if name == "observed"]
    seconds = [float(str(value)) for name, value in properties if name == "recovery"]
    if report.failed:
        lines = report.longreprtext.strip().splitlines() or ["it failed"]
        words.append(next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1]))
    elif report.skipped:
        words = [report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"]
    return [
        Row(
            str(name),
            report.nodeid,
            _MEANING[report.outcome],
            words[-1] if words else "as promised",
            max(seconds, default=None),
            round(report.duration, 2),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        for kind, name in properties
        if kind == "fault"
    ]


def merged(folder: Path, new: Iterable[Row]) -> list[Row]:
    """`new`, and what a report in `folder` says of other tests and faults, in the order of the table of faults."""
    rows = {(row.fault, row.test): row for row in new}
    old = folder / "chaos.json"
    if old.exists():
        for row in (Row(**one) for one in json.loads(old.read_text(encoding="utf-8"))["rows"]):
            rows.setdefault((row.fault, row.test), row)
    order = {name: place for place, name in enumerate(FAULTS)}
    return sorted((row for row in rows.values() if row.fault in order), key=lambda row: (order[row.fault], row.test))


def write(folder: Path, rows: list[Row]) -> None:
    """Writes ``chaos.json`` and ``chaos.md``; both name the faults that no row tells of."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "rows": [asdict(row) for row in rows],
        "promises": {fault.name: fault.promise for fault in FAULTS.values()},
        "not_run": not_run(rows),
    }
    (folder / "chaos.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "chaos.md").write_text(markdown(rows), encoding="utf-8")


def not_run(rows: Iterable[Row]) -> list[str]:
    """The faults that no row tells of."""
    told = {row.fault for row in rows}
    return [name for name in FAULTS if name not in told]


def markdown(rows: Iterable[Row]) -> str:
    """The report as a table a row a test."""
    lines = ["| fault | promise | observed | recovery | outcome | test |", "|---|---|---|---|---|---|"]
    rows = list(rows)
    for row in rows:
        cells = [row.fault, FAULTS[row.fault].promise, row.observed, _shown(row), row.outcome, row.test]
        lines.append("| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |")
    lines += [f"| {name} | {FAULTS[name].promise} | | | not run | |" for name in not_run(rows)]
    return "\n".join(lines) + "\n"


def printed(rows: Iterable[Row], width: int) -> str:
    """The report for a terminal of so many columns."""
    table = Table("fault", "promise", "observed", "recovery", "outcome", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row.fault, FAULTS[row.fault].promise, row.observed, _shown(row), row.outcome)
    screen = Console(file=StringIO(), width=width, markup=False)
    screen.print(table, markup=False)
    return screen.file.getvalue()


def _shown(row: Row) -> str:
    return "" if row.recovery_seconds is None else f"{row.recovery_seconds:.1f} s"


class FaultReport:
    """Collects the rows of a session; under xdist, of all its workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._rows: dict[tuple[str, str], Row] = {}
        self._chaos = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._chaos |= report.nodeid.startswith(_CHAOS)
        for row in rows_of(report):
            self._rows[row.fault, row.test] = row

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        asked = os.environ.get(VARIABLE)
        if not self._rows or not (asked or self._chaos):
            return
        folder = Path(asked) if asked else self._config._tmp_path_factory.getbasetemp()
        rows = merged(folder, self._rows.values())
        write(folder, rows)
        now = [row for row in rows if (row.fault, row.test) in self._rows]
        terminalreporter.section("faults")
        terminalreporter.write(printed(now, max(120, shutil.get_terminal_size().columns)))
        count = sum(row.outcome == "BROKEN" for row in rows)
        terminalreporter.write_line(
            f"{len(FAULTS)} faults, {len(FAULTS) - len(not_run(rows))} of them in {folder / 'chaos.md'} (and .json); "
            f"promises broken: {count}"
        )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(name): the test shows what becomes of a fault of tests/chaos/faults.py")
    if not hasattr(config, "workerinput"):  # a worker of xdist has its rows reported by whom it works for
        config.pluginmanager.register(FaultReport(config), "faults")


def pytest_itemcollected(item: pytest.Item) -> None:
    for mark in item.iter_markers("fault"):
        item.user_properties += [("fault", name) for name in mark.args]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A fault without a test, and a test of an unknown fault, end a session that collects tests of chaos."""
    if any(item.nodeid.startswith(_CHAOS) for item in items) and (wrong := problems(claims())):
        raise pytest.UsageError("tests/chaos/faults.py: " + "; ".join(wrong))
