"""The settings of a training job: a `RunConfig`, which alone determines the run's name and the model, and the rest."""

from dataclasses import dataclass, field, fields

from agggen.errors import ConfigError, check_minima
from agggen.run import RunConfig


@dataclass(frozen=True)
class ClusterConfig:
    """The processes that train."""

    workers: int = 0  # processes that Ray Train starts; 0: train in this process, without Ray
    min_workers: int = 0  # train with at least this many workers while nodes are missing; 0: always with all workers
    cpus_per_worker: float = 1.0
    gpus_per_worker: float = 0.0
    address: str | None = None  # Ray cluster: auto or host:port; null: RAY_ADDRESS, else a new local cluster
    autoscaling: bool = False  # the cluster has an autoscaler, so the job waits for missing resources
    max_failures: int = 3  # tolerated failures of workers or nodes; -1: no limit while checkpoints advance

    def __post_init__(self) -> None:
        check_minima(self, {"workers": 0}, "cluster.")
        if not 0 <= self.min_workers <= self.workers:
            raise ConfigError(f"cluster.min_workers must be from 0 to cluster.workers, not {self.min_workers}")
        if min(self.cpus_per_worker, self.gpus_per_worker) < 0 or not self.resources_per_worker:
            raise ConfigError("cluster.cpus_per_worker and cluster.gpus_per_worker must be at least 0, and not both 0")
        if self.workers > 1 and self.gpus_per_worker % 1:
            raise ConfigError(
                f"cluster.gpus_per_worker must be a whole number for several workers, not {self.gpus_per_worker}: "
                "NCCL does not allow two workers on one GPU"
            )
        if self.max_failures < -1:
            raise ConfigError(f"cluster.max_failures must be -1 (no limit) or more, not {self.max_failures}")

    @property
    def resources_per_worker(self) -> dict[str, float]:
        """The resources of a worker, by Ray's names."""
        resources = {"CPU": self.cpus_per_worker, "GPU": self.gpus_per_worker}
        return {name: amount for name, amount in resources.items() if amount}


@dataclass(frozen=True)
class StorageConfig:
    """Where checkpoints and bundles are stored."""

    url: str | None = None  # a folder shared by all workers, or s3://bucket/prefix; null: the folder of runs
    checkpoint_seconds: float = 120.0  # seconds between checkpoints; a crash loses at most this much training
    keep: int = 2  # number of verified checkpoints to keep per stage

    def __post_init__(self) -> None:
        check_minima(self, {"checkpoint_seconds": 0, "keep": 1}, "storage.")


@dataclass(frozen=True)
class TrackingConfig:
    """Settings for logging to MLflow; the run log in the folder of runs is always complete."""

    uri: str | None = None  # the MLflow server; null: MLFLOW_TRACKING_URI, else SQLite in the folder of runs
    experiment: str = "agggen"
    system_seconds: float = 10.0  # seconds between system metrics (CPU, memory, GPU); 0: none
    samples: int = 5  # development records for which texts are generated and logged after each epoch
    patience_seconds: float = 60.0  # maximum wait for MLflow at the end of a run

    def __post_init__(self) -> None:
        check_minima(self, {"system_seconds": 0, "samples": 0, "patience_seconds": 0}, "tracking.")


@dataclass(frozen=True)
class JobConfig(RunConfig):
    """A `RunConfig` plus settings of the cluster, storage and tracking."""

    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    max_reject_share: float = 0.05  # maximum share of invalid records or texts per split

    def __post_init__(self) -> None:
        if not 0 <= self.max_reject_share <= 1:
            raise ConfigError(f"max_reject_share must be from 0 to 1, not {self.max_reject_share}")


def run_config_of(config: RunConfig) -> RunConfig:
    """The part of `config` that determines the result."""
    return RunConfig(**{item.name: getattr(config, item.name) for item in fields(RunConfig)})
