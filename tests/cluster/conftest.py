"""Fixtures of the container cluster; its tests are skipped where containers cannot run."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from infra.servers import rclone
from infra.supervisor import StackError
from tests.cluster.containers import IMAGE, LIMITS, Cluster, podman


@pytest.fixture(scope="session")
def container_engine() -> None:
    """Skips the test if no container of the image can run."""
    if shutil.which("podman") is None or os.geteuid():
        pytest.skip("no cluster of containers: podman and root are needed")
    completed = podman("run", "--rm", *LIMITS, IMAGE, "true", check=False)
    if completed.returncode:
        pytest.skip(f"no container of {IMAGE} runs (make test-cluster builds it): {completed.stderr.strip()[-300:]}")


@pytest.fixture(scope="session")
def shared(container_engine: None) -> Iterator[Cluster]:
    """A cluster for all tests; the nodes' user can read its folder, unlike pytest's folders."""
    try:
        s3_server = Path(rclone())
    except StackError as error:
        pytest.skip(str(error))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="cluster-", dir="/var/tmp")))
        folder.chmod(0o755)
        yield Cluster(folder, s3_server, stack)


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The shared cluster, with two workers."""
    shared.restore_workers()
    return shared
