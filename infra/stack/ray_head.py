"""A Ray head with a token, its dashboard and jobs API; on demand.

Ray's own ports listen on all interfaces whatever it is told, so that only the token is between them and the network.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx

from infra.stack.errors import StackError, UnreadyError
from infra.stack.part import Part
from infra.stack.ports import HOST
from infra.stack.processes import Launch
from infra.stack.state import Secrets, State, write_private

_OBJECT_STORE_BYTES = 256 << 20  # jobs send addresses of data and not data


class RayHead(Part):
    name = "ray"
    patience = 180.0

    def __init__(
        self, ports: tuple[int, int, int, int], state: State, secrets: Secrets, environment: Mapping[str, str]
    ) -> None:
        """
        Args:
            ports: of the dashboard, the cluster, Ray's client server and the node's agent.
            environment: what jobs get: where runs and objects go.
        """
        super().__init__(ports[0])
        self._ports, self._secrets, self._environment = ports, secrets, dict(environment)
        self._token = state.path / "ray-token"

    @property
    def title(self) -> str:
        return "Ray head"

    def ports(self) -> dict[str, int]:
        options = ("--ray-port", "--ray-cluster-port", "--ray-client-port", "--ray-agent-port")
        return dict(zip(options, self._ports, strict=True))

    def environment(self) -> dict[str, str]:
        """What a job needs that connects to it."""
        return {
            "RAY_ADDRESS": f"{HOST}:{self._ports[1]}",
            "RAY_API_SERVER_ADDRESS": self.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self._token),
        }

    def prepare(self) -> Launch:
        if importlib.util.find_spec("ray") is None:
            raise StackError("Ray is not installed: pip install -e '.[dev]'")
        write_private(self._token, self._secrets.ray_token)
        dashboard, cluster, client, agent = map(str, self._ports)
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        command += ["--port", cluster, "--dashboard-host", HOST, "--dashboard-port", dashboard]
        command += ["--ray-client-server-port", client, "--dashboard-agent-listen-port", agent]
        command += ["--object-store-memory", str(_OBJECT_STORE_BYTES), "--disable-usage-stats"]
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
        about = {name: value for name, value in self.environment().items() if name.startswith("RAY_AUTH")}
        return Launch(command, self._environment | about | {"PATH": path})

    def check(self) -> None:
        url, token = f"{self.address}/api/jobs/", {"Authorization": f"Bearer {self._secrets.ray_token}"}
        try:
            answer = httpx.get(url, headers=token, timeout=10, trust_env=False)
            anonymous = httpx.get(url, timeout=10, trust_env=False)
        except httpx.HTTPError as error:
            raise UnreadyError(str(error) or type(error).__name__) from error
        if answer.status_code != 200:
            raise UnreadyError(f"it says {answer.status_code}: {answer.text[:200]}")
        if anonymous.status_code not in (401, 403):
            raise StackError(f"Ray lets everybody in: it says {anonymous.status_code} to who has no token")
        with socket.socket() as one:
            if one.connect_ex((HOST, self._ports[3])):
                raise UnreadyError("its agent, which starts jobs, does not listen")
