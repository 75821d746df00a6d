"""The configuration of a bulk generation job, its fingerprint, its bundle and its critic."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agggen import bundle as bundles
from agggen.bundle import load_bundle, resolve_shipped
from agggen.config import flatten, load_config, overrides_of
from agggen.errors import ConfigError, check_minima
from agggen.generation.config import InferenceConfig
from agggen.generation.generator import Generator
from agggen.verification.critic.critic import Critic
from agggen_platform.registry import is_model_address, resolve
from agggen_platform.sharded import config as sharded
from agggen_platform.sharded.config import JobError, ShardedConfig
from agggen_platform.storage.bundles import get_bundle
from agggen_platform.storage.critics import open_critic
from agggen_platform.storage.folder import Folder

SETTINGS = ("n_best", "complete", "unique", "format")  # outside `inference`, settings that affect the texts
FORMAT = 6  # part of the fingerprint; incremented when a code change alters the texts or files of the same job


@dataclass(frozen=True)
class BulkConfig(ShardedConfig):
    inference: InferenceConfig = field(kw_only=True)
    """Settings of the search; by default the bundle's (`model.bulk_config`)."""
    n_best: int = 1  # the maximum number of texts per record, best first
    complete: bool = False
    """True: the model adds predicates that a record's plan omits. False: such records are rejected."""
    unique: bool = True
    """Reject records with the id of an earlier record. False: ids may repeat; the column ``row`` identifies records."""
    format: Literal["parquet", "jsonl"] = "parquet"  # the format of the output files
    critic: str | None = None
    """The critic that computes ``risk`` and scores of texts: ``included``, a folder, s3://... or models:/NAME@ALIAS."""
    gpus_per_actor: float = 0.0  # GPUs per actor; 0: one CPU and one thread

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minima(self, {"n_best": 1, "gpus_per_actor": 0})


@dataclass(frozen=True)
class Model:
    """A bundle, with its resolved address."""

    address: str  # a folder or ``s3://`` address, no alias; every worker must be able to read it
    fingerprint: str
    inference: InferenceConfig  # the inference settings in the bundle
    largest_group: int  # L: the maximum number of predicates per fact


def open_model(address: str) -> Model:
    """Resolves the address of a bundle and loads the bundle once, to verify it; errors: see `get_bundle`, `resolve`."""
    resolved = Folder(resolve(address) if is_model_address(address) else resolve_shipped(address)).address
    path = get_bundle(resolved)
    bundle = load_bundle(path)
    return Model(resolved, bundles.fingerprint(path), bundle.inference, bundle.model.config.max_group_size)


def load_generator(address: str, expected: str, device: str) -> Generator:
    """The generator of the bundle at `address`; raises JobError if the bundle's fingerprint is not `expected`."""
    path = get_bundle(address)
    _check_fingerprint("bundle", address, bundles.fingerprint(path), expected)
    return load_bundle(path).generator(device)


def load_critic(address: str, expected: str) -> Critic:
    """The critic at `address`; raises JobError if the SHA-256 of its files is not `expected`."""
    critic, actual = open_critic(address)
    _check_fingerprint("critic", address, actual, expected)
    return critic


def _check_fingerprint(kind: str, address: str, actual: str, expected: str) -> None:
    if actual != expected:
        raise JobError(
            f"the {kind} at {address} has the fingerprint {actual[:12]} here and {expected[:12]} in the driver: it was "
            "replaced, or the nodes see different folders; use an address with the same content on every node"
        )


def bulk_config(model: Model, overrides: Sequence[str] = ()) -> BulkConfig:
    """A configuration whose defaults are the bundle's own inference settings; raises ConfigError."""
    defaults = [f"inference.{setting}" for setting in overrides_of(model.inference)]
    config = load_config(BulkConfig, None, overrides, defaults=defaults)
    if (level := config.inference.level) > (maximum := model.largest_group):
        raise ConfigError(f"inference.level {level} exceeds this model's largest group of {maximum} predicates")
    return config


def job_identity(
    config: BulkConfig, bundle: str, inputs: Sequence[tuple[str, str]], critic: str | None = None
) -> dict[str, Any]:
    """All settings and fingerprints (of the bundle, the critic and each named input file) that affect the output."""
    settings = {f"inference.{key}": value for key, value in flatten(config.inference).items()}
    return {
        "bundle": bundle,
        "input": [digest for _, digest in inputs],
        # If there are several files, the generated id of a record without an id starts with the file's name.
        "names": [name for name, _ in inputs] if len(inputs) > 1 else [],
        **{name: getattr(config, name) for name in SETTINGS},
        **({} if critic is None else {"critic": critic}),
        **settings,
    }


def fingerprint(identity: dict[str, Any]) -> str:
    """The fingerprint of the job with this `job_identity`."""
    return sharded.fingerprint({"format": FORMAT, "job": identity})
