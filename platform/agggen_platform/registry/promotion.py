"""Moves an alias to a version that passes three checks, and rolls it back.

    (a) the bundle exists at its registered address, unchanged
    (b) metric gate: its metric is not worse than that of the version that has the alias, on all common evaluations
    (c) smoke test: the bundle generates non-empty texts by plans that fit their records

Every failure is reported. `rollback` only checks (a).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agggen.bundle import Bundle
from agggen.errors import AggGenError
from agggen.verification.critic.critic import Critic
from agggen_platform.registry.address import CHAMPION, ModelAddress, RegistryError, check_alias
from agggen_platform.registry.admission import admit, smoke_test
from agggen_platform.registry.evaluations import Gate, utc_now
from agggen_platform.registry.store import Move, Registry, Version


class PromotionRefused(AggGenError):
    """A version may not get the alias; `failures` lists the reasons."""

    exit_code = 9

    def __init__(self, subject: str, failures: Sequence[str]) -> None:
        self.failures = tuple(failures)
        super().__init__("\n".join([f"{subject} is refused:", *(f"  - {failure}" for failure in failures)]))


@dataclass(frozen=True)
class Promotion:
    """The version that got an alias, the version that had it before, and the note of the metric gate."""

    version: Version
    before: Version | None
    note: str = ""
    forced: bool = False


def promote(
    name: str,
    version: str,
    alias: str = CHAMPION,
    *,
    gate: Gate | None = None,
    force: bool = False,
    uri: str | None = None,
) -> Promotion:
    """Gives the alias to a version that passes all checks; if the version already has the alias, nothing is checked.

    Args:
        gate: by default BLEU must not be worse at all.
        force: ignore the metric gate, but not the other checks. The alias's history records this.
        uri: see `registry_uri`.

    Raises:
        PromotionRefused: lists every check that failed.
        RegistryError: there is no such version, the registry cannot be reached, or another process moved the alias.
    """
    registry = Registry(uri)
    candidate = registry.version(ModelAddress(name, version=version))
    before = registry.holder(name, check_alias(alias))
    if before is not None and before.number == candidate.number:
        return Promotion(candidate, before, f"it is {alias} already")
    verdict = (gate or Gate()).judge(candidate, before)
    bundle, failures = _admitted(candidate)
    if not verdict.passed and not force:
        failures.append(f"metric gate: {verdict.note}")
    if bundle is not None:
        failures += [f"smoke test: {fault}" for fault in smoke_test(bundle)]
    if failures:
        raise PromotionRefused(f"{candidate} as {alias}", failures)
    forced = force and not verdict.passed
    origin = None if before is None else before.number
    registry.move(name, alias, Move(utc_now(), origin, candidate.number, forced=forced, gate=verdict.note))
    return Promotion(candidate, before, verdict.note, forced)


def rollback(name: str, alias: str = CHAMPION, *, uri: str | None = None) -> Promotion:
    """Gives the alias back to the version that had it before; a second call goes one version further back.

    Raises:
        PromotionRefused: that version's bundle is missing or was changed.
        RegistryError: no version had the alias before; or as in `promote`.
    """
    registry = Registry(uri)
    current = registry.holder(name, alias)
    earlier = earlier_versions(registry.moves(name, alias))
    if not earlier:
        raise RegistryError(f"no version of {name!r} was {alias} before; there is no version to roll back to")
    number = earlier[-1]
    try:
        target = registry.version(ModelAddress(name, version=number))
        failures = _admitted(target)[1]
    except RegistryError as error:
        failures = [str(error)]
    if failures:
        option = "" if alias == CHAMPION else f" --alias {alias}"
        choice = f"; choose another version: agggen models promote {name}/VERSION{option}"
        raise PromotionRefused(f"rollback to {name}/{number}", [failure + choice for failure in failures])
    registry.move(name, alias, Move(utc_now(), None if current is None else current.number, number, back=True))
    return Promotion(target, current)


def earlier_versions(moves: Sequence[Move]) -> list[str]:
    """The versions to which repeated rollbacks would return; the first rollback returns to the last version."""
    earlier: list[str] = []
    for move in moves:
        if not move.back:
            earlier += [] if move.from_version is None else [move.from_version]
            continue
        while earlier and earlier.pop() != move.to_version:
            pass
    return earlier


def _admitted(version: Version) -> tuple[Bundle | Critic | None, list[str]]:
    """The version's checked bundle, or the reasons why it is refused."""
    if not version.fingerprint:
        return None, [f"bundle: {version} was not registered by agggen: it has no fingerprint"]
    try:
        return admit(version.source, version.fingerprint)[0], []
    except AggGenError as error:
        return None, [f"bundle: {error}"]
