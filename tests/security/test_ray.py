"""A Ray head with a token, as in the README: no job starts without it, and no secret is exposed."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.ray_head import Head

pytestmark = pytest.mark.slow

SECRET_MARK = "unspeakable"
SECRETS = {
    name: f"{SECRET_MARK}-{name.lower().replace('_', '-')}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_PASSWORD", "AGGGEN_API_KEY")
}


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A head whose environment, which jobs inherit, contains secrets, as in a pod."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        yield Head(tmp_path_factory.mktemp("head"), stack)


def request(head: Head, method: str, path: str, token: str | None, body: Any = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.request(method, head.address + path, headers=headers, json=body, timeout=60, trust_env=False)


def jobs(head: Head) -> list[dict[str, Any]]:
    answer = request(head, "GET", "/api/jobs/", head.token)
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("token", [None, "0"], ids=["anonymous", "wrong token"])
def test_no_job_starts_without_the_token(head: Head, tmp_path: Path, token: str | None) -> None:
    """ShadowRay (CVE-2023-48022): this request ran any command on reachable clusters."""
    before, canary = len(jobs(head)), tmp_path / "canary"
    answer = request(head, "POST", "/api/jobs/", token, {"entrypoint": f"touch {canary}"})
    assert answer.status_code in (401, 403)
    assert len(jobs(head)) == before
    assert not canary.exists()


def test_secrets_of_the_environment_are_in_no_metadata_log_or_argument(head: Head, tmp_path: Path) -> None:
    """The job fails, so that error messages are checked, too."""
    output = head.submit("segment", "s3://nowhere/in", "--out", tmp_path / "out", expect=5)
    (job,) = [job for job in jobs(head) if "jobs/segment.py" in job["entrypoint"]]
    assert job["runtime_env"]["env_vars"] == {"PYTHONPATH": "platform"}
    logs = request(head, "GET", f"/api/jobs/{job['submission_id']}/logs", head.token).text
    actors = request(head, "GET", "/api/v0/actors?detail=1", head.token).text
    processes = psutil.Process(head.running.process.pid).children(recursive=True)
    words = {process.pid: process.cmdline() for process in processes if process.is_running()}
    session = next(Path(word.partition("=")[2]) for line in words.values() for word in line if "session_dir=" in word)
    files = {str(path): path.read_text(errors="replace") for path in (session / "logs").rglob("*") if path.is_file()}
    assert len(words) > 4 and len(files) > 10
    texts = files | {f"arguments of {pid}": " ".join(line) for pid, line in words.items()}
    texts |= {"output": output, "job": json.dumps(job), "logs": logs, "actors": actors, "head": head.running.output()}
    assert [origin for origin, text in texts.items() if head.token in text or SECRET_MARK in text] == []
