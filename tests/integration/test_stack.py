"""Training, a sweep, promotion and the endpoint with real PostgreSQL, MLflow and S3 servers."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from botocore.exceptions import ClientError

from infra.servers import postgres_programs, rclone
from infra.supervisor import StackError
from tests.processes import Running, free_ports, until
from tests.serve_app import RECORDS, SMALL
from tests.unit.training.toy import TINY

for package in ("ray", "psycopg2", "flask_wtf", "boto3"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install -e '.[dev]'")
try:
    postgres_programs()
    rclone()
except StackError as error:
    pytest.skip(str(error), allow_module_level=True)

pytestmark = pytest.mark.slow

REPO = Path(__file__).parents[2]
PATHS = {"PYTHONPATH": f"{REPO}{os.pathsep}{REPO / 'platform'}", "OMP_NUM_THREADS": "1"}


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class StackCommand:
    """A running stack, with its ports, passwords and environment."""

    def __init__(self, state: Path, running: Running) -> None:
        self.state, self.running = state, running
        lines = (shlex.split(line) for line in (state / "env").read_text().splitlines())
        self.env = dict(words[1].split("=", 1) for words in lines if words[0] == "export")
        content = json.loads((state / "stack.json").read_text())
        self.ports: dict[str, int] = content["ports"]
        self.secrets: dict[str, str] = content["secrets"]
        self.processes = psutil.Process(running.process.pid).children(recursive=True)

    def wait_until_gone(self) -> None:
        """Waits until no process of the stack is alive; zombies do not count."""
        until(lambda: not any(map(is_alive, self.processes)), "end of all processes", 60)

    def agggen(self, *words: object, folder: Path, expect: int = 0, **variables: str) -> tuple[str, str]:
        """Runs `agggen` in `folder` with the stack's environment; returns stdout and stderr, without secrets."""
        command = [sys.executable, "-m", "agggen_platform.cli.main", *map(str, words)]
        env = os.environ | PATHS | self.env | variables
        completed = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900)
        assert completed.returncode == expect, completed.stdout + completed.stderr
        assert not any(secret in completed.stdout + completed.stderr for secret in self.secrets.values())
        return completed.stdout, completed.stderr

    def mlflow(self) -> Any:
        """A client of MLflow with the stack's account."""
        from mlflow import MlflowClient

        account = ":".join(self.env[f"MLFLOW_TRACKING_{name}"] for name in ("USERNAME", "PASSWORD"))
        return MlflowClient(self.env["MLFLOW_TRACKING_URI"].replace("://", f"://{account}@"))

    def sql(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """The result of a query on MLflow's database in PostgreSQL."""
        import psycopg2  # type: ignore[import-untyped]

        account = {"user": "mlflow", "password": self.secrets["mlflow_database"], "dbname": "mlflow"}
        connection = psycopg2.connect(host="127.0.0.1", port=self.ports["postgres"], **account)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall())

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The keys of at most 1,000 objects in S3."""
        import boto3

        key = {name: self.env[name.upper()] for name in ("aws_access_key_id", "aws_secret_access_key")}
        client = boto3.client("s3", endpoint_url=self.env["AWS_ENDPOINT_URL"], region_name="us-east-1", **key)
        return [item["Key"] for item in client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", ())]


@contextmanager
def running_stack(state: Path, *options: str) -> Iterator[StackCommand]:
    words = ["-m", "infra.stack", "up", "--state", str(state), "--free-ports", *options]
    with Running(words, state.parent, PATHS) as running:
        running.wait_until(lambda: "The stack is ready" in running.output(), "the stack")
        stack = StackCommand(state, running)
        yield stack
        if running.process.poll() is None:  # not killed by a test
            running.signal(signal.SIGTERM)
            assert running.finish() == 143, running.output()
    stack.wait_until_gone()


STORE = "storage.url=s3://agggen-models/runs"
TRIALS = ["swept-t000", "swept-t001"]


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    """The stack's folder, which PostgreSQL's user can read if root runs the tests, unlike pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix="agggen-stack-"))
    folder.chmod(0o711)
    try:
        yield folder / "stack"
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def stack(state: Path) -> Iterator[StackCommand]:
    with running_stack(state, "--ray") as running:
        yield running


