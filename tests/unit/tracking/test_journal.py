"""The run log's file: killed writers, two writers, NaN and infinities."""

import json
import math
from pathlib import Path

from agggen_platform.tracking.journal import Entry, Journal, entries, metric_values


def metrics(step: int, **values: float) -> dict[str, object]:
    return {"event": "metrics", "step": step, "values": values, "time": 1.5}


def test_entries_are_read_from_any_line_on(tmp_path: Path) -> None:
    path = tmp_path / "run" / "log.jsonl"
    log = Journal(path)
    values = {"nan": math.nan, "inf": math.inf, "low": -math.inf, "é": 0.1}
    log.append(metrics(0, **values))
    log.append(metrics(1, loss=2.0))
    log.close()
    log.append(metrics(2, loss=3.0))  # a second writer
    first, second, third = entries(path)
    assert first.event is not None
    assert str(metric_values(first.event)) == str(values)
    assert list(entries(path, first.end)) == [second, third]
    assert third.end == path.stat().st_size
    for line in path.read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=lambda constant: 1 / 0)  # standard JSON, without NaN


def test_an_incomplete_line_of_a_killed_writer_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    Journal(path).append(metrics(0, loss=1.0))
    with path.open("a") as torn:
        torn.write('{"event": "metrics", "st')
    assert [entry.event is None for entry in entries(path)] == [False]  # its writer may still be active
    Journal(path).append(metrics(1, loss=2.0))
    assert [entry.event and entry.event["step"] for entry in entries(path)] == [0, None, 1]


def test_lines_that_are_not_events_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    strange = ["[1]", "{}", '{"event": "metrics", "time": 1}', '{"event": "future", "time": 1}', "\x00", ""]
    path.write_text("".join(line + "\n" for line in strange))
    assert [entry.event for entry in entries(path)] == [None] * len(strange)
    assert list(entries(tmp_path / "missing.jsonl")) == list[Entry]()
