"""A Ray head as README starts one, its token on: who is let in where, what listens, and what it keeps of secrets."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.integration.test_job_submit import Head
from tests.integration.test_serve_command import RAY, listening

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")

pytestmark = pytest.mark.slow

MARK = "unspeakable"
SECRETS = {
    name: f"{MARK}-{name.lower().replace('_', '-')}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_PASSWORD", "AGGGEN_API_KEY")
}


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """Jobs find secrets in its environment, as they do in that of a pod."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        yield Head(tmp_path_factory.mktemp("head"), stack)


@pytest.fixture(scope="module")
def token(head: Head) -> str:
    return Path(head.env["RAY_AUTH_TOKEN_PATH"]).read_text()


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """What a job would make that a stranger got started."""
    return tmp_path / "canary"


def ask(head: Head, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> tuple[int, str]:
    """Status and body; the path goes out as it is, and nothing of a proxy is asked."""
    where = urlsplit(head.address)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=60)
    content = None if body is None else json.dumps(body).encode()
    connection.request(method, path, content, {"Content-Type": "application/json"} | (headers or {}))
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(errors="replace")
    connection.close()
    return found


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def jobs(head: Head, token: str) -> list[dict[str, Any]]:
    status, body = ask(head, "GET", "/api/jobs/", bearer(token))
    assert status == 200
    return json.loads(body)


# --- strangers ----------------------------------------------------------------------------------------------------

ADDRESSES = [
    ("GET", "/api/jobs/"),
    ("POST", "/api/jobs/any/stop"),
    ("DELETE", "/api/jobs/any"),
    ("GET", "/api/v0/actors"),
    ("GET", "/logs/"),
    ("PUT", "/api/packages/gcs/any.zip"),
    ("PUT", "/api/serve/applications/"),
    ("GET", "/static/%2e%2e/api/jobs/"),
    ("GET", "/api/healthz/../jobs/"),
]


@pytest.mark.parametrize(("method", "path"), ADDRESSES, ids=lambda value: value)
def test_an_address_of_jobs_dashboard_and_serve_asks_for_the_token(
    head: Head, token: str, method: str, path: str
) -> None:
    wrong = [
        {},
        bearer(secrets.token_hex(32)),
        bearer(token[:-1]),
        {"Authorization": f"Basic {token}"},
        {"Cookie": "ray-authentication-token=nonsense"},
    ]
    for headers in wrong:
        status, body = ask(head, method, path, headers, {} if method in ("POST", "PUT") else None)
        assert status in (401, 403, 404), (headers, status, body)
        assert (status == 404) <= path.startswith(("//", "/static/")), "what does not exist is no matter"
        assert "job_id" not in body
        assert MARK not in body


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer 0"}], ids=["anonymous", "wrong token"])
def test_nobody_starts_a_job_without_the_token(head: Head, token: str, canary: Path, headers: dict[str, str]) -> None:
    """ShadowRay (CVE-2023-48022): a call like this one ran any command on every cluster in reach."""
    before = len(jobs(head, token))
    status, _ = ask(head, "POST", "/api/jobs/", headers, {"entrypoint": f"touch {canary}"})
    assert status in (401, 403)
    assert len(jobs(head, token)) == before
    assert not canary.exists()


EVIL = "https://evil.example"
BROWSERS = [
    {"Origin": EVIL},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"},
    {"Origin": EVIL, "Content-Type": "text/plain", "Host": "evil.example"},
]


@pytest.mark.parametrize("known", [False, True], ids=["without the token", "with the cookie"])
@pytest.mark.parametrize("headers", BROWSERS, ids=str)
def test_no_web_page_starts_a_job(head: Head, token: str, canary: Path, headers: dict[str, str], known: bool) -> None:
    """CVE-2025-62593: a page open beside a dashboard could, by a simple request or by DNS rebinding."""
    before = len(jobs(head, token))
    cookie = {"Cookie": f"ray-authentication-token={token}"} if known else {}
    for method, path in (("POST", "/api/jobs/"), ("PUT", "/api/serve/applications/"), ("DELETE", "/api/jobs/any")):
        status, _ = ask(head, method, path, headers | cookie, {"entrypoint": f"touch {canary}"})
        assert status == (405 if known else 401), (method, path)
    assert len(jobs(head, token)) == before
    assert not canary.exists()


