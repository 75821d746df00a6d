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


@pytest.fixture(scope="module")
def stack() -> Iterator[StackCommand]:
    with stack_folder() as folder, started(folder, "--ray") as found:
        yield found


def doctor(
    stack: StackCommand, folder: Path, *words: str, only: tuple[str, ...] = SERVERS, **variables: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by ``AREA ABOUT``; no secret of the stack is in what was printed."""
    areas = [word for area in only for word in ("--only", area)]
    command = [sys.executable, "-m", "agggen_platform.cli.main", "doctor", "--json", *areas, *words]
    environment = os.environ | PATHS | stack.env | variables
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert not any(secret in done.stdout + done.stderr for secret in stack.secrets.values())
    found = json.loads(done.stdout)
    return done.returncode, {f"{one['area']} {one['about']}": one for one in found["findings"]}


def errors(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: one["found"] for name, one in found.items() if one["level"] == "error"}


def test_a_stack_that_is_well(stack: StackCommand, tmp_path: Path) -> None:
    before = stack.keys("agggen-models")
    code, found = doctor(stack, tmp_path, "--storage", "s3://agggen-models/runs", only=(*SERVERS, "java", "disk"))
    assert (code, errors(found)) == (0, {})
    well = (
        *("ray token", "ray cluster", "ray cluster token", "ray same Ray", "ray same Python", "ray dashboard"),
        *(
            "mlflow tracking",
            "mlflow server version",
            "mlflow clock",
            "storage credentials",
            "storage permissions",
            "storage clock",
        ),
    )
    assert {name: found[name]["level"] for name in well} == dict.fromkeys(well, "ok")
    assert "takes that of this process" in found["ray dashboard"]["found"]
    assert stack.keys("agggen-models") == before
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_is_too_large_for_the_cluster(stack: StackCommand, tmp_path: Path) -> None:
    job = ("--preset", "elements", "cluster.workers=900", "storage.url=s3://agggen-models/runs")
    code, found = doctor(stack, tmp_path, *job)
    assert (code, list(errors(found))) == (11, ["ray room"])


def test_wrong_secrets_are_told_apart(stack: StackCommand, tmp_path: Path) -> None:
    code, found = doctor(
        stack,
        tmp_path,
        *("--storage", "s3://agggen-models/runs"),
        RAY_AUTH_TOKEN="0" * 64,
        MLFLOW_TRACKING_PASSWORD="password1234",
        AWS_SECRET_ACCESS_KEY="password1234",
    )
    assert code == 11
    assert "refuses this token" in found["ray cluster"]["found"]
    assert "refuses these credentials" in found["mlflow tracking"]["found"]
    assert found["storage credentials"]["level"] == "error"


def test_a_name_that_mlflow_does_not_know(stack: StackCommand, tmp_path: Path) -> None:
    """127.1 is this machine, but not the Host that MLflow allows."""
    uri = stack.env["MLFLOW_TRACKING_URI"].replace("127.0.0.1", "127.1")
    code, found = doctor(stack, tmp_path, "--tracking", uri, only=("mlflow",))
    assert code == 11
    assert "refuses the name 127.1:" in found["mlflow tracking"]["found"]
    assert "--allowed-hosts 127.1:" in found["mlflow tracking"]["remedy"]


def test_mlflow_s_database_itself(stack: StackCommand, tmp_path: Path) -> None:
    password, port = stack.secrets["mlflow_database"], stack.settings["postgres_port"]
    uri = f"postgresql+psycopg2://mlflow:{password}@127.0.0.1:{port}/mlflow"
    code, found = doctor(stack, tmp_path, "--tracking", uri, only=("mlflow",))
    assert (code, errors(found)) == (0, {})
    assert (found["mlflow tracking"]["level"], found["mlflow schema"]["level"]) == ("ok", "ok")
    empty = uri.removesuffix("/mlflow") + "/postgres"
    assert doctor(stack, tmp_path, "--tracking", empty, only=("mlflow",))[1]["mlflow tracking"]["level"] == "note"
    code, found = doctor(stack, tmp_path, "--tracking", uri.replace(password, "password1234"), only=("mlflow",))
    assert (code, "cannot be used" in found["mlflow tracking"]["found"]) == (11, True)


def test_a_bucket_that_is_not_there(stack: StackCommand, tmp_path: Path) -> None:
    code, found = doctor(stack, tmp_path, "--storage", "s3://agggen-other/runs", only=("storage",))
    assert (code, list(errors(found))) == (11, ["storage bucket"])
