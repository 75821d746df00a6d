"""The endpoint's configuration, which every replica receives: its bundle, replicas, limits and access."""

import ipaddress
import json
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from agggen.config import load_config
from agggen.errors import AggGenError, ConfigError, check_minima


class PortError(AggGenError):
    """A port that the endpoint needs is taken."""

    exit_code = 5


@dataclass(frozen=True)
class HttpConfig:
    """The address on which the endpoint listens."""

    host: str = "127.0.0.1"
    port: int = 8000

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise ConfigError(f"http.port must be from 1 to 65535, not {self.port}")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the endpoint."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        """The endpoint's URL for clients on this machine."""
        host = self.host.strip("[]")
        if host in ("0.0.0.0", "::"):
            host = "localhost"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def listen(self) -> socket.socket:
        """A socket listening on host and port; raises PortError if the port is taken."""
        host = self.host.strip("[]")
        try:
            return socket.create_server((host, self.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            reason = str(error.strerror).partition(" (while")[0]  # without the address, which create_server appends
            raise PortError(f"cannot listen at {host}:{self.port} ({reason}): choose another http.port") from error


@dataclass(frozen=True)
class ReplicaConfig:
    """Replicas and autoscaling of one deployment."""

    min_replicas: int = 1
    max_replicas: int | None = None
    """None: as many generators as fit on the cluster at deployment, including nodes that its autoscaler may add; one
    ingress and one planner per eight generators."""
    target_records: float = 64.0
    """Target number of queued and active records (ingress: requests) per replica. Ray Serve adds replicas after three
    seconds above the target, and removes replicas after `downscale_delay_s` below the target."""
    downscale_delay_s: float = 60.0
    cpus: float = 1.0  # CPUs reserved per replica, and number of torch threads
    gpus: float = 0.0  # GPUs reserved per replica

    def __post_init__(self) -> None:
        minima = {"min_replicas": 0, "target_records": 0.01, "downscale_delay_s": 0, "cpus": 0, "gpus": 0}
        check_minima(self, minima, "replicas.")
        if self.max_replicas is not None and not max(1, self.min_replicas) <= self.max_replicas:
            raise ConfigError(f"max_replicas ({self.max_replicas}) must be at least 1 and min_replicas")


@dataclass(frozen=True)
class BatchConfig:
    """How a replica batches records of different requests."""

    records: int = 64  # maximum records of similar length per batch
    wait_ms: float = 5.0  # maximum wait for further records
    queue: int = 1024  # maximum waiting records per replica; further records get HTTP 429

    def __post_init__(self) -> None:
        check_minima(self, {"records": 1, "wait_ms": 0, "queue": 1}, "batch.")


@dataclass(frozen=True)
class LimitsConfig:
    """Limits of a request; a request that exceeds a limit is rejected before it is processed."""

    body_bytes: int = 4 << 20
    stream_bytes: int = 64 << 20  # body of one :stream request
    stream_buffer_bytes: int = 256 << 20  # buffered bytes of all streams per ingress replica; more get HTTP 429
    stream_records: int = 100_000
    line_bytes: int = 1 << 20  # one line of a stream
    records: int = 256  # records per request
    triples: int = 24  # triples per record
    text_chars: int = 2_000  # characters of a text to align or check, and of an id
    text_facts: int = 64  # facts of a text to align
    align_positions: int = 400_000  # tokens of a text to align x number of states (sets of triples) of its record
    record_chars: int = 4_000  # characters of all triples of a record; memory is quadratic in its words
    n_best: int = 10
    plans: int = 50
    beam: int = 20
    queue: int = 128  # waiting and active requests per ingress replica; further requests get HTTP 429
    deadline_s: float = 60.0  # default deadline of a request, and of each record of a stream
    longest_deadline_s: float = 600.0  # maximum deadline that a client can request
    window: int = 128  # active records per stream

    def __post_init__(self) -> None:
        check_minima(self, {item.name: 1 for item in fields(self) if not item.name.endswith("_s")}, "limits.")
        check_minima(self, {"deadline_s": 0.001, "longest_deadline_s": 0.001}, "limits.")


@dataclass(frozen=True)
class SecurityConfig:
    keys_file: str | None = None
    """A file of API keys, a name and SHA-256 per line (see `agggen serve-key`), on every node with an ingress replica.
    Required if the endpoint is reachable from other machines."""
    hosts: tuple[str, ...] = ()  # accepted Host headers in addition to localhost, without a keys file


@dataclass(frozen=True)
class LogConfig:
    texts: bool = False  # also log exception messages, which may quote confidential records and texts
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True)
class TracingConfig:
    """Traces of requests in MLflow."""

    experiment: str | None = None
    """The MLflow experiment. None: tracing is off."""
    server: str | None = None
    """The MLflow server. None: MLFLOW_TRACKING_URI on the node of the ingress replica."""


@dataclass(frozen=True)
class ServeConfig:
    bundle: str  # a folder, s3://..., models:/NAME@ALIAS or models:/NAME/VERSION
    critic: str | None = "included"
    """The critic of ``POST /v1/check``: ``included``, or an address like `bundle`'s. null: only the strict check."""
    fingerprint: str | None = None
    """The expected fingerprint of the bundle; another bundle is refused. None: the fingerprint found at deployment."""
    shown_as: str | None = None
    """The address that `GET /v1/model` returns. None: `bundle`, with an alias resolved to its version."""
    update: Literal["beside", "replace"] = "beside"
    """How an update is rolled out. beside: start new replicas before stopping old ones, which needs resources for one
    more replica of each deployment; replace: stop old replicas first, so requests fail if there is only one."""
    studio: bool = True  # serve the plan studio, a page to edit plans and compare texts, at ``/``
    http: HttpConfig = field(default_factory=HttpConfig)
    ingress: ReplicaConfig = field(default_factory=lambda: ReplicaConfig(cpus=0.5))
    planner: ReplicaConfig = field(default_factory=lambda: ReplicaConfig(target_records=512, cpus=0.5))
    generator: ReplicaConfig = field(default_factory=ReplicaConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    log: LogConfig = field(default_factory=LogConfig)
    tracing: TracingConfig = field(default_factory=TracingConfig)

    def __post_init__(self) -> None:
        for name in ("ingress", "planner"):  # `GET /readyz` calls both, so every health check would start a replica
            if getattr(self, name).min_replicas < 1:
                raise ConfigError(f"{name}.min_replicas must be at least 1, not 0; only generators can scale to zero")


def serve_settings(bundle: str, overrides: Sequence[str], file: Path | None = None) -> ServeConfig:
    """The configuration of a command line ``[BUNDLE] [KEY=VALUE ...]``; raises ConfigError for an invalid setting.

    If `bundle` has the form KEY=VALUE, it is an override, and the bundle is ``elements``, which ships with agggen.
    """
    if re.match(r"[a-z_.]+=", bundle) and not Path(bundle).exists():
        bundle, overrides = "elements", [bundle, *overrides]
    return load_config(ServeConfig, file, [f"bundle={json.dumps(bundle)}", *overrides])
