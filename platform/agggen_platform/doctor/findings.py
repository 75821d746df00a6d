"""What is checked (the settings of a job), and what is found."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]
"""note: optional; warning: jobs are slow or insecure; error: jobs fail, or others can run code on the cluster."""


@dataclass(frozen=True)
class Finding:
    level: Level
    subject: str  # what was checked
    message: str
    remedy: str | None = None  # a command, or the setting to change; every warning and error has one


ok, note = partial(Finding, "ok"), partial(Finding, "note")
warning, error = partial(Finding, "warning"), partial(Finding, "error")


@dataclass(frozen=True)
class Settings:
    """Cluster, store, MLflow and corpus of a job, and the resources that it requests; serialisable as JSON."""

    runs: str = "runs"
    address: str | None = None  # a Ray cluster; None: RAY_ADDRESS, else jobs start a local cluster
    storage: str | None = None  # s3://bucket/prefix or a folder
    tracking: str | None = None  # MLflow's address; None: MLFLOW_TRACKING_URI, else SQLite in `runs`
    experiment: str = "agggen"
    corpus: str | None = None
    device: str = "auto"
    workers: int = 0
    cpus_per_worker: float = 0.0
    gpus_per_worker: float = 0.0
    autoscaling: bool = False

    @property
    def cluster(self) -> str | None:
        """The Ray cluster that jobs connect to; None if they start a local one."""
        address = self.address or os.environ.get("RAY_ADDRESS")
        return None if address in (None, "", "local") else address

    @property
    def distributed(self) -> bool:
        """Whether the job's workers run on the nodes of a cluster."""
        return self.cluster is not None and self.workers > 0


def settings_of(preset: str | None, overrides: Sequence[str], runs: str) -> Settings:
    """The settings of ``agggen train PRESET OVERRIDES``; raises ConfigError if the preset or a key does not exist."""
    if not preset and not overrides:  # reading a configuration imports torch, which may be broken
        return Settings(runs)
    from agggen.config import load_config
    from agggen_platform.job_config import JobConfig

    config = load_config(JobConfig, preset, overrides)
    names = ("address", "workers", "cpus_per_worker", "gpus_per_worker", "autoscaling")
    cluster = {name: getattr(config.cluster, name) for name in names}
    return Settings(
        runs,
        storage=config.storage.url,
        tracking=config.tracking.uri,
        experiment=config.tracking.experiment,
        corpus=config.corpus.name,
        device=config.training.device,
        **cluster,
    )
