"""A Ray cluster of containers, each with its own address and memory, and an S3 server.

`AGGGEN_CLUSTER_IMAGE` replaces the image that `tests/cluster/image.py` builds.
"""

import ipaddress
import os
import secrets
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.processes import TIMEOUT, until

REPO = Path(__file__).parents[2]
IMAGE = os.environ.get("AGGGEN_CLUSTER_IMAGE", "localhost/agggen:test")
MLFLOW_IMAGE = "localhost/agggen-mlflow:test"
LONG = pytest.mark.skipif("AGGGEN_CLUSTER_ALL" not in os.environ, reason="slow or unsteady: set AGGGEN_CLUSTER_ALL=1")
_STORE = ["--root=/var/lib/agggen-containers", "--runroot=/run/agggen-containers", "--storage-driver=overlay"]
BUILDAH = ["buildah", *_STORE]
PODMAN = ["podman", *_STORE, "--runtime=runc", "--cgroup-manager=cgroupfs"]
LIMITS = ["--ulimit=nofile=16384:16384", "--ulimit=nproc=4000:4000"]
"""podman's defaults may exceed this machine's limits."""
_KEY, _SECRET = "AGTESTKEY", "a-secret_of-tests"
_S3, _HEAD, _REDIS, _MLFLOW = range(200, 204)
"""Indices of their addresses in the subnet; podman assigns low addresses to workers."""


