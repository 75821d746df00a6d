"""A real stack for tests: ``python -m infra.stack`` as a process, in a folder of its own, on free ports."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from infra.stack import StackError, postgres_programs, rclone
from tests.processes import Running

REPO = Path(__file__).parents[2]
PATHS = {"PYTHONPATH": f"{REPO}{os.pathsep}{REPO / 'platform'}", "OMP_NUM_THREADS": "1"}


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class StackCommand:
    """A stack that answers, and what its users have."""

    def __init__(self, state: Path, running: Running) -> None:
        self.state, self.running = state, running
        lines = (shlex.split(line) for line in (state / "env").read_text().splitlines())
        self.env = dict(words[1].split("=", 1) for words in lines if words[0] == "export")
        content = json.loads((state / "stack.json").read_text())
        self.ports: dict[str, int] = content["ports"]
        self.secrets: dict[str, str] = content["secrets"]
        self.processes = psutil.Process(running.process.pid).children(recursive=True)

    def wait_until_gone(self) -> None:
        """Returns when no process of the stack is left; zombies, which nobody has waited for, do not count."""
        deadline = time.monotonic() + 60
        while alive := [process for process in self.processes if is_alive(process)]:
            assert time.monotonic() < deadline, f"these outlived the stack: {alive}"
            time.sleep(0.1)

    def agggen(self, *words: object, folder: Path, expect: int = 0) -> str:
        """What `agggen` prints, run in `folder` with the stack's environment."""
        command = [sys.executable, "-m", "agggen_platform.cli.main", *map(str, words)]
        env = os.environ | PATHS | self.env
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=400)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def mlflow(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        """The answer of MLflow's REST API."""
        account = (self.env["MLFLOW_TRACKING_USERNAME"], self.env["MLFLOW_TRACKING_PASSWORD"])
        url = f"{self.env['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/{path}"
        answer = httpx.request(method, url, auth=account, timeout=60, **arguments)
        assert answer.status_code == 200, answer.text
        content: dict[str, Any] = answer.json()
        return content

    def runs(self) -> dict[str, dict[str, Any]]:
        """The runs of the experiment `agggen` by name."""
        experiment = self.mlflow("GET", "experiments/get-by-name", params={"experiment_name": "agggen"})["experiment"]
        answer = self.mlflow("POST", "runs/search", json={"experiment_ids": [experiment["experiment_id"]]})
        return {run["info"]["run_name"]: run for run in answer.get("runs", ())}

    def sql(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """What PostgreSQL has of MLflow's database."""
        import psycopg2  # type: ignore[import-untyped]

        account = {"user": "mlflow", "password": self.secrets["mlflow_database"], "dbname": "mlflow"}
        connection = psycopg2.connect(host="127.0.0.1", port=self.ports["postgres"], **account)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(query, values)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The objects of a bucket."""
        pages = self.s3().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def s3(self) -> Any:
        """boto3 with the environment's keys and endpoint, and its own defaults otherwise."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.env["AWS_ENDPOINT_URL"],
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
            region_name=self.env["AWS_DEFAULT_REGION"],
        )


def skip_without_programs() -> None:
    """Skips the module where the stack's programs are not installed."""
    for package in ("ray", "psycopg2", "flask_wtf", "boto3"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install -e '.[dev]'")
    try:
        postgres_programs()
        rclone()
    except StackError as error:
        pytest.skip(str(error), allow_module_level=True)


@contextmanager
def stack_folder() -> Iterator[Path]:
    """A folder that PostgreSQL's user may pass through where root runs the tests; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="agggen-stack-"))
    folder.chmod(0o711)
    try:
        yield folder / "stack"
    finally:
        shutil.rmtree(folder)


@contextmanager
def started(state: Path, *options: str) -> Iterator[StackCommand]:
    """The stack until the block ends."""
    words = ["-m", "infra.stack", "up", "--state", str(state), "--free-ports", *options]
    with Running(words, state.parent, PATHS) as running:
        running.wait_until(lambda: "The stack is up" in running.output(), "the stack", 400)
        stack = StackCommand(state, running)
        yield stack
        if running.process.poll() is None:  # no test has killed it
            running.signal(signal.SIGTERM)
            assert running.finish(240) == 143, running.output()
    stack.wait_until_gone()
