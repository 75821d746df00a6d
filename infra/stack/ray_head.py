"""A Ray head with a token, its dashboard and jobs API; optional.

Ray's own ports listen on all interfaces whatever it is told: only the token is between them and the network.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from infra.stack.errors import StackError, UnreadyError
from infra.stack.part import HOST, Part, get, is_free
from infra.stack.processes import Launch
from infra.stack.state import State, write_private

_OBJECT_STORE_BYTES = 256 << 20  # jobs send addresses of data and not data


class RayHead(Part):
    name = "ray"
    title = "Ray head"
    patience = 180.0

    def __init__(
        self, ports: Mapping[str, int], state: State, secrets: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        """
        Args:
            environment: of jobs: where runs and objects are.
        """
        super().__init__(ports["ray"])
        self._ports, self._secret, self._environment = dict(ports), secrets["ray_token"], dict(environment)
        self._token = state.path / "ray-token"

    def ports(self) -> dict[str, int]:
        return {name: port for name, port in self._ports.items() if name.startswith("ray")}

    def environment(self) -> dict[str, str]:
        """What a job needs to connect."""
        return {
            "RAY_ADDRESS": f"{HOST}:{self._ports['ray-cluster']}",
            "RAY_API_SERVER_ADDRESS": self.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self._token),
        }

    def prepare(self) -> Launch:
        write_private(self._token, self._secret)
        options = {
            "--port": self._ports["ray-cluster"],
            "--dashboard-host": HOST,
            "--dashboard-port": self.port,
            "--ray-client-server-port": self._ports["ray-client"],
            "--dashboard-agent-listen-port": self._ports["ray-agent"],
            "--object-store-memory": _OBJECT_STORE_BYTES,
        }
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"]
        command += [str(word) for option in options.items() for word in option]
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
        token = {name: value for name, value in self.environment().items() if name.startswith("RAY_AUTH")}
        return Launch(command, self._environment | token | {"PATH": path})

    def check(self) -> None:
        url = f"{self.address}/api/jobs/"
        get(url, headers={"Authorization": f"Bearer {self._secret}"})
        anonymous = get(url, status=None).status_code
        if anonymous not in (401, 403):
            raise StackError(f"Ray's dashboard asks for no token: status {anonymous} without one")
        if is_free(self._ports["ray-agent"]):
            raise UnreadyError("its agent, which starts jobs, does not listen")
