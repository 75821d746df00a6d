"""Secrets of the environment, of URLs and of requests are in no file and in no message.

`test_ray.py` checks Ray's job metadata and the arguments of processes.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from agggen_platform.cli.main import main
from tests.processes import Running, free_ports
from tests.s3_faults import FaultyS3
from tests.serve_app import RECORDS, serving
from tests.unit.serve.http_calls import issue

TINY = [
    *("corpus.limit=40", "training.threads=1", "training.baseline.epochs=1", "training.joint.epochs=1"),
    *("model.width=16", "model.heads=2", "model.layers=1", "model.feed_forward=16", "model.predicate_dim=8"),
    *("training.baseline.warmup=1", "training.joint.warmup=1", "tracking.system_seconds=0.05", "tracking.samples=1"),
    *("inference.beam.beam=1", "inference.beam.max_fact_tokens=12", "tracking.patience_seconds=2"),
]
SECRET_MARK = "unspeakable"
"""A word that only the secrets of these tests contain."""
SECRETS = {
    name: f"{SECRET_MARK}-{name.lower().replace('_', '-')}"
    for name in (
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "MLFLOW_TRACKING_PASSWORD"),
        *("RAY_AUTH_TOKEN", "AGGGEN_API_KEY", "PGPASSWORD", "HF_TOKEN", "GITHUB_TOKEN"),
    )
}

Call = Callable[..., str]
"""Runs a command; returns its output, which must contain no secret."""


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ann")
    monkeypatch.setenv("AGGGEN_DEBUG", "1")  # prints tracebacks


@pytest.fixture
def call(
    secrets: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Call]:
    monkeypatch.chdir(tmp_path)

    def run(*words: object, code: int = 0) -> str:
        monkeypatch.setattr("sys.argv", ["agggen", *map(str, words)])  # run logs store this command
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        output = captured.out + captured.err
        assert ended.value.code == code, output
        assert SECRET_MARK not in output
        return output

    with caplog.at_level(logging.DEBUG):
        yield run
    assert SECRET_MARK not in caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]  # databases and images included
    assert [path for path in files if SECRET_MARK.encode() in path.read_bytes()] == []


def test_no_secret_is_in_the_files_of_a_run_and_its_model(call: Call, tmp_path: Path) -> None:
    """Run log, MLflow's database and artifacts, bundle, report."""
    call("train", "elements", *TINY, "--name", "tiny")
    bundle = "runs/tiny/bundle"
    call("evaluate", bundle, "--corpus", "elements", "--limit", "4", "--metrics", "bleu", "-o", "report")
    call("models", "register", bundle)
    call("models", "record", "agggen/1", "report")
    call("models", "promote", "agggen/1")
    call("models", "show", "agggen@champion")
    call("runs", "list")
    call("inspect", bundle)
    assert (tmp_path / "runs" / "mlflow.db").stat().st_size > 0
    assert (tmp_path / "runs" / "tiny" / "tracking.jsonl").stat().st_size > 0

    (port,) = free_ports(1)
    uri = f"http://ann:{SECRET_MARK}-in-the-address@127.0.0.1:{port}"
    call("runs", "sync", "tiny", "--uri", uri, "--patience", "1", code=6)
    call("models", "list", "--registry", uri, code=8)


def test_no_secret_is_shown_when_a_server_is_down(call: Call, tmp_path: Path) -> None:
    """The server's URL, with a password, is in configuration, run log, messages and logged command."""
    (port,) = free_ports(1)
    uri = f"http://ann:{SECRET_MARK}-in-the-address@127.0.0.1:{port}/?token={SECRET_MARK}-in-the-query"
    output = call("train", "elements", *TINY, "--name", "tiny", f"tracking.uri={uri}")
    assert "agggen runs sync" in output
    assert f"127.0.0.1:{port}" in (tmp_path / "runs" / "tiny" / "tracking.jsonl").read_text()
    call("runs", "sync", "--patience", "1", code=6)


@pytest.mark.parametrize(
    "command",
    [
        "generate s3://bucket/bundle",
        "bulk s3://bucket/bundle s3://bucket/in --out s3://bucket/out actors=0",
        f"train elements {' '.join(TINY)} --name x storage.url=s3://bucket/runs",
        "segment s3://bucket/in --out out actors=0",
    ],
    ids=lambda command: command.split()[0],
)
def test_no_secret_is_shown_when_a_store_refuses(
    call: Call, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, SECRETS[name])
    faulty_s3.inject("403", times=1000)
    output = call(*command.split(), code=5)
    assert "refuses these credentials" in output


FAILING_PROGRAM = f"""
import os, sys
from agggen_platform.cli import console, main
def fault(*_):
    key = os.environ["AWS_SECRET_ACCESS_KEY"]
    raise ZeroDivisionError(f"http://ann:{SECRET_MARK}-in-the-address@h/x failed after {{len(key)}} letters")
console.echo = fault
main.main(["serve-key", "ann"])
"""


def test_an_unexpected_error_shows_neither_values_nor_passwords(secrets: None, tmp_path: Path) -> None:
    """The traceback has code locations and a message, but no passwords and, unlike Typer's, no variables."""
    with Running(["-c", FAILING_PROGRAM], tmp_path) as process:
        assert process.finish() == 1
        output = process.output()
    assert "ZeroDivisionError: http://***@h/x failed after" in output
    assert SECRET_MARK not in output


@pytest.mark.slow
@pytest.mark.usefixtures("ray_cluster")
def test_a_key_is_in_no_log_of_serve(bundle: Path, tmp_path: Path) -> None:
    """Through Serve's proxy."""
    alice, wrong = issue(tmp_path / "keys.txt", "alice"), "agk_a-key-that-was-never-given"
    with (
        serving(bundle, f"security.keys_file={tmp_path / 'keys.txt'}") as endpoint,
        httpx.Client(base_url=endpoint.url, timeout=60, trust_env=False) as client,
    ):

        def status(key: str | None, path: str = "/v1/generate") -> int:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            return client.post(path, json={"records": RECORDS[:1]}, headers=headers).status_code

        assert (status(alice), status(wrong), status(None), status(alice, "/v1/nowhere")) == (200, 401, 401, 404)
        assert client.get("/v1/model").status_code == 401
        arguments = [word for child in psutil.Process().children(recursive=True) for word in child.cmdline()]
        logs = next(Path(word.partition("=")[2]) for word in arguments if "session_dir=" in word) / "logs"
        files = {path: path.read_text(errors="replace") for path in logs.rglob("*") if path.is_file()}
    assert any("/v1/generate" in text for text in files.values()), "the logs lack these requests"
    assert [path for path, text in files.items() if alice in text or wrong in text] == []
