"""PostgreSQL, an S3 server and MLflow as processes on one machine, which start and stop together.

    python -m infra.stack [up]               # until Ctrl-C; `source .stack/env` in another shell
    python -m infra.stack run -- COMMAND     # while COMMAND runs; returns its exit status

All servers listen on 127.0.0.1 and require a password. Data, passwords and logs are in one folder (``.stack``) and
survive a restart. If a server dies, all are stopped, since a restart would hide the cause; the same command starts
them again. ``agggen doctor`` checks them.
"""

import argparse
import fcntl
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from infra.servers import client_environment, is_free, servers, write_private
from infra.supervisor import HOST, StackError, Supervisor

PORTS = {"postgres": 15432, "s3": 9000, "mlflow": 5000}
RAY_PORTS = {"ray": 8265, "ray-cluster": 6379, "ray-client": 10001, "ray-agent": 52365}
PASSWORDS = ("postgres", "mlflow_database", "mlflow_admin", "mlflow_session", "s3_key_id", "s3_secret", "ray_token")
OTHER_STORES = ("AWS_PROFILE", "AWS_SESSION_TOKEN")
"""Variables that would override the stack's S3 credentials; the stack and `.stack/env` unset them."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Creates the stack's folder and holds its lock during the block; raises StackError."""
    try:
        # If root starts the stack, PostgreSQL runs as another user, who needs access to a subfolder.
        folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        (folder / "logs").mkdir(mode=0o700, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise StackError(f"{folder} cannot be used ({error.strerror}); choose another with --state", 2) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"another stack already runs in {folder}; choose another folder with --state", 2) from None
        yield


def read_passwords(folder: Path) -> dict[str, str]:
    """The passwords in ``stack.json``, or random ones if the file does not exist."""
    file = folder / "stack.json"
    if not file.exists():
        return {name: secrets.token_hex(24) for name in PASSWORDS}
    passwords: dict[str, str] = json.loads(file.read_text())["secrets"]
    return passwords


def write_environment(path: Path, environment: Mapping[str, str]) -> None:
    """Writes a shell script that exports the variables and unsets OTHER_STORES."""
    lines = [f"unset {' '.join(OTHER_STORES)}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
    write_private(path, "\n".join(lines) + "\n")


def choose_ports(free: bool, ray: bool) -> dict[str, int]:
    """A port for each server: the default ports (raises StackError if one is in use), or unused ports if `free`."""
    ports = PORTS | (RAY_PORTS if ray else {})
    if not free:
        if used := [f"{HOST}:{port} ({name})" for name, port in ports.items() if not is_free(port)]:
            raise StackError(f"ports in use: {', '.join(used)}; --free-ports chooses other ports", 2)
        return ports
    with ExitStack() as contexts:
        sockets = [contexts.enter_context(socket.create_server((HOST, 0))) for _ in ports]
        return {name: listener.getsockname()[1] for name, listener in zip(ports, sockets, strict=True)}


def run(folder: Path, ray: bool, free_ports: bool, command: Sequence[str] | None) -> int:
    """Runs the stack while `command` runs and returns its exit status; without a command, runs until a signal."""
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
                print(f"The stack is ready. In another shell:  source {folder / 'env'}", file=sys.stderr, flush=True)
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
    options.add_argument("--state", type=Path, default=Path(".stack"), help="folder of data, passwords and logs")
    options.add_argument("--ray", action="store_true", help="also start a Ray head with a token")
    options.add_argument("--free-ports", action="store_true", help="use unused ports instead of the default ones")
    actions = parser.add_subparsers(dest="action")
    actions.add_parser("up", parents=[options], help="run until Ctrl-C (the default)")
    actions.add_parser("run", parents=[options], help="run while COMMAND runs").add_argument("command", nargs="+")
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
