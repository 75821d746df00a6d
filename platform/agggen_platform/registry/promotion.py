"""Moves an alias to a version that passes three checks (bundle, metric gate, smoke test), and back again."""

from collections.abc import Sequence
from dataclasses import dataclass

from agggen.bundle import Bundle
from agggen.errors import AggGenError
from agggen.verification.critic.critic import Critic
from agggen_platform.registry.address import CHAMPION, ModelAddress, RegistryError
from agggen_platform.registry.admission import admit, smoke_test
from agggen_platform.registry.evaluations import Gate, utc_now
from agggen_platform.registry.store import Move, Registry, Version


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
    bundle, failures = _load_checked(candidate)
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
        failures = _load_checked(earlier_version)[1]
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


def _load_checked(version: Version) -> tuple[Bundle | Critic | None, list[str]]:
    """The version's bundle, after `admit` has checked it, and an empty list; else None and the reasons."""
    if not version.fingerprint:
        return None, [f"bundle: {version} was not registered by agggen: it has no fingerprint"]
    try:
        return admit(version.source, version.fingerprint)[0], []
    except AggGenError as error:
        return None, [f"bundle: {error}"]
