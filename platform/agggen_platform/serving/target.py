"""Resolves the bundle of an endpoint, pins it by fingerprint, and tests it before a rollout."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agggen.bundle import SHIPPED, load_bundle, resolve_shipped
from agggen.errors import BundleError
from agggen_platform.registry import Registry, is_model_address, parse_address
from agggen_platform.registry.address import SCHEME
from agggen_platform.registry.admission import fetch, smoke_test
from agggen_platform.serving.config import ServeConfig
from agggen_platform.storage.bundles import get_bundle
from agggen_platform.storage.critics import open_critic, resolve_critic
from agggen_platform.storage.folder import Folder


@dataclass(frozen=True)
class Target:
    """A bundle pinned by address and fingerprint."""

    source: str  # the folder or ``s3://`` address from which replicas load it (resolved, so they need no registry)
    display_address: str  # the address in messages: the version of a registered model, else `source`
    fingerprint: str
    critic: str | None = "included"  # the critic's resolved address, or ``included``; None: no critic

    def pinned(self, config: ServeConfig) -> ServeConfig:
        return replace(
            config, bundle=self.source, shown_as=self.display_address, fingerprint=self.fingerprint, critic=self.critic
        )


def find_target(config: ServeConfig) -> Target:
    """Resolves, downloads and verifies the bundle of the configuration.

    Raises BundleError (missing, modified, or not `config.fingerprint`), RegistryError and StorageError.
    """
    source, display_address, expected_fingerprint = config.bundle, config.shown_as, config.fingerprint
    if is_model_address(config.bundle):
        version = Registry().version(parse_address(config.bundle))
        source, display_address = version.source, display_address or f"{SCHEME}{version}"
        expected_fingerprint = expected_fingerprint or version.fingerprint or None
    display_address = display_address or (source if source in SHIPPED else None)
    source = Folder(resolve_shipped(source)).address
    _, fingerprint = fetch(source, expected_fingerprint)
    critic = None if config.critic is None else resolve_critic(config.critic)
    return Target(source, display_address or source, fingerprint, critic)


def check_target(target: Target) -> None:
    """Raises BundleError if bundle or critic fails its self-test on this CPU, or the critic is missing."""
    if faults := smoke_test(load_bundle(get_bundle(target.source))):
        raise BundleError(f"the bundle {target.display_address} does not pass its self-test: {faults[0]}")
    if target.critic is not None and (faults := smoke_test(open_critic(target.critic)[0])):
        raise BundleError(f"the critic {target.critic} does not pass its self-test: {faults[0]}")


def settings_of(args: Mapping[str, Any]) -> list[str]:
    """Converts the arguments of a Serve application to overrides for `load_config`.

    ``serve run`` passes strings by dotted key (``{"generator.max_replicas": "4"}``), ``serve deploy`` nested mappings.
    """
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in args.items()]
