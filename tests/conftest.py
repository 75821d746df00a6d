"""Fixtures of all tests: real corpora, a local Ray cluster, an S3 server, a bundle."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import settings

from tests.command import Run, command
from tests.file_server import FileServer, http_server
from tests.s3_faults import FaultyS3

if TYPE_CHECKING:
    from agggen_platform.bulk.model import Model

# No deadlines: on a busy machine, examples may take any time.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

# Models of tests are tiny and the cores shared, so several threads would be slower than one. Child processes read the
# variable.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ.pop("MLFLOW_TRACKING_URI", None)  # tests must not log to the user's MLflow server


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder of real corpora; the test is skipped if AGGGEN_DATA_HOME is not set."""
    folder = os.environ.get("AGGGEN_DATA_HOME")
    if not folder:
        pytest.skip("AGGGEN_DATA_HOME is not set: no real corpora here")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"AGGGEN_DATA_HOME={folder} is not a folder")
    return path


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A local Ray cluster for the session, with more logical CPUs than the machine has, so that no task waits."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")
    from agggen_platform.ray_cluster import connected

    with connected(address="local", cpus=8, gpus=0):
        yield


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The `agggen` command in this process and in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    return command(capsys)


@pytest.fixture
def files() -> Iterator[FileServer]:
    files = FileServer()
    with http_server(files.answer) as files.address:
        yield files


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="moto is not installed: pip install -e '.[dev]'")
    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny bundle with random weights, which no test may change."""
    from tests.unit.serve.conftest import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("model") / "bundle")


@pytest.fixture(scope="session")
def model(bundle: Path) -> Model:
    from agggen_platform.bulk.model import open_model

    return open_model(str(bundle))


@pytest.fixture
def s3(_s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty bucket on the session's S3 server, to which the environment points."""
    return new_bucket(_s3_server, monkeypatch)


def new_bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    return f"s3://{bucket}"


@pytest.fixture
def faulty_s3(s3: str, _s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyS3]:
    """A fault-injecting proxy in front of the server of `s3`, to which the environment points from now on."""
    with FaultyS3(_s3_server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy
