"""A Ray head in new processes, to which tests submit jobs."""

import json
import os
import secrets
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from tests.processes import Running, free_ports

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
RUNTIME_ENV = json.dumps({"env_vars": {"PYTHONPATH": "platform"}})


class Head:
    """A Ray head with its own ports and token."""

    def __init__(self, folder: Path, stack: ExitStack, cpus: int = 4, more_nodes: int = 0) -> None:
        """`more_nodes`: the number of equal nodes that Ray's autoscaler may start on this machine."""
        token, self.token = folder / "token", secrets.token_hex(32)
        token.touch(0o600)
        token.write_text(self.token)
        gcs, dashboard, client, agent = free_ports(4)
        self.gcs = f"127.0.0.1:{gcs}"
        self.address = f"http://127.0.0.1:{dashboard}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ADDRESS": "",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }
        # Ray sends a submitted job to the cluster that started last in the same temporary folder.
        scratch = stack.enter_context(TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True))
        # Another cluster may use Ray's default ports; jobs wait silently for an agent whose port is taken.
        command = (
            f"-m ray.scripts.scripts start --head --block --num-cpus {cpus} --num-gpus 0 "
            f"--port {gcs} --dashboard-port {dashboard} "
            f"--ray-client-server-port {client} --dashboard-agent-listen-port {agent} "
            f"--object-store-memory {256 << 20} --dashboard-host 127.0.0.1 --temp-dir {scratch}"
        )
        if more_nodes:
            scaling = folder / "autoscaler.json"
            node = {"resources": {"CPU": cpus}, "node_config": {}}
            lists = ("cluster_synced_files", "rsync_exclude", "rsync_filter", "initialization_commands")
            commands = ("setup_commands", "worker_setup_commands", "worker_start_ray_commands")
            config = {key: [] for key in (*lists, *commands)} | {
                "cluster_name": "grows",
                "max_workers": more_nodes,
                "idle_timeout_minutes": 0.1,
                "provider": {
                    **{"type": "fake_multinode", "gcs_address": self.gcs, "use_node_id_as_ip": True},
                    **{"disable_node_updaters": True, "disable_launch_config_check": True},
                },
                "head_node_type": "ray.head.default",
                "available_node_types": {
                    "ray.head.default": node | {"max_workers": 0},
                    "more": node | {"max_workers": more_nodes},
                },
                "upscaling_speed": 1.0,
                "file_mounts": {},
                "auth": {},
            }
            scaling.write_text(json.dumps(config))
            self.env |= {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
            command += f" --autoscaling-config {scaling}"
        self.running = stack.enter_context(Running(command.split(), folder, self.env))
        self.running.wait_until(self._responds, "response of the jobs API")
        self.running.wait_until(lambda: _listens(agent), "listening job agent")

    def join(self, folder: Path, stack: ExitStack, cpus: int = 1) -> Running:
        """Starts another node of the cluster; killing the process loses the node."""
        command = (
            f"-m ray.scripts.scripts start --block --address {self.gcs} --num-cpus {cpus} --num-gpus 0 "
            f"--dashboard-agent-listen-port {free_ports(1)[0]} --object-store-memory {256 << 20}"
        )
        return stack.enter_context(Running(command.split(), folder, self.env))

    def nodes(self) -> int:
        summary = self._get("/nodes?view=summary").json()["data"]["summary"]
        return sum(node["raylet"].get("state") == "ALIVE" for node in summary)

    def _get(self, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.get(self.address + path, headers=headers, timeout=30, trust_env=False)

    def _responds(self) -> bool:
        try:
            return self._get("/api/jobs/").status_code == 200
        except httpx.TransportError:
            return False

    def submit(self, job: str, *arguments: str | Path, expect: int = 0) -> str:
        """Submits a job as in jobs/README.md; returns its output. `expect`: the job's own exit status."""
        command = [str(BIN / "ray"), "job", "submit", "--address", self.address, "--working-dir", "."]
        command += ["--runtime-env-json", RUNTIME_ENV, "--", "python", f"jobs/{job}.py", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=900)
        output = done.stdout + done.stderr
        assert done.returncode == (expect != 0), output  # `ray job submit` returns 1 for any status of the job
        if expect:
            assert f"Job entrypoint command failed with exit code {expect}," in output
        return output


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
