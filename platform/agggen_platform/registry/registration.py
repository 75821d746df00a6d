"""The actions on the registry: registers bundles, records evaluations, promotes versions, and rolls back."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agggen.bundle import Bundle, fingerprint
from agggen.config import config_hash
from agggen.errors import AggGenError
from agggen.verification.critic.critic import Critic
from agggen_platform.mlflow_client import mlflow_key
from agggen_platform.registry import store
from agggen_platform.registry.address import CANDIDATE, CHAMPION, ModelAddress, RegistryError, check_name, parse_address
from agggen_platform.registry.admission import admit, smoke_test
from agggen_platform.registry.evaluations import Evaluation, Gate, read_evaluation, utc_now
from agggen_platform.registry.store import Move, Registry, Version, registry_uri
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
    all_tags = {**_tags_of(bundle, address, metrics or {}), **(tags or {}), store.FINGERPRINT: bundle_fingerprint}
    version = existing or registry.add_version(name, address, {key: tag for key, tag in all_tags.items() if tag})
    if existing is None:
        registry.set_alias(name, CANDIDATE, version.number)
    return replace(registry.version(ModelAddress(name, version.number)), new=existing is None)


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
    tags = {} if isinstance(bundle, Critic) else {store.CONFIG_HASH: config_hash(dict(bundle.config))}
    tags[store.RUN] = run_of(address)
    for source, value in bundle.sources.items():
        tags[mlflow_key(store.DATA + source)] = value if isinstance(value, str) else json.dumps(value)
    all_metrics = {**bundle.metrics, **metrics}
    return tags | {mlflow_key(store.METRIC + metric): repr(float(value)) for metric, value in all_metrics.items()}


def run_of(address: str) -> str:
    """The run's name in a bundle address ``RUNS/NAME/bundle``; empty for other addresses."""
    *_, run, folder = ("", "", *address.rstrip("/").split("/"))
    return run if folder == "bundle" else ""


# --- aliases ---------------------------------------------------------------------------------------------------------


class PromotionRefused(AggGenError):
    """A version was refused for an alias; `failures` are the reasons."""

    exit_code = 9

    def __init__(self, subject: str, failures: Sequence[str]) -> None:
        self.failures = tuple(failures)
        super().__init__("\n".join([f"{subject} is refused:", *(f"  - {failure}" for failure in failures)]))


@dataclass(frozen=True)
class Promotion:
    version: Version  # which got the alias
    previous: Version | None  # which had the alias before
    note: str = ""  # the reason that the metric gate gave
    forced: bool = False  # whether the metric gate was overruled


def promote(
    name: str,
    version: str,
    alias: str = CHAMPION,
    *,
    gate: Gate | None = None,
    force: bool = False,
    uri: str | None = None,
) -> Promotion:
    """Gives the alias to a version that passes all checks; returns at once if the version already has it.

    `gate`: by default, BLEU must not be worse at all; `force` ignores it, but not the other checks, and is recorded in
    the alias's history. Raises PromotionRefused, which lists every check that failed, or RegistryError if there is no
    such version or another process moved the alias.
    """
    registry = Registry(uri)
    candidate = registry.version(ModelAddress(name, version=version))
    previous = registry.aliased_version(name, alias)
    if previous is not None and previous.number == candidate.number:
        return Promotion(candidate, previous, f"it is {alias} already")
    verdict = (gate or Gate()).judge(candidate, previous)
    bundle, failures = _admitted(candidate)
    if not verdict.passed and not force:
        failures.append(f"metric gate: {verdict.note}")
    if bundle is not None:
        failures += [f"smoke test: {fault}" for fault in smoke_test(bundle)]
    if failures:
        raise PromotionRefused(f"{candidate} as {alias}", failures)
    forced = force and not verdict.passed
    from_number = None if previous is None else previous.number
    registry.move(name, alias, Move(utc_now(), from_number, candidate.number, forced=forced, gate=verdict.note))
    return Promotion(candidate, previous, verdict.note, forced)


def rollback(name: str, alias: str = CHAMPION, *, uri: str | None = None) -> Promotion:
    """Gives the alias back to the version that had it before; a second call goes one version further back.

    Raises PromotionRefused if its bundle is missing or was changed, RegistryError if no version had the alias before.
    """
    registry = Registry(uri)
    current = registry.aliased_version(name, alias)
    earlier_numbers = earlier_versions(registry.moves(name, alias))
    if not earlier_numbers:
        raise RegistryError(f"no version of {name!r} was {alias} before, so there is no version to roll back to")
    number = earlier_numbers[-1]
    try:
        earlier_version = registry.version(ModelAddress(name, version=number))
        failures = _admitted(earlier_version)[1]
    except RegistryError as error:
        failures = [str(error)]
    if failures:
        option = "" if alias == CHAMPION else f" --alias {alias}"
        remedy = f"; choose another version: agggen models promote {name}/VERSION{option}"
        raise PromotionRefused(f"rollback to {name}/{number}", [failure + remedy for failure in failures])
    registry.move(name, alias, Move(utc_now(), None if current is None else current.number, number, back=True))
    return Promotion(earlier_version, current)


def earlier_versions(moves: Sequence[Move]) -> list[str]:
    """The versions to which repeated rollbacks return, in reverse order: the first rollback returns to the last one."""
    earlier_numbers: list[str] = []
    for move in moves:
        if not move.back:
            earlier_numbers += [] if move.from_version is None else [move.from_version]
            continue
        while earlier_numbers and earlier_numbers.pop() != move.to_version:
            pass
    return earlier_numbers


def _admitted(version: Version) -> tuple[Bundle | Critic | None, list[str]]:
    """The version's checked bundle and an empty list; else None and the reason."""
    if not version.fingerprint:
        return None, [f"bundle: {version} was not registered by agggen: it has no fingerprint"]
    try:
        return admit(version.source, version.fingerprint)[0], []
    except AggGenError as error:
        return None, [f"bundle: {error}"]
