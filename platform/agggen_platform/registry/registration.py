"""Registers bundles as versions of a model, records their evaluations, and resolves their addresses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agggen.bundle import Bundle, fingerprint
from agggen.config import config_hash
from agggen.errors import AggGenError
from agggen.verification.critic.critic import Critic
from agggen_platform.mlflow_client import mlflow_key
from agggen_platform.registry.address import CANDIDATE, RegistryError, check_name, parse_address
from agggen_platform.registry.admission import admit
from agggen_platform.registry.client import registry_uri
from agggen_platform.registry.evaluations import Evaluation, read_evaluation
from agggen_platform.registry.store import CONFIG_HASH, DATA, FINGERPRINT, METRIC, RUN, Registry, Version
from agggen_platform.storage.bundles import get_bundle
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking.origin import masked


def register(
    bundle_address: str,
    name: str = "agggen",
    metrics: Mapping[str, float] | None = None,
    tags: Mapping[str, str] | None = None,
    *,
    uri: str | None = None,
) -> Version:
    """Registers the bundle or critic at `bundle_address` as a version of the model `name`, and makes it the candidate.

    If the bundle is already registered, and the version's address is `bundle_address` or still has the bundle, this
    version is returned, and the candidate does not change. `Version.new` shows whether a version was created.

    Args:
        bundle_address: a folder or ``s3://...``.
        metrics: further metrics to store with the version.
        tags: further tags, such as ``{"bundle.run": "webnlg-1"}``; an empty value removes a tag.
        uri: see `registry_uri`.

    Raises:
        BundleError: the bundle cannot be loaded, or its folder has files that do not belong to a bundle.
        RegistryError: the registry cannot be reached, or refuses the version.
    """
    check_name(name)
    address = Folder(bundle_address).address
    uri = registry_uri(uri)
    if not accepts(uri, address):
        raise RegistryError(
            f"the registry {masked(uri)} accepts no folder of this machine ({address}), which other machines cannot "
            "read; copy the bundle to a store: `agggen models register BUNDLE --to s3://bucket/models`"
        )
    bundle, actual = admit(address)
    registry = Registry(uri, create=True)
    existing = _known(registry, name, actual, address)
    described = {**_tags_of(bundle, address, metrics or {}), **(tags or {}), FINGERPRINT: actual}
    version = existing or registry.add_version(name, address, {key: tag for key, tag in described.items() if tag})
    if existing is None:
        registry.set_alias(name, CANDIDATE, version.number)
    return replace(registry.version(parse_address(str(version))), new=existing is None)


def accepts(uri: str, address: str) -> bool:
    """Whether the registry at `uri` accepts a bundle at `address`: an MLflow server accepts no local folder."""
    return not (uri.startswith(("http://", "https://")) and Folder(address).local is not None)


def record(model: str, report: Path | str, *, uri: str | None = None) -> Evaluation:
    """Stores the scores of a report with the version `model`; see `parse_address` and `read_evaluation`.

    Raises:
        RegistryError: there is no such version.
        BundleError: the version's bundle cannot be read.
    """
    registry = Registry(uri)
    version = registry.version(parse_address(model))
    bundle, actual = admit(version.source, version.fingerprint)
    evaluation = read_evaluation(report, actual, bundle, registry_uri(uri))
    registry.tag(version, evaluation.key, evaluation.to_json())
    return evaluation


def resolve(address: str, *, uri: str | None = None) -> str:
    """The address of the bundle of ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``; RegistryError if none exists."""
    return Registry(uri).version(parse_address(address)).source


def _known(registry: Registry, name: str, expected: str, address: str) -> Version | None:
    """The registered version of this bundle, if its source is `address` or still holds the unchanged bundle."""
    if name not in registry.names():
        return None
    versions = registry.versions(name, expected)
    return next(
        (version for version in versions if version.source == address or _is_at(version.source, expected)), None
    )


def _is_at(address: str, expected: str) -> bool:
    try:
        return fingerprint(get_bundle(address)) == expected
    except AggGenError:  # it was deleted or modified, so its version is unusable
        return False


def _tags_of(bundle: Bundle | Critic, address: str, metrics: Mapping[str, float]) -> dict[str, str]:
    described = {} if isinstance(bundle, Critic) else {CONFIG_HASH: config_hash(dict(bundle.config))}
    described[RUN] = run_of(address)
    for source, value in bundle.sources.items():
        described[mlflow_key(DATA + source)] = value if isinstance(value, str) else json.dumps(value)
    numbers = {**bundle.metrics, **metrics}
    return described | {mlflow_key(METRIC + metric): repr(float(value)) for metric, value in numbers.items()}


def run_of(address: str) -> str:
    """The name of the run that wrote the bundle, if its address is ``RUNS/NAME/bundle``; else empty."""
    *_, run, last = ("", "", *address.rstrip("/").split("/"))
    return run if last == "bundle" else ""
