"""The areas that a doctor knows, and the checks of each. An area whose code cannot be imported is a finding too."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from agggen.errors import ConfigError
from agggen_platform.doctor.findings import Check, Finding
from agggen_platform.doctor.settings import Settings

_CHECKS = {  # the function that lists an area's checks
    "python": "interpreter.checks",
    "torch": "accelerator.checks",
    "java": "java.checks",
    "ray": "cluster.checks",
    "mlflow": "tracking.checks",
    "storage": "store.checks",
    "data": "data.checks",
    "caches": "data.cache_checks",
    "allennlp": "srl.checks",
    "ports": "ports.checks",
    "disk": "disk.checks",
    "system": "system.checks",
}
AREAS = tuple(_CHECKS)


def checks_of(settings: Settings, only: Sequence[str] = ()) -> list[Check]:
    """The checks of all areas, or of those in `only`.

    Raises:
        ConfigError: there is no such area.
    """
    for area in only:
        if area not in AREAS:
            near = difflib.get_close_matches(area, AREAS, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"no area is called {area!r}; {hint}There are {', '.join(AREAS)}")
    return [check for area in AREAS if not only or area in only for check in _checks(area, settings)]


def _checks(area: str, settings: Settings) -> list[Check]:
    module, _, function = _CHECKS[area].rpartition(".")
    try:
        listed: Callable[[Settings], list[Check]] = getattr(import_module(f"{__package__}.{module}"), function)
        return listed(settings)
    except Exception as broken:
        return [Check(area, area, _raises(broken), 1)]


def _raises(broken: Exception) -> Callable[[], Iterable[Finding]]:
    def look() -> Iterable[Finding]:
        raise broken

    return look
