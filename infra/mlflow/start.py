"""Starts MLflow's server with accounts, PostgreSQL and S3; secrets are read from files.

    python start.py --host 0.0.0.0 --port 5000 --allowed-hosts 'localhost:*,127.0.0.1:*,agggen-mlflow:*'

The options are those of ``mlflow server``. Required are ``--allowed-hosts`` (the server's host names) and the variables
MLFLOW_BACKEND_STORE_URI (without a password: ``postgresql://mlflow@postgres:5432/mlflow``) and
MLFLOW_ARTIFACTS_DESTINATION (``s3://agggen-mlflow``). AWS_ENDPOINT_URL and AWS_SHARED_CREDENTIALS_FILE name the
store. The folder AGGGEN_MLFLOW_SECRETS (default: /run/secrets/mlflow) contains these files:

    username, password     of the administrator, who is created at the first start; at least 12 characters
    session_key            signs the forms of MLflow's pages
    database_password      the password of PostgreSQL; needed if the database URI has a user and a host

Accounts are in a second existing database, with the name of the first plus ``_auth``.

Secrets are never on a command line and, except for the session key, not in the server's environment: PostgreSQL's
client and MLflow read them from files of mode 0600 in a new private folder.
"""

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import NoReturn
from urllib.parse import urlsplit

SECRETS = "/run/secrets/mlflow"
_FIXED_OPTIONS = (
    "--app-name",
    "--workers",
    "--serve-artifacts",
    "--no-serve-artifacts",
    "--disable-security-middleware",
)
_TEMPLATE = Path(__file__).with_name("basic_auth.ini.template")
_MIN_PASSWORD_LENGTH = 12


class StartError(Exception):
    """The server cannot be started with this configuration."""


def prepare(arguments: Sequence[str], env: Mapping[str, str], folder: Path) -> tuple[list[str], dict[str, str]]:
    """The server's command and environment; writes files with secrets to the private `folder`. Raises StartError."""
    names = [argument.partition("=")[0] for argument in arguments]
    if conflicts := [name for name in names if name in _FIXED_OPTIONS]:
        raise StartError(f"{', '.join(conflicts)} is fixed here: accounts, one worker, proxied artifacts")
    if "--allowed-hosts" not in names:
        raise StartError("--allowed-hosts is missing: the host names of this server, for example 'localhost:*'")
    hosts = [host.strip() for value in _values(arguments, "--allowed-hosts") for host in value.split(",")]
    if any(re.fullmatch(r"[*?]+(:.*)?", host) for host in hosts):
        raise StartError("--allowed-hosts '*' would admit any web page (DNS rebinding): list the host names")
    database = _required(env, "MLFLOW_BACKEND_STORE_URI", "postgresql://mlflow@postgres:5432/mlflow")
    _required(env, "MLFLOW_ARTIFACTS_DESTINATION", "s3://agggen-mlflow")
    address = urlsplit(database)
    if address.password is not None:
        raise StartError("MLFLOW_BACKEND_STORE_URI contains a password; it belongs in the file database_password")
    secrets = Path(env.get("AGGGEN_MLFLOW_SECRETS", SECRETS))
    if address.scheme == "postgresql":  # names the installed driver: SQLAlchemy might choose another
        database = f"postgresql+psycopg2{database.removeprefix('postgresql')}"
    settings = {
        "MLFLOW_BACKEND_STORE_URI": database,
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "basic_auth.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": _secret(secrets, "session_key"),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # agggen uses no server jobs, which cost memory
    }
    password = _secret(secrets, "password")
    if len(password) < _MIN_PASSWORD_LENGTH:
        raise StartError(f"{secrets / 'password'} is shorter than {_MIN_PASSWORD_LENGTH} characters")
    base, separator, query = database.partition("?")
    auth_settings = {
        "database_uri": f"{base}_auth{separator}{query}",
        "username": _secret(secrets, "username"),
        "password": password,
    }
    # `%` starts an interpolation in configparser's files.
    text = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        {name: value.replace("%", "%%") for name, value in auth_settings.items()}
    )
    _write(folder / "basic_auth.ini", text)
    if address.hostname and address.username:
        fields = ("*", "*", "*", address.username, _secret(secrets, "database_password"))
        _write(folder / "pgpass", ":".join(field.replace("\\", r"\\").replace(":", r"\:") for field in fields) + "\n")
        settings["PGPASSFILE"] = str(folder / "pgpass")
    command = ["mlflow", "server", "--app-name", "basic-auth", "--workers", "1", "--serve-artifacts", *arguments]
    return command, {**env, **settings}


def _values(arguments: Sequence[str], option: str) -> list[str]:
    """The values of an option, given as ``option value`` or ``option=value``."""
    separate = [value for word, value in pairwise(arguments) if word == option]
    return separate + [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{option}=")]


def _required(env: Mapping[str, str], name: str, example: str) -> str:
    if not (value := env.get(name)):
        raise StartError(f"{name} is not set; for example {example}")
    return value


def _secret(folder: Path, name: str) -> str:
    path = folder / name
    try:
        value = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise StartError(f"the secret {path} cannot be read: {error.strerror}") from None
    if not value or len(value.splitlines()) != 1:
        raise StartError(f"the secret {path} must be exactly one line of text")
    return value


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def main() -> NoReturn:
    try:
        command, env = prepare(sys.argv[1:], os.environ, Path(tempfile.mkdtemp(prefix="agggen-mlflow-")))
    except StartError as error:
        sys.exit(f"start.py: {error}")
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    main()
