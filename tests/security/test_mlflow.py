"""The MLflow server as it is deployed (``infra/mlflow/start.py``): accounts, names of hosts, web pages, secrets.

On SQLite and a folder instead of PostgreSQL and S3, which are no matter here; `test_stack.py` has it on those.
"""

from __future__ import annotations

import http.client
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from tests.processes import Running, free_ports
from tests.unit.test_house import REPO

pytest.importorskip("flask_wtf", reason="MLflow's accounts need Flask-WTF: pip install -e '.[dev]'")

pytestmark = pytest.mark.slow

PASSWORD, SESSION = "unspeakable-password", "unspeakable-session-key"


@dataclass
class Server:
    running: Running
    port: int
    scratch: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def status(self, path: str, headers: dict[str, str] | None = None, method: str = "GET", **options: object) -> int:
        known = {"timeout": 60, "trust_env": False} | options
        return httpx.request(method, f"{self.url}{path}", headers=headers, **known).status_code  # type: ignore[arg-type]

    def is_up(self) -> bool:
        try:
            return self.status("/health") == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, (port,) = tmp_path_factory.mktemp("mlflow"), free_ports(1)
    given, scratch = folder / "secrets", folder / "scratch"
    given.mkdir()
    scratch.mkdir()
    for name, value in {"username": "admin", "password": PASSWORD, "session_key": SESSION}.items():
        (given / name).write_text(value)
    env = {
        "AGGGEN_MLFLOW_SECRETS": str(given),
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_ARTIFACTS_DESTINATION": str(folder / "artifacts"),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "TMPDIR": str(scratch),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    start = [str(REPO / "infra" / "mlflow" / "start.py"), "--host", "127.0.0.1", "--port", str(port)]
    with Running([*start, "--allowed-hosts", f"127.0.0.1:{port},agggen-mlflow:5000"], folder, env) as running:
        found = Server(running, port, scratch)
        running.wait_until(found.is_up, "answer of MLflow")
        yield found


KNOWN = {"auth": ("admin", PASSWORD)}
SEARCH = "/api/2.0/mlflow/experiments/search?max_results=1"
ADDRESSES = [
    ("GET", "/"),
    ("GET", SEARCH),
    ("POST", "/api/2.0/mlflow/runs/create"),
    ("POST", "/api/2.0/mlflow/registered-models/alias"),
    ("GET", "/api/2.0/mlflow-artifacts/artifacts"),
    ("PUT", "/api/2.0/mlflow-artifacts/artifacts/x"),
    ("GET", "/get-artifact?path=x&run_uuid=x"),
    ("POST", "/graphql"),
    ("POST", "/api/2.0/mlflow/users/create"),
    ("GET", "/metrics"),
]


@pytest.mark.parametrize(("method", "path"), ADDRESSES, ids=lambda value: value)
def test_an_address_asks_for_an_account(server: Server, method: str, path: str) -> None:
    assert server.status(path, method=method, **({"json": {}} if method == "POST" else {})) in (401, 404)


def test_who_has_an_account_gets_in(server: Server) -> None:
    assert server.status(SEARCH, **KNOWN) == 200
    for wrong in (("admin", "password1234"), ("admin", ""), ("", PASSWORD), ("nobody", PASSWORD)):
        assert server.status(SEARCH, auth=wrong) == 401
    # MLflow 3.17 breaks over a header that is not of Basic authentication: 500, and nobody is in.
    assert server.status(SEARCH, {"Authorization": f"Bearer {PASSWORD}"}) in (401, 500)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:5000", "127.0.0.1.evil.example", "localhost", ""])
def test_it_answers_to_its_own_names_only(server: Server, host: str) -> None:
    """DNS rebinding: a page whose name was made to lead here sends that name, and whatever the browser has."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest("GET", SEARCH, skip_host=True)
    connection.putheader("Host", host)
    connection.putheader("Authorization", httpx.BasicAuth("admin", PASSWORD)._auth_header)
    connection.endheaders()
    assert connection.getresponse().status in (400, 403)
    connection.close()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://localhost.evil.example"])
def test_other_sites_change_nothing(server: Server, origin: str) -> None:
    """Pages of localhost are no other site to MLflow, whatever their port."""
    path = "/api/2.0/mlflow/experiments/create"
    answer = httpx.post(
        f"{server.url}{path}", json={"name": origin}, headers={"Origin": origin}, timeout=60, trust_env=False, **KNOWN
    )
    assert answer.status_code == 403, answer.text
    assert "access-control-allow-origin" not in answer.headers
    names = httpx.get(f"{server.url}{SEARCH.replace('=1', '=99')}", timeout=60, trust_env=False, **KNOWN).text
    assert origin not in names


def test_secrets_are_in_files_of_its_user_alone(server: Server) -> None:
    family = [psutil.Process(server.running.process.pid), *server.running.children()]
    for text in (server.running.output(), *(" ".join(process.cmdline()) for process in family)):
        assert "unspeakable" not in text
    files = [path for path in server.scratch.rglob("*") if path.is_file()]
    assert [path.name for path in files if PASSWORD in path.read_text(errors="replace")] == ["basic_auth.ini"]
    for path in (*files, *{path.parent for path in files}):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
