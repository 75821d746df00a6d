"""What the checks need to know of the job that is to run: where its cluster, stores and data are, what it books.

Without a preset or overrides no configuration is read, since that imports torch, which may be what is broken.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The parts of a `JobConfig` that depend on the machine, and where runs live."""

    runs: Path = Path("runs")
    address: str | None = None  # of a Ray cluster; None: RAY_ADDRESS, else jobs start their own
    storage: tuple[str, ...] = ()  # s3://bucket/prefix, or folders
    tracking: str | None = None  # MLflow's address; None: MLFLOW_TRACKING_URI, else SQLite in `runs`
    experiment: str = "agggen"
    corpus: str | None = None  # the one that the job trains on
    splits: tuple[str, ...] = ()
    frames: str | None = None  # the file that facts.source=precomputed reads
    archive: str | None = None  # that facts.source=allennlp runs
    srl_environment: str | None = None
    device: str = "auto"
    workers: int = 0
    cpus_per_worker: float = 0.0
    gpus_per_worker: float = 0.0
    autoscaling: bool = False
    unread: str | None = None  # why the configuration could not be read, where torch is what is broken

    @property
    def cluster(self) -> str | None:
        """Where the Ray cluster is that jobs join; None where they start one of their own."""
        address = self.address or os.environ.get("RAY_ADDRESS")
        return None if address in (None, "", "local") else address

    @property
    def needs_gpu_here(self) -> bool:
        """Whether the job needs a GPU of this machine: it does not where the workers are on a cluster's nodes."""
        if self.workers == 0:
            return self.device.startswith("cuda")
        return self.cluster is None and (self.gpus_per_worker > 0 or self.device.startswith("cuda"))


def settings_of(
    preset: str | None,
    overrides: Sequence[str],
    *,
    runs: Path,
    address: str | None = None,
    storage: Sequence[str] = (),
    tracking: str | None = None,
) -> Settings:
    """What the job ``agggen train PRESET OVERRIDES`` would use; what is given by name wins.

    Raises:
        ConfigError: the preset, a key or a value does not exist.
    """
    settings = _of_job(preset, overrides) if preset or overrides else Settings()
    return replace(
        settings,
        runs=runs,
        address=address or settings.address,
        storage=tuple(storage) or settings.storage,
        tracking=tracking or settings.tracking,
    )


def _of_job(preset: str | None, overrides: Sequence[str]) -> Settings:
    from agggen_platform.config import load_config

    try:
        from agggen_platform.job_config import JobConfig
    except (ImportError, OSError) as error:  # a library that torch needs is not there, or is of another version
        return Settings(unread=f"{type(error).__name__}: {str(error).splitlines()[0]}")
    config = load_config(JobConfig, preset, overrides)
    facts, cluster = config.facts, config.cluster
    allennlp = facts.allennlp if facts.source == "allennlp" else None
    return Settings(
        address=cluster.address,
        storage=(config.storage.url,) if config.storage.url else (),
        tracking=config.tracking.uri,
        experiment=config.tracking.experiment,
        corpus=config.corpus.name,
        splits=(config.corpus.train, config.corpus.dev),
        frames=facts.precomputed if facts.source == "precomputed" else None,
        archive=allennlp.archive if allennlp else None,
        srl_environment=allennlp.environment if allennlp else None,
        device=config.training.device,
        workers=cluster.workers,
        cpus_per_worker=cluster.cpus_per_worker,
        gpus_per_worker=cluster.gpus_per_worker,
        autoscaling=cluster.autoscaling,
    )
