"""Loads the bundle and the critic of a job; workers verify that their fingerprints equal the driver's."""

from collections.abc import Sequence
from dataclasses import dataclass

from agggen.bundle import fingerprint, load_bundle, resolve_shipped
from agggen.config import load_config, overrides_of
from agggen.errors import ConfigError
from agggen.generation.config import InferenceConfig
from agggen.generation.generator import Generator
from agggen.verification.critic.critic import Critic
from agggen_platform.bulk.config import BulkConfig
from agggen_platform.registry import is_model_address, resolve
from agggen_platform.sharded.config import JobError
from agggen_platform.storage.bundles import get_bundle
from agggen_platform.storage.critics import open_critic
from agggen_platform.storage.folder import Folder


@dataclass(frozen=True)
class Model:
    """A bundle, with its resolved address."""

    address: str  # a folder or ``s3://`` address, no alias; every worker must be able to read it
    fingerprint: str
    inference: InferenceConfig  # the inference settings in the bundle
    largest_group: int  # L: the maximum number of predicates per fact


def open_model(address: str) -> Model:
    """Resolves the address of a bundle (see `get_bundle`) and loads the bundle once, to verify it.

    Raises:
        BundleError: there is no bundle, or it was modified after it was saved.
        RegistryError: the version or alias does not exist.
        StorageError: the store refused access or did not answer.
    """
    resolved = Folder(resolve(address) if is_model_address(address) else resolve_shipped(address)).address
    path = get_bundle(resolved)
    bundle = load_bundle(path)
    return Model(resolved, fingerprint(path), bundle.inference, bundle.model.config.max_group_size)


def load_generator(address: str, expected: str, device: str) -> Generator:
    """The generator of the bundle at `address`; raises JobError if the bundle's fingerprint is not `expected`."""
    path = get_bundle(address)
    _check_fingerprint("bundle", address, fingerprint(path), expected)
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
    """A configuration whose defaults are the bundle's own inference settings.

    Raises ConfigError if a key does not exist, a value is invalid, or the level exceeds the model's L.
    """
    defaults = [f"inference.{setting}" for setting in overrides_of(model.inference)]
    config = load_config(BulkConfig, None, overrides, defaults=defaults)
    if (level := config.inference.level) > (maximum := model.largest_group):
        raise ConfigError(f"inference.level {level} exceeds this model's largest group of {maximum} predicates")
    return config
