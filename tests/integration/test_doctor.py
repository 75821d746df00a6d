"""`agggen doctor` on PostgreSQL, MLflow with passwords, an S3 server and a Ray head with a token, for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stack_command import PATHS, StackCommand, skip_without_programs, stack_folder, started

skip_without_programs()

pytestmark = pytest.mark.slow

SERVERS = ("ray", "mlflow", "storage")
STORE = "storage.url=s3://agggen-models/runs"


@pytest.fixture(scope="module")
def stack() -> Iterator[StackCommand]:
    with stack_folder() as folder, started(folder, "--ray") as found:
        yield found


def doctor(
    stack: StackCommand, folder: Path, *words: str, only: tuple[str, ...] = SERVERS, **variables: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by ``AREA SUBJECT``; no secret of the stack is printed."""
    areas = [word for area in only for word in ("--only", area)]
    command = [sys.executable, "-m", "agggen_platform.cli.main", "doctor", "--json", *areas, *words]
    environment = os.environ | PATHS | stack.env | variables
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert not any(secret in done.stdout + done.stderr for secret in stack.secrets.values())
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, {f"{finding['area']} {finding['subject']}": finding for finding in findings}


def errors(findings: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: finding["message"] for name, finding in findings.items() if finding["level"] == "error"}


def test_a_stack_that_works(stack: StackCommand, tmp_path: Path) -> None:
    before = stack.keys("agggen-models")
    code, findings = doctor(stack, tmp_path, STORE)
    assert (code, errors(findings)) == (0, {})
    subjects = ("ray token", "ray cluster", "ray dashboard", "mlflow tracking", "mlflow registry", "storage objects")
    assert {name: findings[name]["level"] for name in subjects} == dict.fromkeys(subjects, "ok")
    assert stack.keys("agggen-models") == before
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_is_too_large_for_the_cluster(stack: StackCommand, tmp_path: Path) -> None:
    code, findings = doctor(stack, tmp_path, "--preset", "elements", "cluster.workers=900", STORE)
    assert (code, list(errors(findings))) == (11, ["ray room"])


def test_wrong_secrets(stack: StackCommand, tmp_path: Path) -> None:
    code, findings = doctor(
        stack,
        tmp_path,
        STORE,
        RAY_AUTH_TOKEN="0" * 64,
        MLFLOW_TRACKING_PASSWORD="password1234",
        AWS_SECRET_ACCESS_KEY="password1234",
    )
    assert code == 11
    remedies = {name: findings[name]["remedy"] for name in errors(findings)}
    assert "RAY_AUTH_TOKEN_PATH" in remedies["ray cluster"]
    assert "MLFLOW_TRACKING_PASSWORD" in remedies["mlflow tracking"]
    assert "AWS_SECRET_ACCESS_KEY" in remedies["storage put"]


def test_a_host_name_that_mlflow_does_not_allow(stack: StackCommand, tmp_path: Path) -> None:
    """127.1 is this machine, but not among the server's allowed hosts."""
    uri = stack.env["MLFLOW_TRACKING_URI"].replace("127.0.0.1", "127.1")
    code, findings = doctor(stack, tmp_path, f"tracking.uri={uri}", only=("mlflow",))
    assert (code, "--allowed-hosts 127.1:" in findings["mlflow tracking"]["remedy"]) == (11, True)


def test_mlflows_database_itself(stack: StackCommand, tmp_path: Path) -> None:
    password, port = stack.secrets["mlflow_database"], stack.ports["postgres"]
    uri = f"postgresql+psycopg2://mlflow:{password}@127.0.0.1:{port}/mlflow"
    code, findings = doctor(stack, tmp_path, f"tracking.uri={uri}", only=("mlflow",))
    assert (code, errors(findings)) == (0, {})
