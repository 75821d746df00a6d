"""The bundle of an endpoint: resolves it, pins it by fingerprint, and tests it before a rollout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agggen.bundle import SHIPPED, load_bundle, place_of
from agggen.errors import BundleError
from agggen_platform.registry import Registry, is_model_address, parse_address
from agggen_platform.registry.address import SCHEME
from agggen_platform.registry.admission import fetch, smoke_test
from agggen_platform.serving.config import ServeConfig
from agggen_platform.storage.bundles import get_bundle
from agggen_platform.storage.critics import open_critic, place_of_critic
from agggen_platform.storage.folder import Folder


@dataclass(frozen=True)
class Target:
    """A bundle pinned by address and fingerprint."""

    source: str  # the folder or ``s3://`` address from which replicas load it, without using the registry
    shown: str  # the address in messages: the version of a registered model, else `source`
    fingerprint: str
    critic: str | None = "included"  # the critic's resolved address, as in `source`, or ``included``; None: no critic

    def fixed(self, config: ServeConfig) -> ServeConfig:
        """`config` with the pinned bundle and critic."""
        return replace(
            config, bundle=self.source, shown_as=self.shown, fingerprint=self.fingerprint, critic=self.critic
        )


def find_target(config: ServeConfig) -> Target:
    """The bundle that the configuration currently names; it is fetched and verified.

    Raises:
        BundleError: there is no bundle, it was changed, or its fingerprint is not `config.fingerprint`.
        RegistryError: no such model, version or alias, or no registry.
        StorageError: the store refused access or did not answer.
    """
    source, shown, expected = config.bundle, config.shown_as, config.fingerprint
    if is_model_address(config.bundle):
        version = Registry().version(parse_address(config.bundle))
        source, shown = version.source, shown or f"{SCHEME}{version}"
        expected = expected or version.fingerprint or None
    shown = shown or (source if source in SHIPPED else None)
    source = Folder(place_of(source)).address
    _, actual = fetch(source, expected)
    critic = None if config.critic is None else place_of_critic(config.critic)
    return Target(source, shown or source, actual, critic)


def check_target(target: Target) -> None:
    """Raises BundleError if the bundle cannot generate texts on this CPU, or the critic is missing or cannot judge."""
    if faults := smoke_test(load_bundle(get_bundle(target.source))):
        raise BundleError(f"the bundle {target.shown} does not pass its self-test: {faults[0]}")
    if target.critic is not None and (faults := smoke_test(open_critic(target.critic)[0])):
        raise BundleError(f"the critic {target.critic} does not pass its self-test: {faults[0]}")


def settings_of(args: Mapping[str, Any]) -> list[str]:
    """The arguments of a Serve application as overrides for `load_config`.

    They are ``{"generator.max_replicas": "4"}`` from ``serve run serve.app:app KEY=VALUE``, and nested mappings of YAML
    values from the ``args:`` of a ``serve deploy`` file.
    """
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in args.items()]