@pytest.fixture(scope="module")
def work_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work_folder")


@pytest.fixture(scope="module")
def champion(stack: StackCommand, work_folder: Path) -> dict[str, str]:
    """Source and tags of the promoted best model of a sweep."""
    space = work_folder / "space.yaml"
    space.write_text("trials: 2\nconcurrent: 1\nasha: null\nspace:\n  model.predicate_dim: {choice: [4, 8]}\n")
    sweep = ("sweep", "elements", *TINY, STORE, "--space", space, "--name", "swept")
    assert "alias candidate" in stack.agggen(*sweep, folder=work_folder)[1]
    stack.agggen("models", "promote", "agggen@candidate", folder=work_folder)
    version = stack.mlflow().get_model_version_by_alias("agggen", "champion")
    return {"source": version.source} | version.tags


# --- access ----------------------------------------------------------------------------------------------------------


def test_every_server_refuses_a_missing_or_wrong_password_and_other_host_names(
    stack: StackCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow, s3 = stack.env["MLFLOW_TRACKING_URI"], stack.env["AWS_ENDPOINT_URL"]
    search = f"{mlflow}/api/2.0/mlflow/experiments/search?max_results=1"
    account = ("admin", stack.env["MLFLOW_TRACKING_PASSWORD"])
    assert httpx.get(search, timeout=60).status_code == 401
    assert httpx.get(search, auth=("admin", "password1234"), timeout=60).status_code == 401
    assert httpx.get(search, auth=account, headers={"Host": "evil.example"}, timeout=60).status_code == 403
    assert httpx.get(search, auth=account, timeout=60).status_code == 200
    assert httpx.get(f"{s3}/agggen-models", timeout=60).status_code in (400, 403)
    monkeypatch.setitem(stack.env, "AWS_SECRET_ACCESS_KEY", "password1234")
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        stack.keys("agggen-models")
    assert httpx.get(f"{stack.env['RAY_API_SERVER_ADDRESS']}/api/jobs/", timeout=60).status_code == 401


def test_all_servers_listen_on_loopback_only(stack: StackCommand) -> None:
    ports = {stack.ports[name] for name in ("postgres", "s3", "mlflow", "ray")}
    listening = [used.laddr for used in psutil.net_connections("tcp") if used.status == psutil.CONN_LISTEN]
    assert {(address.port, address.ip) for address in listening if address.port in ports} == {
        (port, "127.0.0.1") for port in ports
    }


def test_no_password_is_in_a_command_line_or_a_log(stack: StackCommand) -> None:
    passwords = [stack.secrets[name] for name in stack.secrets if name != "s3_key_id"]
    texts = [" ".join(process.cmdline()) for process in psutil.Process(stack.running.process.pid).children(True)]
    texts += [path.read_text(errors="replace") for path in (stack.state / "logs").iterdir()]
    assert len(texts) > 8
    assert not [text[:300] for text in texts if any(password in text for password in passwords)]


def test_a_second_stack_in_the_same_folder_is_refused(stack: StackCommand, tmp_path: Path) -> None:
    words = ["-m", "infra.stack", "up", "--free-ports", "--state", str(stack.state)]
    with Running(words, tmp_path, PATHS) as second:
        assert (second.finish(), "another stack already runs in" in second.output()) == (2, True), second.output()


# --- the jobs --------------------------------------------------------------------------------------------------------


def test_a_sweep_stores_its_runs_in_postgresql_and_its_bundle_in_s3(
    stack: StackCommand, champion: dict[str, str], work_folder: Path
) -> None:
    client = stack.mlflow()
    found = client.search_runs([client.get_experiment_by_name("agggen").experiment_id])
    runs = {run.info.run_name: run for run in found}
    assert sorted(runs) == ["swept", *TRIALS]
    assert {run.info.status for run in found} == {"FINISHED"}
    assert all("joint/dev_loss" in runs[name].data.metrics for name in TRIALS)
    trial = runs[TRIALS[0]].info.run_id
    counted = stack.sql("SELECT count(*) FROM metrics WHERE run_uuid = %s AND key = 'joint/dev_loss'", trial)
    assert counted[0][0] >= 1
    bucket, _, prefix = champion["source"].removeprefix("s3://").partition("/")
    assert (bucket, prefix) in {("agggen-models", f"runs/{name}/bundle") for name in TRIALS}
    assert {f"{prefix}/manifest.json", f"{prefix}/weights.safetensors"} <= set(stack.keys(bucket, prefix))
    assert any(trial in key for key in stack.keys("agggen-mlflow"))
    assert not list(work_folder.rglob("mlflow.db"))


def test_the_endpoint_serves_the_champion(stack: StackCommand, champion: dict[str, str], work_folder: Path) -> None:
    port = free_ports(1)[0]
    words = ["-m", "agggen_platform.cli.main", "serve", "models:/agggen@champion", f"http.port={port}", *SMALL]
    with Running(words, work_folder, PATHS | stack.env) as served:
        served.wait_until(lambda: "Ready." in served.output(), "the endpoint")
        answer = httpx.post(f"http://127.0.0.1:{port}/v1/generate", json={"records": RECORDS[:1]}, timeout=120)
        assert answer.status_code == 200, answer.text
        (item,) = answer.json()["answers"]
        assert (item["status"], item["model"]) == ("ok", champion["bundle.fingerprint"])
        served.signal(signal.SIGTERM)
        assert served.finish() == 143, served.output()


# --- doctor ----------------------------------------------------------------------------------------------------------


def doctor(stack: StackCommand, folder: Path, expect: int, **variables: str) -> dict[str, dict[str, Any]]:
    """The findings of `agggen doctor` by ``AREA SUBJECT``."""
    areas = [word for area in ("ray", "mlflow", "storage") for word in ("--only", area)]
    stdout, _ = stack.agggen("doctor", "--json", *areas, STORE, folder=folder, expect=expect, **variables)
    return {f"{finding['area']} {finding['subject']}": finding for finding in json.loads(stdout)["findings"]}


def test_doctor_finds_no_fault_and_leaves_no_files(stack: StackCommand, tmp_path: Path) -> None:
    before = stack.keys("agggen-models")
    findings = doctor(stack, tmp_path, 0)
    subjects = ("ray token", "ray cluster", "ray dashboard", "mlflow tracking", "mlflow registry", "storage objects")
    assert {name: findings[name]["level"] for name in subjects} == dict.fromkeys(subjects, "ok")
    assert stack.keys("agggen-models") == before
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_wrong_secrets(stack: StackCommand, tmp_path: Path) -> None:
    wrong = {"MLFLOW_TRACKING_PASSWORD": "password1234", "AWS_SECRET_ACCESS_KEY": "password1234"}
    findings = doctor(stack, tmp_path, 11, RAY_AUTH_TOKEN="0" * 64, **wrong)
    assert "RAY_AUTH_TOKEN_PATH" in findings["ray cluster"]["remedy"]
    assert "MLFLOW_TRACKING_PASSWORD" in findings["mlflow tracking"]["remedy"]
    assert "AWS_SECRET_ACCESS_KEY" in findings["storage put"]["remedy"]


# --- faults ----------------------------------------------------------------------------------------------------------


FETCH = """
import sys
from agggen_platform.registry import resolve
from agggen_platform.storage.bundles import get_bundle
print(get_bundle(resolve("models:/agggen@champion")).name)
sys.exit(7)
"""


def test_a_killed_stack_keeps_its_data_over_a_restart(
    stack: StackCommand, champion: dict[str, str], state: Path, work_folder: Path
) -> None:
    """Must be the last test. After the supervisor is killed, the servers end, and `run` starts in the same folder."""
    stack.running.signal(signal.SIGKILL)
    stack.running.process.wait(60)
    stack.wait_until_gone()
    words = ["-m", "infra.stack", "run", "--state", str(state), "--free-ports", "--", sys.executable, "-c", FETCH]
    env = PATHS | {"AGGGEN_CACHE": str(work_folder / "cache"), "AWS_PROFILE": "nobody"}
    with Running(words, work_folder, env) as restarted:
        assert restarted.finish() == 7, restarted.output()
    assert champion["bundle.fingerprint"] in restarted.output()
    assert "mlflow has ended" in restarted.output()
