"""The start script of MLflow's image: where secrets go, and what it refuses. The server itself is not started."""

from __future__ import annotations

import importlib.util
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

START = Path(__file__).parents[2] / "infra" / "mlflow" / "start.py"
HOSTS = ["--allowed-hosts", "localhost:5000"]
SECRETS = {
    "username": "admin",
    "password": "a%long$password",
    "session_key": "of-the-forms",
    "database_password": "with:colon\\and-slash",
}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def start() -> ModuleType:
    return load(START)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name, value in SECRETS.items():
        (secrets / name).write_text(f"{value}\n")
    return {
        "AGGGEN_MLFLOW_SECRETS": str(secrets),
        "MLFLOW_BACKEND_STORE_URI": "postgresql://mlflow@postgres:5432/mlflow",
        "MLFLOW_ARTIFACTS_DESTINATION": "s3://agggen-mlflow",
        "PATH": "/nowhere",
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    return tmp_path / "made"


def test_the_server_asks_for_accounts_and_knows_its_hosts(start: ModuleType, env: dict[str, str], folder: Path) -> None:
    command, given = start.prepare([*HOSTS, "--port", "5000"], env, folder)
    line = " ".join(command)
    assert line.startswith("mlflow server --app-name basic-auth --workers 1 --serve-artifacts")
    assert line.endswith("--allowed-hosts localhost:5000 --port 5000")
    assert given["MLFLOW_BACKEND_STORE_URI"] == "postgresql+psycopg2://mlflow@postgres:5432/mlflow"
    assert given["PATH"] == "/nowhere" and given["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"


def test_mlflow_reads_the_accounts_that_were_meant(
    start: ModuleType, env: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, given = start.prepare(HOSTS, env, folder)
    monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", given["MLFLOW_AUTH_CONFIG_PATH"])
    package = importlib.util.find_spec("mlflow")
    assert package and package.submodule_search_locations
    # The file alone: its package imports the whole server.
    reader = load(Path(package.submodule_search_locations[0]) / "server" / "auth" / "config.py")
    config = reader.read_auth_config()
    assert (config.admin_username, config.admin_password) == (SECRETS["username"], SECRETS["password"])
    assert config.database_uri == "postgresql+psycopg2://mlflow@postgres:5432/mlflow_auth"
    assert config.default_permission == "READ"


def test_secrets_are_in_files_of_one_user_and_nowhere_else(
    start: ModuleType, env: dict[str, str], folder: Path
) -> None:
    command, given = start.prepare(HOSTS, env, folder)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    open_to_see = " ".join([*command, *(value for name, value in given.items() if "SECRET_KEY" not in name)])
    assert not [name for name in ("password", "session_key", "database_password") if SECRETS[name] in open_to_see]
    assert Path(given["PGPASSFILE"]).read_text() == "*:*:*:mlflow:with\\:colon\\\\and-slash\n"


def test_a_database_in_a_file_needs_no_password(start: ModuleType, env: dict[str, str], folder: Path) -> None:
    (Path(env["AGGGEN_MLFLOW_SECRETS"]) / "database_password").unlink()
    _, given = start.prepare(HOSTS, env | {"MLFLOW_BACKEND_STORE_URI": "sqlite:////tmp/mlflow.db"}, folder)
    assert "PGPASSFILE" not in given
    assert "sqlite:////tmp/mlflow.db_auth" in (folder / "basic_auth.ini").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--allowed-hosts is missing"),
        (["--allowed-hosts", "*"], "would let any web page in"),
        (["--allowed-hosts=localhost,*"], "would let any web page in"),
        ([*HOSTS, "--workers", "4"], "--workers is decided here"),
        ([*HOSTS, "--app-name=other"], "--app-name is decided here"),
        ([*HOSTS, "--disable-security-middleware"], "--disable-security-middleware is decided here"),
    ],
)
def test_options_that_would_open_it_are_refused(
    start: ModuleType, env: dict[str, str], folder: Path, arguments: list[str], said: str
) -> None:
    with pytest.raises(start.StartError, match=said.replace("*", r"\*")):
        start.prepare(arguments, env, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MLFLOW_BACKEND_STORE_URI", "", "MLFLOW_BACKEND_STORE_URI is not set"),
        ("MLFLOW_BACKEND_STORE_URI", "postgresql://mlflow:x@postgres/mlflow", "holds a password"),
        ("MLFLOW_ARTIFACTS_DESTINATION", "", "MLFLOW_ARTIFACTS_DESTINATION is not set"),
    ],
)
def test_a_setting_that_is_wrong_is_named(
    start: ModuleType, env: dict[str, str], folder: Path, name: str, value: str, said: str
) -> None:
    with pytest.raises(start.StartError, match=said):
        start.prepare(HOSTS, env | {name: value}, folder)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read"), ("", "one line"), ("a\nb", "one line")])
def test_a_secret_that_is_missing_or_wrong_is_named_and_not_shown(
    env: dict[str, str], name: str, content: str | None, said: str
) -> None:
    path = Path(env["AGGGEN_MLFLOW_SECRETS"]) / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    done = subprocess.run([sys.executable, "-I", str(START), *HOSTS], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and f"the secret {path}" in done.stderr and said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_short_password_is_refused(start: ModuleType, env: dict[str, str], folder: Path) -> None:
    (Path(env["AGGGEN_MLFLOW_SECRETS"]) / "password").write_text("short")
    with pytest.raises(start.StartError, match="shorter than 12"):
        start.prepare(HOSTS, env, folder)


def test_what_the_image_installs_is_pinned() -> None:
    constraints = (START.parents[2] / "constraints.txt").read_text().lower()
    names = [
        line.split("#")[0].strip().lower() for line in (START.parent / "requirements.txt").read_text().splitlines()
    ]
    assert len(names) == 5
    assert [name for name in names if name and f"\n{name}==" not in constraints] == []
