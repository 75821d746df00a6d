"""The report on faults: none is left without a test, and what tests saw reaches the table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS, TESTS, claims, problems
from tests.chaos.report import VARIABLE

pytestmark = pytest.mark.chaos

KILLED, FULL = "training: a worker is killed", "training: the disk is full"


def test_every_fault_is_claimed_and_every_claim_is_of_a_fault() -> None:
    assert problems(claims()) == []


def test_every_claim_is_of_a_test() -> None:
    said = [test for tests in claims().values() for test in tests]
    assert [test for test in said if "::test_" not in test] == []


def test_a_fault_without_a_test_and_a_test_without_a_fault_are_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "test_it.py").write_text(
        "import pytest\n"
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.fault("training: a worker is killed"))])\n'
        "def test_one(x): ...\n"
        '@pytest.mark.fault("training: the moon falls down")\n'
        "def test_two(): ...\n"
    )
    claimed = claims(tmp_path)
    assert claimed == {
        KILLED: ["sub/test_it.py::test_one"],
        "training: the moon falls down": ["sub/test_it.py::test_two"],
    }
    said = problems(claimed)
    assert len(said) == len(FAULTS) - 1 + 1
    assert f"no test claims the fault {FULL!r}" in said
    assert said[-1] == "sub/test_it.py::test_two: no fault is called 'training: the moon falls down'"
    (tmp_path / "test_other.py").write_text("@pytest.mark.fault(NAME)\ndef test(): ...\n")
    with pytest.raises(ValueError, match=r"test_other\.py:1: a fault is named by a plain string"):
        claims(tmp_path)


SESSION = f"""
import pytest

@pytest.mark.parametrize("worker", [0, 1])
@pytest.mark.fault("{KILLED}")
def test_killed(worker, observed):
    observed("gone", 3)
    observed(f"back | again {{worker}}", 1.25)

@pytest.mark.fault("{FULL}")
def test_full(observed):
    observed("full")
    assert not HURT, "it was hurt"

@pytest.mark.fault("sweep: SIGTERM")
def test_term():
    pytest.skip("not here")

def test_other():
    pass
"""


def session(folder: Path, hurt: bool, *options: str) -> subprocess.CompletedProcess[str]:
    """The tests of `SESSION`, in a pytest of their own that has the plugin."""
    (folder / "test_session.py").write_text(f"HURT = {hurt}\n{SESSION}")
    # From the checkout, whose imports it needs, and with nothing of its conftest.
    command = [sys.executable, "-m", "pytest", "-p", "tests.chaos.report", "--noconftest", "-p", "no:cacheprovider"]
    rooted = [f"--rootdir={folder}", f"--override-ini=cache_dir={folder}/.cache", str(folder / "test_session.py")]
    return subprocess.run([*command, *rooted, *options], cwd=TESTS.parent, capture_output=True, text=True, timeout=300)


def test_what_tests_saw_is_printed_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "report"))
    done = session(tmp_path, True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "promises broken: 1" in done.stdout
    report = json.loads((tmp_path / "report" / "chaos.json").read_text())
    found = {(row["fault"], row["test"].rpartition("::")[2]): row for row in report["rows"]}
    assert {key: (row["outcome"], row["observed"], row["recovery_seconds"]) for key, row in found.items()} == {
        (KILLED, "test_killed[0]"): ("kept", "back | again 0", 3.0),
        (KILLED, "test_killed[1]"): ("kept", "back | again 1", 3.0),
        (FULL, "test_full"): ("BROKEN", found[FULL, "test_full"]["observed"], None),
        ("sweep: SIGTERM", "test_term"): ("skipped", "Skipped: not here", None),
    }
    assert found[FULL, "test_full"]["observed"].startswith("AssertionError: it was hurt")
    assert len(report["not_run"]) == len(FAULTS) - 3
    lines = (tmp_path / "report" / "chaos.md").read_text().splitlines()
    assert len(lines) == 2 + 4 + len(FAULTS) - 3
    promise = FAULTS[KILLED].promise
    assert f"| {KILLED} | {promise} | back \\| again 0 | 3.0 s | kept | " in lines[2]

    done = session(tmp_path, False, "-n", "2", "-k", "full")  # a session adds what it ran, its workers' rows too
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report" / "chaos.json").read_text())
    assert [(row["fault"], row["outcome"]) for row in report["rows"]] == [
        (KILLED, "kept"),
        (KILLED, "kept"),
        (FULL, "kept"),
        ("sweep: SIGTERM", "skipped"),
    ]


def test_a_session_without_tests_of_chaos_says_nothing_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    done = session(tmp_path, False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "promises broken" not in done.stdout
