"""A Ray head with a token, as the README starts it: nobody starts jobs without it, and no secret is exposed."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.ray_head import Head

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")

pytestmark = pytest.mark.slow

MARK = "unspeakable"
SECRETS = {
    name: f"{MARK}-{name.lower().replace('_', '-')}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_PASSWORD", "AGGGEN_API_KEY")
}


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """Its environment, and so that of jobs, has secrets, as that of a pod."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        yield Head(tmp_path_factory.mktemp("head"), stack)


@pytest.fixture(scope="module")
def token(head: Head) -> str:
    return Path(head.env["RAY_AUTH_TOKEN_PATH"]).read_text()


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """The file that a job would create if it were started."""
    return tmp_path / "canary"


def ask(head: Head, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> httpx.Response:
    return httpx.request(method, head.address + path, headers=headers, json=body, timeout=60, trust_env=False)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def jobs(head: Head, token: str) -> list[dict[str, Any]]:
    answer = ask(head, "GET", "/api/jobs/", bearer(token))
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer 0"}], ids=["anonymous", "wrong token"])
def test_no_job_starts_without_the_token(head: Head, token: str, canary: Path, headers: dict[str, str]) -> None:
    """ShadowRay (CVE-2023-48022): such a call ran any command on every reachable cluster."""
    before = len(jobs(head, token))
    answer = ask(head, "POST", "/api/jobs/", headers, {"entrypoint": f"touch {canary}"})
    assert answer.status_code in (401, 403)
    assert len(jobs(head, token)) == before
    assert not canary.exists()


def test_secrets_of_the_environment_are_in_no_metadata_log_or_argument(head: Head, token: str, tmp_path: Path) -> None:
    """The job fails, so that there are error messages; its environment has secrets, as that of a pod."""
    output = head.submit("segment", "s3://nowhere/in", "--out", tmp_path / "out", expect=5)
    (job,) = [job for job in jobs(head, token) if "jobs/segment.py" in job["entrypoint"]]
    logs = ask(head, "GET", f"/api/jobs/{job['submission_id']}/logs", bearer(token)).text
    actors = ask(head, "GET", "/api/v0/actors?detail=1", bearer(token)).text
    about = {"output": output, "job": json.dumps(job), "logs": logs, "actors": actors}
    assert job["runtime_env"]["env_vars"] == {"PYTHONPATH": "platform"}
    processes = psutil.Process(head.running.process.pid).children(recursive=True)
    lines = {
        f"arguments of {process.pid}": " ".join(process.cmdline()) for process in processes if process.is_running()
    }
    session = next(
        Path(word.partition("=")[2]) for line in lines.values() for word in line.split() if "session_dir=" in word
    )
    files = {str(path): path.read_text(errors="replace") for path in (session / "logs").rglob("*") if path.is_file()}
    assert len(lines) > 4
    assert len(files) > 10
    files["output of ray start"] = head.running.output()
    for where, text in {**about, **lines, **files}.items():
        assert token not in text, where
        assert MARK not in text, where
