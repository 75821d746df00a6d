"""``ray job submit`` of every job, as jobs/README.md has it, against a running head whose token is on."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agggen.bundle import check_bundle, fingerprint
from agggen.corpora.catalogue import prepare
from agggen.corpora.prepared import read_records
from tests.processes import Running, free_ports

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
RUNTIME_ENV = json.dumps({"env_vars": {"PYTHONPATH": "platform"}})
TINY = [
    *("corpus.limit=60", "training.threads=1", "training.baseline.epochs=1", "training.joint.epochs=1"),
    *("model.width=16", "model.heads=2", "model.layers=1", "model.feed_forward=16", "model.predicate_dim=8"),
    *("training.baseline.warmup=1", "training.joint.warmup=1", "tracking.system_seconds=0", "tracking.samples=1"),
    *("inference.beam.beam=1", "inference.beam.max_fact_tokens=12"),
]


class Head:
    """A Ray head of its own ports and token, and what is submitted to it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        token = folder / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        gcs, dashboard, client, agent = free_ports(4)
        self.address = f"http://127.0.0.1:{dashboard}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ADDRESS": "",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }
        # Every port is chosen: the usual ones may be another cluster's, and jobs wait for the agent's without a word.
        command = (
            f"-m ray.scripts.scripts start --head --block --num-cpus 4 --num-gpus 0 "
            f"--port {gcs} --dashboard-port {dashboard} "
            f"--ray-client-server-port {client} --dashboard-agent-listen-port {agent} "
            f"--object-store-memory {256 << 20} --dashboard-host 127.0.0.1"
        )
        self.running = stack.enter_context(Running(command.split(), folder, self.env))
        self.running.wait_until(lambda: self.status(token.read_text()) == 200, "an answer of the jobs API", 120)
        self.running.wait_until(lambda: _listens(agent), "an agent that starts jobs", 120)

    def status(self, token: str | None) -> int | None:
        """What the jobs API says to somebody with this token; None while nobody answers."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            request = urllib.request.Request(f"{self.address}/api/jobs/", headers=headers)
            with urllib.request.urlopen(request, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def submit(self, job: str, *arguments: str | Path, expect: int = 0) -> str:
        """The job's output, by the command of jobs/README.md; `expect` is the exit status of the job itself."""
        command = [str(BIN / "ray"), "job", "submit", "--address", self.address, "--working-dir", "."]
        command += ["--runtime-env-json", RUNTIME_ENV, "--", "python", f"jobs/{job}.py", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=400)
        said = done.stdout + done.stderr
        assert done.returncode == (expect != 0), said  # 1 whatever the job's is, but it says which
        if expect:
            assert f"Job entrypoint command failed with exit code {expect}," in said
        return said


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(tmp_path_factory.mktemp("head"), stack)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs that all jobs share."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def bundle(head: Head, runs: Path) -> Path:
    """What ``jobs/train.py`` wrote with one worker of Ray Train."""
    said = head.submit("train", "elements", *TINY, "cluster.workers=1", "--runs", runs, "--name", "submitted")
    path = runs / "submitted" / "bundle"
    assert str(path) in said
    return path


def test_the_jobs_api_refuses_those_without_the_token(head: Head) -> None:
    assert head.status(None) == 401
    assert head.status(secrets.token_hex(32)) in (401, 403)


def test_segment(head: Head, tmp_path: Path) -> None:
    prepare("elements", tmp_path / "corpus", splits=["dev"])
    head.submit("segment", tmp_path / "corpus", "--out", tmp_path / "facts", "--runs", tmp_path / "runs")
    wanted = [record.id for record in read_records(tmp_path / "corpus" / "dev.parquet")]
    assert [record.id for record in read_records(tmp_path / "facts" / "dev.parquet")] == wanted


def test_train(bundle: Path) -> None:
    check_bundle(bundle)


def test_a_job_that_cannot_start_fails_with_its_reason(head: Head, runs: Path) -> None:
    said = head.submit("train", "elements", "cluster.workers=1", "cluster.gpus_per_worker=1", "--runs", runs, expect=6)
    assert "GPU" in said
    assert "Traceback" not in said


def test_evaluate(head: Head, bundle: Path, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "evaluation"
    head.submit("evaluate", bundle, "--corpus", "elements", "--split", "dev", "--limit", "20", "-o", out)
    report = json.loads((out / "report.json").read_text())
    assert report["identity"]["bundle"] == fingerprint(bundle)
    assert report["run"]["command"].startswith("python jobs/evaluate.py ")


def test_generate(head: Head, bundle: Path, tmp_path: Path) -> None:
    prepare("elements", tmp_path / "corpus", splits=["dev"])
    out = tmp_path / "texts"
    head.submit(
        "generate",
        bundle,
        tmp_path / "corpus",
        "--out",
        out,
        "--runs",
        tmp_path / "runs",
        "--single-file",
        "format=jsonl",
    )
    texts = [json.loads(line) for line in (out / "texts.jsonl").read_text().splitlines()]
    assert [text["id"] for text in texts] == [one.id for one in read_records(tmp_path / "corpus" / "dev.parquet")]
    assert {text["bundle"] for text in texts} == {fingerprint(bundle)}


def test_sweep_and_promotion_of_its_best(head: Head, runs: Path, tmp_path: Path) -> None:
    space = tmp_path / "tiny.yaml"
    space.write_text("trials: 2\nconcurrent: 1\nspace:\n  model.predicate_dim: {choice: [4, 8]}\n")
    settings = [each for each in TINY if "predicate_dim" not in each]
    said = head.submit("sweep", "elements", *settings, "--space", space, "--runs", runs)
    assert "alias candidate" in said
    registry = f"sqlite:///{runs / 'mlflow.db'}"
    said = head.submit("promote", "agggen@candidate", "--registry", registry)
    assert "models:/agggen@champion is version 1" in said
    assert "nothing to go back to" in head.submit("promote", "--rollback", "agggen", "--registry", registry, expect=8)
