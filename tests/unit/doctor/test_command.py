"""`agggen doctor`: its table, its JSON, its exit codes, what it takes of a job's configuration; and no secret in it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from agggen.errors import ConfigError
from agggen_platform.cli import console
from agggen_platform.cli import doctor as command_module
from agggen_platform.doctor import areas
from agggen_platform.doctor.findings import Check, Finding, error, note, ok, warning
from agggen_platform.doctor.report import FOUND_AN_ERROR, report, without_secrets
from agggen_platform.doctor.running import Examined
from agggen_platform.doctor.settings import Settings, settings_of
from tests.command import Run, command
from tests.processes import free_ports
from tests.unit.doctor.servers import Answers

HERE = Path("runs")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return command(capsys)


def examined(*findings: Finding) -> Examined:
    return Examined(Check("ray", "token", lambda: findings, 5), findings, 0.25)


# --- the report --------------------------------------------------------------------------------------------------


def test_the_shape_of_the_json() -> None:
    """Programs read it: keys are added, never renamed."""
    found = report([examined(ok("a", "well"), warning("b", "not so well", "mend it"))])
    assert list(found) == ["schema", "version", "time", "worst", "counts", "exit_code", "findings"]
    assert found["schema"] == "agggen.doctor/1"
    assert found["counts"] == {"ok": 1, "note": 0, "warning": 1, "error": 0}
    assert (found["worst"], found["exit_code"]) == ("warning", 0)
    assert found["findings"][1] == {
        "area": "ray",
        "check": "token",
        "about": "b",
        "level": "warning",
        "found": "not so well",
        "remedy": "mend it",
        "seconds": 0.25,
    }
    assert found["findings"][0]["remedy"] is None
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("findings", "worst", "code"),
    [
        ([], "ok", 0),
        ([note("a", "b")], "note", 0),
        ([error("a", "b", "c"), ok("a", "b")], "error", FOUND_AN_ERROR),
    ],
)
def test_the_worst_decides(findings: list[Finding], worst: str, code: int) -> None:
    found = report([examined(*findings)])
    assert (found["worst"], found["exit_code"]) == (worst, code)


def test_secrets_are_hidden_whatever_quotes_them() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPx",
        "RAY_AUTH_TOKEN": "0123456789abcdef",
        "MLFLOW_TRACKING_PASSWORD": "hunter2hunter2",
        "API_KEY": "test",  # too short to be looked for: it would hide half of the words
        "PWD": "/srv/somebody",
    }
    quoted = f"a server says {' '.join(environment.values())} and http://ann:swordfish@host/x?X-Amz-Signature=abc"
    finding = {"check": "c", "about": "a", "found": quoted, "remedy": None, "level": "ok"}
    (shown,) = without_secrets([finding], environment)
    assert shown["found"] == "a server says *** *** *** test /srv/somebody and http://***@host/x?X-Amz-Signature=***"
    assert shown["remedy"] is None


# --- areas -------------------------------------------------------------------------------------------------------


def test_all_areas_have_checks_with_a_time() -> None:
    checks = areas.checks_of(Settings())
    assert {check.area for check in checks} == set(areas.AREAS)
    assert all(0 < check.seconds <= 120 for check in checks)


def test_areas_are_chosen_by_name() -> None:
    assert {check.area for check in areas.checks_of(Settings(), ["java", "disk"])} == {"java", "disk"}
    with pytest.raises(ConfigError, match="no area is called 'disc'; did you mean 'disk'"):
        areas.checks_of(Settings(), ["disc"])


def test_an_area_whose_code_is_broken_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    from agggen_platform.doctor.running import examine

    monkeypatch.setitem(areas._CHECKS, "java", "absent.checks")
    (one,) = examine(areas.checks_of(Settings(), ["java"]))
    assert (one.findings[0].level, "ModuleNotFoundError" in one.findings[0].found) == ("error", True)


# --- what a job would use ----------------------------------------------------------------------------------------


def test_without_a_job_nothing_of_it_is_assumed() -> None:
    assert settings_of(None, (), runs=HERE) == Settings()


def test_a_job_is_checked_as_its_configuration_says() -> None:
    overrides = [
        "cluster.workers=4",
        "cluster.gpus_per_worker=1",
        "cluster.address=head:6379",
        "storage.url=s3://models/runs",
        "tracking.uri=http://mlflow:5000",
        "training.device=cuda",
    ]
    found = settings_of("elements", overrides, runs=HERE)
    assert (found.cluster, found.storage, found.tracking) == ("head:6379", ("s3://models/runs",), "http://mlflow:5000")
    assert (found.corpus, found.splits, found.workers, found.gpus_per_worker) == ("elements", ("train", "dev"), 4, 1.0)
    assert not found.needs_gpu_here
    assert settings_of(None, ["training.device=cuda"], runs=HERE).needs_gpu_here


def test_what_is_given_by_name_wins() -> None:
    found = settings_of(
        None, ["storage.url=s3://a"], runs=HERE, address="auto", storage=["s3://b", "s3://c"], tracking="http://t"
    )
    assert (found.cluster, found.storage, found.tracking) == ("auto", ("s3://b", "s3://c"), "http://t")


def test_the_facts_of_a_job() -> None:
    found = settings_of(None, ["facts.source=allennlp", "facts.allennlp.archive=srl.tar.gz"], runs=HERE)
    assert found.archive == "srl.tar.gz"
    found = settings_of(None, ["facts.source=precomputed", "facts.precomputed=frames.txt"], runs=HERE)
    assert (found.archive, found.frames) == (None, "frames.txt")


# --- the command -------------------------------------------------------------------------------------------------


def test_json_on_stdout_and_nothing_else(run: Run) -> None:
    code, out, err = run("doctor", "--only", "caches", "--only", "system", "--json")
    found = json.loads(out)
    assert {one["area"] for one in found["findings"]} == {"caches", "system"}
    assert (code, err) == (found["exit_code"], "")


def test_lines_without_a_terminal(run: Run) -> None:
    code, out, err = run("doctor", "--only", "caches")
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0] == ["area", "level", "what", "found", "what to do"]
    assert [line[:3] for line in lines[1:3]] == [["caches", "ok", "cache"], ["caches", "ok", "runs"]]
    assert (code, err) == (0, "0 errors, 0 warnings, 0 notes\n")


def test_an_error_is_exit_code_11(run: Run) -> None:
    uri = f"http://127.0.0.1:{free_ports(1)[0]}"
    code, out, err = run("doctor", "--only", "mlflow", "--tracking", uri)
    assert (code, err) == (11, "1 error, 0 warnings, 0 notes\n")
    assert f"curl -sS {uri}/health" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "rays"], "did you mean 'ray'?"),
        (["--preset", "webnlk"], "did you mean 'webnlg'?"),
        (["cluster.worker=2"], "did you mean 'cluster.workers'?"),
    ],
)
def test_mistakes_of_the_user_are_exit_code_2(arguments: list[str], words: str, run: Run) -> None:
    code, _, err = run("doctor", *arguments)
    assert (code, words in err) == (2, True)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What a terminal of 100 columns shows."""
    screen = io.StringIO()
    shown = Console(file=screen, force_terminal=True, width=100, markup=False, highlight=False, color_system=None)
    monkeypatch.setattr(console, "console", lambda: shown)
    yield screen


