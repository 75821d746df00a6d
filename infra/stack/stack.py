"""Which parts a stack has, on which ports, and what a program needs to use them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.stack.errors import RefusedError, StackError, UnreadyError
from infra.stack.mlflow_server import MlflowServer
from infra.stack.part import Part
from infra.stack.ports import free_ports
from infra.stack.postgres import Postgres
from infra.stack.prometheus import Prometheus
from infra.stack.ray_head import RayHead
from infra.stack.s3 import S3
from infra.stack.state import State, write_private

PROMETHEUS_CONFIG = Path(__file__).parents[1] / "monitoring" / "prometheus.yaml"


@dataclass(frozen=True)
class Settings:
    """What may be chosen."""

    postgres_port: int = 15432
    s3_port: int = 9000
    mlflow_port: int = 5000
    ray: bool = False
    ray_port: int = 8265
    ray_cluster_port: int = 6379
    ray_client_port: int = 10001
    ray_agent_port: int = 52365
    prometheus: bool = False
    prometheus_port: int = 9090
    prometheus_config: str = str(PROMETHEUS_CONFIG)

    def __post_init__(self) -> None:
        ports = [value for name, value in asdict(self).items() if name.endswith("_port")]
        wrong = [port for port in ports if not 0 < port < 65536]
        if wrong or len(set(ports)) < len(ports):
            raise RefusedError(f"ports are different numbers from 1 to 65535, not {', '.join(map(str, ports))}")

    def with_free_ports(self) -> Settings:
        """The same on ports that nothing listens on now."""
        chosen: dict[str, Any] = asdict(self)
        names = [name for name in chosen if name.endswith("_port")]
        return Settings(**chosen | dict(zip(names, free_ports(len(names)), strict=True)))


class Stack:
    """The parts in the order in which they start, and the environment of their users."""

    def __init__(self, settings: Settings, state: State) -> None:
        """Makes the passwords, where there are none; starts nothing."""
        secrets = state.secrets()
        self.settings, self.state = settings, state
        postgres = Postgres(settings.postgres_port, state, secrets)
        s3 = S3(settings.s3_port, state, secrets)
        mlflow = MlflowServer(settings.mlflow_port, state, secrets, postgres, s3)
        self.parts: list[Part] = [postgres, s3, mlflow]
        self.environment = s3.environment() | mlflow.environment()
        if settings.ray:
            ports = (settings.ray_port, settings.ray_cluster_port, settings.ray_client_port, settings.ray_agent_port)
            ray = RayHead(ports, state, secrets, self.environment)
            self.parts.append(ray)
            self.environment |= ray.environment()
        if settings.prometheus:
            self.parts.append(Prometheus(settings.prometheus_port, state, Path(settings.prometheus_config)))

    def remember(self) -> None:
        """Writes what other commands need to find the stack, and the file for shells."""
        write_private(self.state.path / "settings.json", json.dumps(asdict(self.settings), indent=1) + "\n")
        self.state.write_env(self.environment)


def running(state: State) -> Stack:
    """The stack that runs in a folder.

    Raises:
        StackError: there is none.
    """
    path = state.path / "settings.json"
    if state.supervisor() is None or not path.exists():
        raise StackError(f"no stack runs in {state}; `python -m infra.stack up --state {state}` starts one")
    return Stack(Settings(**json.loads(path.read_text())), state)


def findings(parts: Sequence[Part]) -> dict[str, str]:
    """What is wrong with each part, "" where nothing is; by its address."""
    found = {}
    for part in parts:
        try:
            part.check()
            found[part.address] = ""
        except (StackError, UnreadyError) as error:
            found[part.address] = str(error)
    return found