def test_nobody_is_told_the_token(head: Head, token: str) -> None:
    status, body = ask(head, "POST", "/api/authenticate", {"Authorization": "Bearer nonsense"})
    assert status in (401, 403)
    for path in ("/", "/api/authentication_mode", "/api/healthz"):
        status, body = ask(head, "GET", path)
        assert status in (200, 404)
        assert token not in body
    path = Path(head.env["RAY_AUTH_TOKEN_PATH"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# --- what listens -------------------------------------------------------------------------------------------------

CALLS = [
    "JobInfoGcsService/GetAllJobInfo",
    "NodeInfoGcsService/GetAllNodeInfo",
    "InternalKVGcsService/InternalKVKeys",
    "NodeManagerService/GetNodeStats",
    "ObjectManagerService/Push",
    "CoreWorkerService/PushTask",
    "RayletDriver/Init",
    "ReporterService/GetTraceback",
    "LogService/ListLogs",
    "events.EventAggregatorService/AddEvents",
]


def call(place: str, method: str, token: str | None = None) -> str:
    """How a gRPC server answers an empty question."""
    import grpc

    with grpc.insecure_channel(place, options=[("grpc.enable_http_proxy", 0)]) as channel:
        ask = channel.unary_unary(f"/ray.rpc.{method}")
        try:
            ask(b"", timeout=20, metadata=[("authorization", f"Bearer {token}")] if token else [])
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"


def page(place: str) -> tuple[int, str] | None:
    """What an HTTP server answers to anybody; None where the port speaks something else."""
    try:
        answer = httpx.get(f"http://{place}/metrics", timeout=30, trust_env=False)
    except httpx.HTTPError:
        return None
    return answer.status_code, answer.text


def test_what_other_machines_reach_is_known_and_asks_for_the_token(head: Head, token: str) -> None:
    found = listening(head.running.process.pid, "tcp")
    dashboard = int(head.address.rpartition(":")[2])
    assert ("dashboard", "127.0.0.1", dashboard) in found
    beyond = {
        (process, f"127.0.0.1:{port}" if host in ("0.0.0.0", "::") else f"{host.removeprefix('::ffff:')}:{port}")
        for process, host, port in found
        if host not in ("127.0.0.1", "::1")
    }
    assert {process for process, _ in beyond} >= {"gcs_server", "raylet"}
    refusing = set()
    for process, place in sorted(beyond):
        assert any(process.startswith(name) for name in RAY), f"{process} listens at {place}"
        if (read := page(place)) is not None:
            status, body = read
            refusing |= {process} if status in (401, 403) else set()
            metrics = status == 200 and re.search(r"^# TYPE ", body, re.M)
            assert status in (401, 403) or metrics, f"{process} at {place} says {status} {body[:200]}"
            assert token not in body
            assert MARK not in body
            continue
        for wrong in (None, secrets.token_hex(32)):
            codes = {method: call(place, method, wrong) for method in CALLS}
            assert set(codes.values()) <= {"UNAUTHENTICATED", "UNIMPLEMENTED"}, f"{process} at {place}: {codes}"
            assert "UNAUTHENTICATED" in codes.values(), f"{process} at {place} has none of these: {codes}"
        refusing.add(process)
    # The dashboard and the monitor may have no port but that of their metrics there, which another cluster may hold.
    assert {process for process, _ in beyond} - refusing <= {"dashboard", "monitor"}
    (gcs,) = {place for process, place in beyond if process == "gcs_server" and page(place) is None}
    assert call(gcs, "NodeInfoGcsService/GetAllNodeInfo", token) == "OK", "so the calls above prove something"


# --- secrets ------------------------------------------------------------------------------------------------------


def test_secrets_of_the_environment_are_in_no_metadata_log_or_argument(head: Head, token: str, tmp_path: Path) -> None:
    """A job that fails, so that there are messages; its environment has secrets, as a pod's has."""
    said = head.submit("segment", "s3://nowhere/in", "--out", tmp_path / "out", expect=5)
    (job,) = [one for one in jobs(head, token) if "jobs/segment.py" in one["entrypoint"]]
    logs = ask(head, "GET", f"/api/jobs/{job['submission_id']}/logs", bearer(token))[1]
    actors = ask(head, "GET", "/api/v0/actors?detail=1", bearer(token))[1]
    about = {"said": said, "job": json.dumps(job), "logs": logs, "actors": actors}
    assert job["runtime_env"]["env_vars"] == {"PYTHONPATH": "platform"}
    family = psutil.Process(head.running.process.pid).children(recursive=True)
    lines = {f"arguments of {process.pid}": " ".join(process.cmdline()) for process in family if process.is_running()}
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
