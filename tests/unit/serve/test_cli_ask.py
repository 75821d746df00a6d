"""`agggen ask` with an endpoint in this process."""

import json
from pathlib import Path
from typing import Any

import pytest

from agggen.corpora.elements import elements_records
from tests.command import Run
from tests.processes import free_ports

RECORDS = list(elements_records("dev"))[:5]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of five records, an invalid line, and a record with too many triples."""
    lines = [json.dumps(record.as_dict()) for record in RECORDS]
    lines.insert(2, "{no json")
    lines.insert(4, json.dumps({"id": "long", "triples": [["s", f"p{i}", "o"] for i in range(99)]}))
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(lines))
    return path


def exact(line: dict[str, Any]) -> dict[str, Any]:
    """A line without log-probabilities, whose rounding depends on the batch."""
    return {name: value for name, value in line.items() if not isinstance(value, float)}


def test_ask_writes_what_generate_writes(run: Run, endpoint: str, source: Path, tmp_path: Path, bundle: Path) -> None:
    asked, generated = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    options = ("--n-best", 2, "--verify", "off")  # no text of an untrained model passes the check
    code, out, err = run("ask", endpoint, "-i", source, "-o", asked, *options)
    assert (code, out) == (0, "")
    assert "2 of 7 records rejected" in err
    rejects = [json.loads(line) for line in Path(f"{asked}.rejects.jsonl").read_text().splitlines()]
    assert [(reject["line"], reject["id"]) for reject in rejects] == [(3, None), (None, "long")]
    assert "99 triples" in rejects[1]["reason"]
    assert run("generate", bundle, "verify=off", "-i", source, "-o", generated, "--n-best", 2)[0] == 0
    first, second = ([json.loads(line) for line in path.read_text().splitlines()] for path in (asked, generated))
    assert len(first) == 10
    assert [exact(line) for line in first] == [exact(line) for line in second]
    assert [line["score"] for line in first] == pytest.approx([line["score"] for line in second], abs=1e-3)


def test_one_plan_applies_to_all_records(run: Run, endpoint: str, tmp_path: Path) -> None:
    source = tmp_path / "one.jsonl"
    source.write_text(json.dumps({"triples": [["Aromi", "food", "English"], ["Aromi", "area", "centre"]]}))
    code, out, _ = run("ask", endpoint, "-i", source, "--plan", "[area] [food]")
    assert code == 0
    assert json.loads(out)["plan"] == "[area] [food]"
    code, _, err = run("ask", endpoint, "-i", source, "--plan", "[area]")
    assert code == 2
    assert "food" in err


def test_an_unreachable_endpoint_leaves_no_output(run: Run, source: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    output = tmp_path / "texts.jsonl"
    code, _, err = run("ask", f"http://127.0.0.1:{port}", "-i", source, "-o", output, "--deadline", "0.3")
    assert code == 10
    assert "refused" in err
    assert not output.exists()


def test_conflicting_and_invalid_options_are_refused(run: Run, source: Path) -> None:
    assert run("ask", "http://127.0.0.1:1", "-i", source, "--complete")[0] == 2
    assert run("ask", "http://127.0.0.1:1", "-i", source, "--plan", "[a]", "--level", 1)[0] == 2
    assert run("ask", "http://127.0.0.1:1", "-i", source, "--verify", "retry")[0] == 2
    assert run("ask", "nowhere", "-i", source)[0] == 2
