"""Registers bundles as versions of a model, records their evaluations, and resolves their addresses."""

import json
from collections.abc import Mapping
from contextlib import suppress
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
    """Registers the bundle or critic at `bundle_address` as a version of the model `name`, with the alias candidate.

    If a version at `bundle_address`, or at another address that still contains the bundle, is registered already, it
    is returned instead, and the alias does not change; `Version.new` is then False.

    `metrics` and `tags`, such as ``{"bundle.run": "webnlg-1"}``, are added to the bundle's; an empty tag removes one.
    """
    check_name(name)
    address = Folder(bundle_address).address
    uri = registry_uri(uri)
    if not accepts_address(uri, address):
        raise RegistryError(
            f"the registry {masked(uri)} accepts no folder of this machine ({address}), which others cannot read; "
            "copy the bundle to a store: `agggen models register BUNDLE --to s3://bucket/models`"
        )
    bundle, bundle_fingerprint = admit(address)
    registry = Registry(uri, create=True)
    existing = _existing_version(registry, name, bundle_fingerprint, address)
    all_tags = {**_tags_of(bundle, address, metrics or {}), **(tags or {}), FINGERPRINT: bundle_fingerprint}
    version = existing or registry.add_version(name, address, {key: tag for key, tag in all_tags.items() if tag})
    if existing is None:
        registry.set_alias(name, CANDIDATE, version.number)
    return replace(registry.version(parse_address(str(version))), new=existing is None)


def accepts_address(uri: str, address: str) -> bool:
    """Whether the registry at `uri` accepts the bundle address; an MLflow server does not accept local folders."""
    return not (uri.startswith(("http://", "https://")) and Folder(address).local is not None)


def record(model: str, report: Path | str, *, uri: str | None = None) -> Evaluation:
    """Stores the scores of a report with the version `model`, an address; see `read_evaluation`."""
    registry = Registry(uri)
    version = registry.version(parse_address(model))
    bundle, bundle_fingerprint = admit(version.source, version.fingerprint)
    evaluation = read_evaluation(report, bundle_fingerprint, bundle, registry_uri(uri))
    registry.tag(version, evaluation.key, evaluation.to_json())
    return evaluation


def resolve(address: str, *, uri: str | None = None) -> str:
    """The address of the bundle of ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``; raises RegistryError."""
    return Registry(uri).version(parse_address(address)).source


def _existing_version(registry: Registry, name: str, digest: str, address: str) -> Version | None:
    """The version of the bundle with the fingerprint `digest` whose source is `address` or contains the bundle."""
    for version in registry.versions(name, digest) if name in registry.names() else ():
        with suppress(AggGenError):  # the bundle was deleted or modified
            if version.source == address or fingerprint(get_bundle(version.source)) == digest:
                return version
    return None


def _tags_of(bundle: Bundle | Critic, address: str, metrics: Mapping[str, float]) -> dict[str, str]:
    tags = {} if isinstance(bundle, Critic) else {CONFIG_HASH: config_hash(dict(bundle.config))}
    tags[RUN] = run_of(address)
    for source, value in bundle.sources.items():
        tags[mlflow_key(DATA + source)] = value if isinstance(value, str) else json.dumps(value)
    all_metrics = {**bundle.metrics, **metrics}
    return tags | {mlflow_key(METRIC + metric): repr(float(value)) for metric, value in all_metrics.items()}


def run_of(address: str) -> str:
    """The run's name in a bundle address ``RUNS/NAME/bundle``; empty for other addresses."""
    *_, run, folder = ("", "", *address.rstrip("/").split("/"))
    return run if folder == "bundle" else ""