def test_a_table_by_area_on_a_terminal(terminal: io.StringIO) -> None:
    findings = [
        {"area": "ray", "level": "ok", "about": "version", "found": "ray 2.60.0", "remedy": None},
        {"area": "ray", "level": "error", "about": "token", "found": "no [token]", "remedy": "export [RAY]=1"},
        {"area": "disk", "level": "note", "about": "room", "found": "some", "remedy": None},
    ]
    command_module._print(findings)
    shown = terminal.getvalue()
    assert shown.count("\n│ ray ") == 1  # an area is named once
    assert "│ disk │ note" in shown
    lines = shown.splitlines()
    (number,) = [number for number, line in enumerate(lines) if "no [token]" in line]
    assert "export [RAY]=1" in lines[number + 1]


def test_no_secret_is_printed(s3: str, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that has credentials is asked, and refuses them."""
    secrets = {
        "AWS_ACCESS_KEY_ID": "AKIASECRETSECRET1234",
        "AWS_SECRET_ACCESS_KEY": "aws-secret-aws-secret",
        "RAY_AUTH_TOKEN": "ray-secret-ray-secret",
        "MLFLOW_TRACKING_USERNAME": "ann",
        "MLFLOW_TRACKING_PASSWORD": "mlflow-secret-mlflow-secret",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    echo = " ".join(secrets.values())  # a server that quotes what it was sent
    with Answers({"/api/2.0/mlflow/experiments/get-by-name": (500, echo)}) as server:
        code, out, err = run(
            *("doctor", "--json", "--only", "ray", "--only", "mlflow", "--only", "storage"),
            *("--tracking", server.url.replace("://", "://bob:uri-secret@"), "--storage", f"{s3}/x"),
            *("--address", f"127.0.0.1:{free_ports(1)[0]}"),
        )
    found = json.loads(out)
    assert code == 11
    assert {one["area"] for one in found["findings"] if one["level"] == "error"} == {"ray", "mlflow"}
    assert any("answers 500" in one["found"] and "***" in one["found"] for one in found["findings"])
    for secret in (*(value for value in secrets.values() if value != "ann"), "uri-secret"):
        assert secret not in out + err
