"""Errors about missing clusters; undocumented names of Ray, which an upgrade may move. Ray: tests/integration."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from agggen_platform.ray_cluster import ClusterError, check_reachable, connected
from tests.processes import free_ports

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")


@pytest.fixture
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a cluster; returns the file in which Ray stores the address of the last one."""
    if any("gcs_server" in (process.info["name"] or "") for process in psutil.process_iter(["name"])):
        pytest.skip("a Ray cluster runs on this machine, and auto finds it")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray" / "ray_current_cluster"


def test_auto_reads_the_file_in_the_folder_that_ray_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the file was searched in Python's temporary folder, which differs from Ray's on macOS."""
    for name in ("RAY_ADDRESS", "RAY_TMPDIR", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "ray").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{server.getsockname()[1]}")
        with suppress(OSError):  # as for a cluster on this machine
            check_reachable("auto")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # nothing has connected
            server.accept()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("auto", "no Ray cluster answers at auto: "),
        ("auto", "no Ray cluster answers at auto: .*refused"),  # Ray's file has the address of a killed cluster
        ("127.0.0.1:{port}", "no Ray cluster answers at 127.0.0.1:{port}: .*refused"),
        ("ray://127.0.0.1:{port}", "no Ray cluster answers at ray://127.0.0.1:{port}: .*refused"),
        (None, "no Ray cluster answers at RAY_ADDRESS: .*refused"),
    ],
)
def test_an_address_without_a_cluster_is_an_error_within_seconds(
    address: str | None, message: str, no_cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check, Ray retries for more than a minute."""
    (port,) = free_ports(1)
    if address is None:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    elif "refused" in message:
        no_cluster.write_text(f"127.0.0.1:{port}")
    begin = time.monotonic()
    expected = pytest.raises(ClusterError, match=message.format(port=port))
    with expected, connected(address and address.format(port=port)):
        pass
    assert time.monotonic() - begin < 10


def test_a_cluster_that_starts_too_slowly_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Exception("The current node timed out during startup.\nMore of it.")  # what Ray 2.60 raises
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", Mock(side_effect=slow))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with (
        pytest.raises(ClusterError, match=r"does not start: The current node timed out during startup\.$"),
        connected("local"),
    ):
        pass


@pytest.mark.slow
def test_a_local_cluster_has_a_token_of_its_own() -> None:
    code = """
import os
from agggen_platform.ray_cluster import connected
with connected("local", cpus=1) as cluster:
    assert cluster.local
    path = os.environ["RAY_AUTH_TOKEN_PATH"]
    print(os.environ["RAY_AUTH_MODE"], path, os.stat(path).st_mode)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    mode, path, bits = done.stdout.split()
    assert mode == "token"
    assert stat.S_IMODE(int(bits)) == 0o600
    assert not os.path.exists(path)  # deleted at the end of the process


def test_ray_has_the_used_names() -> None:
    from ray.serve._private.client import ServeControllerClient

    from agggen_platform.ray_private import startup_errors

    for name in ("http_config", "deploy_apps", "get_serve_details", "wait_for_proxies_serving"):
        assert hasattr(ServeControllerClient, name), name
    assert all(issubclass(error, Exception) for error in startup_errors())


def test_ray_tune_copies_no_credentials_to_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray import tune
    from ray.tune.execution.class_cache import _ActorClassCache

    from agggen_platform.ray_private import keep_credentials_from_trials

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "RAY_CHDIR_TO_TRIAL_DIR"):
        monkeypatch.setenv(name, "0")
    keep_credentials_from_trials()
    copied = _ActorClassCache().get(tune.Trainable)._default_options["runtime_env"]["env_vars"]
    assert "RAY_CHDIR_TO_TRIAL_DIR" in copied
    assert not [name for name in copied if name.startswith("AWS_")]
