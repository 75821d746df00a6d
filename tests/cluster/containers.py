"""Containers for tests: Ray's nodes, each with an address and memory of its own, and an S3 server beside them.

`AGGGEN_CLUSTER_IMAGE` names another image than the one that `tests/cluster/image.py` builds.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

REPO = Path(__file__).parents[2]
IMAGE = os.environ.get("AGGGEN_CLUSTER_IMAGE", "localhost/agggen:test")
_STORE = ["--root=/var/lib/agggen-containers", "--runroot=/run/agggen-containers", "--storage-driver=overlay"]
BUILDAH = ["buildah", *_STORE]
PODMAN = ["podman", *_STORE, "--runtime=runc", "--cgroup-manager=cgroupfs"]
LIMITS = [
    "--ulimit=nofile=16384:16384",
    "--ulimit=nproc=4000:4000",
]  # podman's own may be more than this machine grants
_KEY, _SECRET = "AGTESTKEY", "a-secret_of-tests"


def podman(*arguments: str, check: bool = True, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """What it printed and its exit status; a failure shows both."""
    done = subprocess.run([*PODMAN, *arguments], capture_output=True, text=True, timeout=seconds)
    assert not check or done.returncode == 0, f"podman {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done


def wait_until(condition: Callable[[], object], what: str, seconds: float = 120) -> None:
    """Returns when `condition` holds; fails when `seconds` pass before."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.3)


def _address_of(name: str) -> str:
    """Its number, so that no test depends on podman's name server."""
    return podman("inspect", "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name).stdout.strip()


class Cluster:
    """An S3 server and a Ray head on a network without a way out; `folder` is mounted at its own path, read-only."""

    def __init__(self, folder: Path, rclone: Path, stack: ExitStack) -> None:
        self._stack, self.folder = stack, folder
        self.name = f"agggen-{uuid.uuid4().hex[:8]}"
        podman("network", "create", "--internal", self.name)
        stack.callback(podman, "network", "rm", "--force", self.name)
        hidden = folder / "secrets"
        for place in (folder, hidden, folder / "s3"):
            place.mkdir(exist_ok=True)
        (hidden / "s3_access_key_id").write_text(_KEY)
        (hidden / "s3_secret_access_key").write_text(_SECRET)
        (hidden / "token").write_text(secrets.token_hex(32))
        subprocess.run(["chown", "-R", "10001:10001", str(folder)], check=True)
        (hidden / "token").chmod(0o600)
        mounts = [f"--volume={rclone}:/usr/local/bin/rclone:ro", f"--volume={REPO}/infra/compose/s3.sh:/s3.sh:ro"]
        mounts += [f"--volume={hidden}:/run/secrets:ro", f"--volume={folder}/s3:/data"]
        self.s3 = self._run("s3", [*mounts, "--memory=512m"], "sh", "/s3.sh")
        wait_until(lambda: podman("exec", self.s3, "test", "-f", "/tmp/ready", check=False).returncode == 0, "store")
        self.bucket = folder / "s3" / "agggen-models"
        self.head = self._node("head", "--head --port=6379 --num-cpus=0 --dashboard-host=127.0.0.1", memory="4g")
        self.address = f"{_address_of(self.head)}:6379"
        wait_until(lambda: self.exec("ray", "status", check=False).returncode == 0, "answer of the head")

    def worker(self, memory: str = "3g") -> str:
        """The name of a new node with one CPU."""
        before = self.nodes()
        name = self._node(f"worker-{uuid.uuid4().hex[:4]}", f"--address={self.address} --num-cpus=1", memory)
        wait_until(lambda: self.nodes() > before, "further node")
        return name

    @contextmanager
    def cut_off(self, node: str) -> Iterator[None]:
        """The node has no network; at the end it has, with the address that it had."""
        address = _address_of(node)
        podman("network", "disconnect", self.name, node)
        yield
        podman("network", "connect", f"--ip={address}", self.name, node)

    def nodes(self) -> int:
        """How many nodes the head counts."""
        code = "import ray; ray.init('auto', log_to_driver=False); print(sum(n['Alive'] for n in ray.nodes()))"
        return int(self.exec("python", "-c", code).stdout.split()[-1])

    def exec(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a command on the head."""
        return podman("exec", self.head, *command, check=check)

    def driver(self, *command: str, node: str | None = None) -> subprocess.Popen[str]:
        """Starts a command on the head, or on `node`; its output is to be read by `communicate`."""
        with_podman = [*PODMAN, "exec", node or self.head, *command]
        process = subprocess.Popen(with_podman, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._stack.callback(process.kill)
        return process

    def _node(self, name: str, options: str, memory: str) -> str:
        env = {
            "AWS_ENDPOINT_URL": f"http://{_address_of(self.s3)}:9000",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
            "MLFLOW_TRACKING_URI": "",
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_TOKEN_PATH": f"{self.folder}/secrets/token",
        }
        options_of_podman = [f"--env={key}={value}" for key, value in env.items()]
        options_of_podman += [f"--memory={memory}", "--shm-size=300m", "--tmpfs=/tmp:mode=1777"]
        options_of_podman += [
            "--mount=type=tmpfs,destination=/var/lib/agggen,chown",
            f"--volume={self.folder}:{self.folder}:ro",
        ]
        start = f"exec ray start {options} --block --node-ip-address=$(hostname -i) --object-store-memory=100000000"
        return self._run(name, options_of_podman, "bash", "-c", start)

    def _run(self, name: str, options: list[str], *command: str) -> str:
        full = f"{self.name}-{name}"
        self._stack.callback(podman, "rm", "--force", "--time=0", full, check=False)
        locked = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=10001:10001", *LIMITS]
        where = [f"--name={full}", f"--hostname={full}", f"--network={self.name}"]
        podman("run", "--detach", *where, *locked, *options, IMAGE, *command)
        return full
