"""Python: which one runs, whether anything hides its module `platform`, whether agggen's packages are what it needs."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement

from agggen_platform.doctor.findings import Check, Finding, error, note, ok
from agggen_platform.doctor.settings import Settings
from agggen_platform.doctor.versions import MLFLOW, RAY, TORCH, installed

AREA = "python"
_JUDGED_ELSEWHERE = {floor.package for floor in (TORCH, RAY, MLFLOW)}
_CONTAINER = Path("/.dockerenv")


def checks(settings: Settings) -> list[Check]:
    return [
        Check(AREA, "version", version, 5),
        Check(AREA, "environment", environment, 5),
        Check(AREA, "platform", shadow, 5),
        Check(AREA, "packages", packages, 10),
        Check(AREA, "configuration", lambda: configuration(settings), 5),
    ]


def version() -> Iterator[Finding]:
    yield ok("version", f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}")


def environment() -> Iterator[Finding]:
    """A virtual environment, conda's, or a container's: what pip installs there harms nothing else."""
    if sys.prefix != sys.base_prefix:
        yield ok("environment", f"a virtual environment, {sys.prefix}")
    elif conda := os.environ.get("CONDA_PREFIX"):
        yield ok("environment", f"a conda environment, {conda}")
    elif _CONTAINER.exists() or "KUBERNETES_SERVICE_HOST" in os.environ:
        yield ok("environment", f"{sys.prefix} of a container")
    else:
        yield note(
            "environment",
            f"the system's Python ({sys.prefix}): packages of other programs get in the way, now or later",
            "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e .",
        )


def shadow() -> Iterator[Finding]:
    """Ray, MLflow and pip import the standard module `platform`; a folder or file of that name before it breaks all."""
    standard = Path(sysconfig.get_paths()["stdlib"]).resolve()
    places = [os.getcwd() if place == "" else place for place in sys.path]
    spec = PathFinder.find_spec("platform", places)
    origin = Path(spec.origin).resolve() if spec and spec.origin else None
    if origin is not None and origin.parent == standard:
        yield ok("platform", "Python's own module `platform` is the one that is imported")
    else:
        yield error(
            "platform",
            f"{origin} hides Python's own module `platform`, which Ray, MLflow and pip import",
            f"mv {origin} {origin}.away",
        )


def packages() -> Iterator[Finding]:
    """What agggen requires is installed, in versions that it takes."""
    try:
        wanted = [Requirement(line) for line in requires("agggen") or ()]
    except PackageNotFoundError:
        yield note(
            "packages", "agggen is not installed (run from a source tree)", "pip install -c constraints.txt -e ."
        )
        return
    wrong = False
    for one in wanted:
        found = installed(one.name)
        optional = one.marker is not None and "extra" in str(one.marker)
        if one.name in _JUDGED_ELSEWHERE or (optional and found is None):
            continue
        if found is None or not one.specifier.contains(found, prereleases=True):
            wrong = True
            state = "is not installed" if found is None else f"{found} is installed"
            requirement = f"{one.name}{one.specifier}"
            yield error("packages", f"{requirement} is needed, and {one.name} {state}", f"pip install '{requirement}'")
    if not wrong:
        count = len({one.name for one in wanted if installed(one.name)})
        yield ok("packages", f"agggen {installed('agggen')}, and {count} packages in versions that it takes")


def configuration(settings: Settings) -> Iterator[Finding]:
    if settings.unread is not None:
        yield error(
            "configuration",
            f"the job's configuration cannot be read, as torch cannot be imported: {settings.unread}",
            "agggen doctor --only torch",
        )
