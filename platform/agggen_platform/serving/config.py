"""The endpoint's configuration: which bundle, which replicas, what it accepts, who may ask.

The same object is read by `agggen serve`, by ``serve run serve.app:app KEY=VALUE`` and from the ``args`` of a
``serve deploy`` file, and reaches every replica:

    config = load_config(ServeConfig, None, ["bundle=models:/agggen@champion", "generator.max_replicas=4"])
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from agggen.config import load_config
from agggen.errors import ConfigError


def _check_least(section: Any, name: str, least: dict[str, float]) -> None:
    for key, smallest in least.items():
        value = getattr(section, key)
        if not value >= smallest:
            raise ConfigError(f"{name}.{key} must be at least {smallest}, not {value}")


@dataclass(frozen=True)
class HttpConfig:
    """Where the endpoint listens."""

    host: str = "127.0.0.1"
    port: int = 8000

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise ConfigError(f"http.port must be from 1 to 65535, not {self.port}")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True)
class ReplicaConfig:
    """The replicas of one deployment, and when there are more of them."""

    min_replicas: int = 1
    max_replicas: int | None = None
    """None: as many generators as the cluster has or gets room for when the endpoint is deployed, and an ingress and a
    planner for every eight of them."""
    target_records: float = 64.0
    """Queued and active records a replica (for the ingress: requests). With more for three seconds, replicas are added;
    with fewer for `downscale_delay_s`, replicas stop."""
    downscale_delay_s: float = 60.0
    cpus: float = 1.0  # torch's threads follow it
    gpus: float = 0.0

    def __post_init__(self) -> None:
        least = {"min_replicas": 0, "target_records": 0.01, "downscale_delay_s": 0, "cpus": 0, "gpus": 0}
        _check_least(self, "replicas", least)
        if self.max_replicas is None:
            return
        _check_least(self, "replicas", {"max_replicas": 1})
        if self.min_replicas > self.max_replicas:
            raise ConfigError(f"min_replicas ({self.min_replicas}) is more than max_replicas ({self.max_replicas})")


@dataclass(frozen=True)
class BatchConfig:
    """How a replica batches records of different requests."""

    records: int = 64  # of a batch, of similar length
    wait_ms: float = 5.0  # the longest wait for a fuller batch
    queue: int = 1024  # records that wait in a replica; more are refused (429)

    def __post_init__(self) -> None:
        _check_least(self, "batch", {"records": 1, "wait_ms": 0, "queue": 1})


@dataclass(frozen=True)
class LimitsConfig:
    """Limits of a request; more is refused before any work."""

    body_bytes: int = 4 << 20
    stream_bytes: int = 64 << 20  # body of one :stream
    stream_buffer_bytes: int = 256 << 20  # of all streams' bodies that wait in an ingress replica; more get 429
    stream_records: int = 100_000
    line_bytes: int = 1 << 20  # of one line of a stream
    records: int = 256  # of one request
    triples: int = 24  # of one record
    text_chars: int = 2_000  # of a text to align, and of an id
    text_facts: int = 64  # of a text to align
    align_positions: int = 400_000  # of a text to align: its words, once for each set of triples that may share a fact
    record_chars: int = 4_000  # of all values of a record: memory grows with the square of its words
    n_best: int = 10
    plans: int = 50
    beam: int = 20
    queue: int = 128  # requests that wait or are worked on in an ingress replica; more get 429
    deadline_s: float = 60.0  # of a request, and of each record of a stream
    longest_deadline_s: float = 600.0  # that a client may ask for
    window: int = 128  # records of one stream that are worked on at once

    def __post_init__(self) -> None:
        _check_least(self, "limits", {item.name: 1 for item in fields(self) if not item.name.endswith("_s")})
        _check_least(self, "limits", {"deadline_s": 0.001, "longest_deadline_s": 0.001})


@dataclass(frozen=True)
class SecurityConfig:
    """Access to the endpoint."""

    keys_file: str | None = None
    """Names and SHA-256 of keys, one a line (`agggen serve-key NAME` makes one); it is on every node of an ingress.
    Required as soon as the endpoint can be reached from other machines."""
    hosts: tuple[str, ...] = ()  # names of this machine besides localhost that Host may have, without keys


@dataclass(frozen=True)
class LogConfig:
    """Structured logs."""

    texts: bool = False  # messages of exceptions too; they may quote records and texts, which may be confidential
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True)
class TracingConfig:
    """Traces of requests in MLflow."""

    experiment: str | None = None
    """Its name. None: no request is traced."""
    server: str | None = None
    """Its MLflow server. None: the one that MLFLOW_TRACKING_URI names where the ingress runs."""


@dataclass(frozen=True)
class ServeConfig:
    """The endpoint."""

    bundle: str
    """A folder, s3://..., models:/NAME@ALIAS or models:/NAME/VERSION."""
    critic: str | None = "included"
    """The critic of ``POST /v1/check``: ``included``, or an address like `bundle`'s. null: the check by words alone."""
    fingerprint: str | None = None
    """The bundle's; another bundle at the address is refused. None: the one that is there at deployment."""
    shown_as: str | None = None
    """What `GET /v1/model` calls the bundle's address. None: `bundle`, an alias resolved to the version."""
    update: Literal["beside", "replace"] = "beside"
    """beside: new replicas start first, which needs room for one more of each; replace: old ones stop first, so that
    with one replica requests fail until the new one is ready."""
    studio: bool = True
    """Whether the page that shows plans and texts (the plan studio) is at ``/``."""
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
        for name in ("ingress", "planner"):  # `GET /readyz` asks them, so probes would start them again
            if getattr(self, name).min_replicas < 1:
                raise ConfigError(f"{name}.min_replicas must be at least 1, not 0; generators alone scale to zero")


def serve_settings(bundle: str, overrides: Sequence[str], file: Path | None = None) -> ServeConfig:
    """The configuration of a command line ``[BUNDLE] [KEY=VALUE ...]``: where `bundle` is a setting, none was given,
    and it is the shipped one.

    Raises:
        ConfigError: a setting that does not exist, or not of this value.
    """
    if re.match(r"[a-z_.]+=", bundle) and not Path(bundle).exists():
        bundle, overrides = "elements", [bundle, *overrides]
    return load_config(ServeConfig, file, [f"bundle={json.dumps(bundle)}", *overrides])