def podman(*arguments: str, check: bool = True, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs podman; with `check`, it must succeed."""
    completed = subprocess.run([*PODMAN, *arguments], capture_output=True, text=True, timeout=seconds)
    assert not check or completed.returncode == 0, f"podman {' '.join(arguments)}: {completed.stdout}{completed.stderr}"
    return completed


def wait_for(job: subprocess.Popen[str], condition: Callable[[], object], event: str, seconds: float = TIMEOUT) -> None:
    """Waits for `condition`; fails if the job ends before."""

    def checked_condition() -> object:
        assert job.poll() is None, f"the job ended ({job.returncode}): {job.communicate()[0]}"
        return condition()

    until(checked_condition, event, seconds)


def output_of(job: subprocess.Popen[str], expect: int = 0) -> str:
    """The output of a job, whose exit status must be `expect`."""
    output = job.communicate(timeout=900)[0]
    assert job.returncode == expect, output
    return output


def make_readable(folder: Path) -> None:
    """Lets the nodes' user read the files below `folder`."""
    subprocess.run(["chmod", "-R", "go+rX", str(folder)], check=True)


def count_nodes(out: Path) -> int:
    """The number of nodes that have started shards of the job with output folder `out`."""
    return len({note.read_bytes() for note in (out / ".work").rglob("begun-*")})


def address_of(name: str) -> str:
    """The IP address of a container; podman's name server may be missing."""
    return podman("inspect", "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name).stdout.strip()


def is_reachable(address: str, host: str = "") -> bool:
    """Whether a request for `address` succeeds; `host`: the Host header, if it differs from the address."""
    try:
        return httpx.get(address, headers={"Host": host} if host else {}, timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False


class Cluster:
    """An S3 server and a Ray head on an internal network; nodes mount `folder` read-only at the same path."""

    def __init__(self, folder: Path, rclone: Path, stack: ExitStack) -> None:
        self._stack, self.folder = stack, folder
        self.name = f"agggen-{uuid.uuid4().hex[:8]}"
        podman("network", "create", "--internal", self.name)
        stack.callback(podman, "network", "rm", "--force", self.name)
        subnet = podman("network", "inspect", "--format={{(index .Subnets 0).Subnet}}", self.name).stdout
        self._net = ipaddress.ip_network(subnet.strip())
        secrets_folder = folder / "secrets"
        for path in (folder, secrets_folder, folder / "s3"):
            path.mkdir(exist_ok=True)
        (secrets_folder / "s3_access_key_id").write_text(_KEY)
        (secrets_folder / "s3_secret_access_key").write_text(_SECRET)
        (secrets_folder / "token").write_text(secrets.token_hex(32))
        subprocess.run(["chown", "-R", "10001:10001", str(folder)], check=True)
        (secrets_folder / "token").chmod(0o600)
        mounts = [f"--volume={rclone}:/usr/local/bin/rclone:ro", f"--volume={REPO}/infra/compose/s3.sh:/s3.sh:ro"]
        mounts += [f"--volume={secrets_folder}:/run/secrets:ro", f"--volume={folder}/s3:/data"]
        self.s3 = self._run("s3", [*mounts, "--memory=512m", *self._fixed_ip(_S3)], "sh", "/s3.sh")
        self.wait_for_store()
        self.bucket = folder / "s3" / "agggen-models"
        self._store = {
            "AWS_ENDPOINT_URL": f"http://{self._ip(_S3)}:9000",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        }
        self.address = f"{self._ip(_HEAD)}:6379"
        self.redis = shutil.which("redis-server")
        if self.redis:  # the program of this machine
            start = [self.redis, "--save", "", "--appendonly", "no", "--protected-mode", "no"]
            options = ["--volume=/usr:/usr:ro", "--entrypoint=", "--memory=256m", *self._fixed_ip(_REDIS)]
            self._run("redis", options, *start)
        self.workers: list[str] = []
        self._was_disconnected: set[str] = set()
        self.mlflow_account: dict[str, str] = {}
        self.start_head()

    def wait_for_store(self) -> None:
        until(lambda: podman("exec", self.s3, "test", "-f", "/tmp/ready", check=False).returncode == 0, "store")

    def restart_head(self, driver: subprocess.Popen[str]) -> None:
        """Kills the head and so `driver`; starts a head with the same address, which restores its state from Redis."""
        if not self.redis:
            pytest.skip("redis-server is not installed")
        podman("rm", "--force", "--time=0", self.head)
        assert driver.wait(60) != 0
        self.start_head()
        self.restore_workers()

    def start_head(self) -> None:
        options = "--head --port=6379 --num-cpus=0 --dashboard-host=127.0.0.1"
        state = [f"--env=RAY_REDIS_ADDRESS={self._ip(_REDIS)}:6379"] if self.redis else []
        self.head = self._node("head", options, "--memory=4g", *self._fixed_ip(_HEAD), *state)

    def start_mlflow(self) -> str:
        """Starts an MLflow server on SQLite; returns its address."""
        secrets_folder, state = self.folder / "mlflow-secrets", self.folder / "mlflow"
        password = secrets.token_hex(16)
        self.mlflow_account = {"MLFLOW_TRACKING_USERNAME": "tests", "MLFLOW_TRACKING_PASSWORD": password}
        for path in (secrets_folder, state):
            path.mkdir()
        for name, value in (("username", "tests"), ("password", password), ("session_key", "key")):
            (secrets_folder / name).write_text(value)
        subprocess.run(["chown", "-R", "10001:10001", str(secrets_folder), str(state)], check=True)
        env = {
            "MLFLOW_BACKEND_STORE_URI": "sqlite:////var/lib/agggen/mlflow.db",
            "MLFLOW_ARTIFACTS_DESTINATION": "s3://agggen-mlflow",
        }
        options = [f"--env={key}={value}" for key, value in (self._store | env).items()]
        options += ["--memory=2g", *self._fixed_ip(_MLFLOW), "--tmpfs=/tmp:mode=1777"]
        options += [f"--volume={secrets_folder}:/run/secrets/mlflow:ro", f"--volume={state}:/var/lib/agggen"]
        address = f"{self._ip(_MLFLOW)}:5000"
        start = ["--host=0.0.0.0", "--port=5000", f"--allowed-hosts={address}"]
        self.mlflow = self._run("mlflow", options, *start, image=MLFLOW_IMAGE)
        until(lambda: is_reachable(f"http://{address}/health"), "answer of MLflow")
        return f"http://{address}"

    def add_worker(self, *options: str) -> str:
        """Starts a node with one CPU; returns its name. `options` of podman override the default ones."""
        name = f"worker-{uuid.uuid4().hex[:4]}"
        self.workers.append(self._node(name, f"--address={self.address} --num-cpus=1", "--memory=3g", *options))
        return self.workers[-1]

    def kill_worker(self, worker: str) -> None:
        podman("kill", "--signal=KILL", worker)
        self.workers.remove(worker)

    def restore_workers(self, workers: int = 2) -> None:
        """Starts or kills workers until there are `workers`; replaces those that were disconnected."""
        running = podman("ps", "--format={{.Names}}").stdout.split()
        self.workers = [name for name in self.workers if name in running]
        for name in (self._was_disconnected & {*self.workers}) | {*self.workers[workers:]}:
            self.kill_worker(name)
        while len(self.workers) < workers:
            self.add_worker()

    @contextmanager
    def disconnected(self, node: str) -> Iterator[None]:
        """Disconnects the node from the network during the block; it keeps its address.

        If Ray has declared the node dead by then, it ends itself up to a minute after it is connected again.
        """
        self._was_disconnected.add(node)
        address = address_of(node)
        podman("network", "disconnect", self.name, node)
        yield
        podman("network", "connect", f"--ip={address}", self.name, node)

    def driver(
        self, *command: str, node: str | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Starts a command on the head, or on `node`; `communicate` returns its output."""
        env = {"RAY_ADDRESS": self.address} | dict(env or {})
        options = [f"--env={key}={value}" for key, value in env.items()]
        with_podman = [*PODMAN, "exec", *options, node or self.head, *command]
        process = subprocess.Popen(with_podman, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._stack.callback(process.kill)
        return process

    def _ip(self, number: int) -> str:
        return str(self._net[number])

    def _fixed_ip(self, number: int) -> list[str]:
        """Options for a fixed IP and MAC address, since other nodes cache the address over restarts."""
        return [f"--ip={self._ip(number)}", f"--mac-address=02:00:00:00:00:{number:x}"]

    def add_container(self, name: str) -> str:
        """Starts a container without Ray, which survives a disconnection; returns its name."""
        return self._run(name, self._common_options(), "sleep", "infinity")

    def _common_options(self) -> list[str]:
        """Options of all containers that run agggen."""
        env = {
            **self._store,
            "MLFLOW_TRACKING_URI": "",
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_TOKEN_PATH": f"{self.folder}/secrets/token",
        }
        options = [f"--env={key}={value}" for key, value in env.items()]
        options += ["--shm-size=300m", "--mount=type=tmpfs,destination=/var/lib/agggen,chown"]
        return [*options, "--tmpfs=/tmp:mode=1777,size=512m", f"--volume={self.folder}:{self.folder}:ro"]

    def _node(self, name: str, options: str, *podman_options: str) -> str:
        start = f"exec ray start {options} --block --node-ip-address=$(hostname -i) --object-store-memory=100000000"
        full_name = self._run(name, [*self._common_options(), *podman_options], "bash", "-c", start)
        until(lambda: "Ray runtime started" in podman("logs", full_name).stdout, f"start of {name}")
        return full_name

    def _run(self, name: str, options: list[str], *command: str, image: str = IMAGE) -> str:
        full_name = f"{self.name}-{name}"
        self._stack.callback(podman, "rm", "--force", "--time=0", full_name, check=False)
        hardening = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=10001:10001", *LIMITS]
        identity = [f"--name={full_name}", f"--hostname={full_name}", f"--network={self.name}"]
        podman("run", "--detach", *identity, *hardening, *options, image, *command)
        return full_name
