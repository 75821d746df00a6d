"""The MLflow server as deployed (``infra/mlflow/start.py``), on SQLite: accounts, host names, secrets."""

import http.client
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.processes import Running, free_ports
from tests.unit.test_layout import REPO

pytest.importorskip("flask_wtf", reason="MLflow's accounts need Flask-WTF: pip install -e '.[dev]'")

pytestmark = pytest.mark.slow

PASSWORD, SESSION = "unspeakable-password", "unspeakable-session-key"


@dataclass
class Server:
    running: Running
    port: int
    scratch: Path

    def status(self, path: str, method: str = "GET", **options: Any) -> int:
        """The status of a response; 0 without a response."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            return httpx.request(method, url, timeout=60, trust_env=False, **options).status_code
        except httpx.HTTPError:
            return 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, (port,) = tmp_path_factory.mktemp("mlflow"), free_ports(1)
    secrets, scratch = folder / "secrets", folder / "scratch"
    for path in (secrets, scratch):
        path.mkdir()
    for name, value in {"username": "admin", "password": PASSWORD, "session_key": SESSION}.items():
        (secrets / name).write_text(value)
    env = {
        "AGGGEN_MLFLOW_SECRETS": str(secrets),
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_ARTIFACTS_DESTINATION": str(folder / "artifacts"),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "TMPDIR": str(scratch),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    start = [str(REPO / "infra" / "mlflow" / "start.py"), "--host", "127.0.0.1", "--port", str(port)]
    with Running([*start, "--allowed-hosts", f"127.0.0.1:{port},agggen-mlflow:5000"], folder, env) as running:
        server = Server(running, port, scratch)
        running.wait_until(lambda: server.status("/health") == 200, "answer of MLflow")
        yield server


SEARCH = "/api/2.0/mlflow/experiments/search?max_results=1"


def test_mlflow_requires_an_account_and_its_password(server: Server) -> None:
    assert server.status("/") in (401, 404)
    assert server.status("/api/2.0/mlflow/runs/create", "POST", json={}) in (401, 404)
    assert server.status("/api/2.0/mlflow-artifacts/artifacts/x", "PUT") in (401, 404)
    for wrong in (("admin", "password1234"), ("admin", ""), ("", PASSWORD), ("nobody", PASSWORD)):
        assert server.status(SEARCH, auth=wrong) == 401
    assert server.status(SEARCH, auth=("admin", PASSWORD)) == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:5000", "127.0.0.1.evil.example", "localhost", ""])
def test_mlflow_accepts_only_its_own_host_names(server: Server, host: str) -> None:
    """DNS rebinding: a web page whose name resolves to this server sends that name with the browser's credentials."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest("GET", SEARCH, skip_host=True)
    connection.putheader("Host", host)
    connection.putheader("Authorization", httpx.BasicAuth("admin", PASSWORD)._auth_header)
    connection.endheaders()
    assert connection.getresponse().status in (400, 403)
    connection.close()


def test_secrets_are_only_in_files_of_mlflows_user(server: Server) -> None:
    processes = [psutil.Process(server.running.process.pid), *server.running.children()]
    for text in (server.running.output(), *(" ".join(process.cmdline()) for process in processes)):
        assert "unspeakable" not in text
    files = [path for path in server.scratch.rglob("*") if path.is_file()]
    assert [path.name for path in files if PASSWORD in path.read_text(errors="replace")] == ["basic_auth.ini"]
    for path in (*files, *{path.parent for path in files}):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
