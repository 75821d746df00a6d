"""Python, and whether the installed packages are in the version ranges that agggen declares."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from agggen_platform.doctor.findings import Finding, error, note, ok
from agggen_platform.doctor.settings import Settings


def check(_: Settings) -> Iterator[Finding]:
    yield ok("version", f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}")
    try:
        requirements = [Requirement(line) for line in requires("agggen") or ()]
    except PackageNotFoundError:
        yield note("packages", "agggen is run from its sources: versions are not checked", "pip install -e .")
        return
    unmet = [requirement for requirement in requirements if not _is_met(requirement)]
    for requirement in unmet:
        needed, installed = f"{requirement.name}{requirement.specifier}", installed_version(requirement.name)
        state = "it is not installed" if installed is None else f"{installed} is installed"
        yield error("packages", f"agggen needs {needed}, but {state}", f"pip install '{needed}'")
    if not unmet:
        yield ok("packages", f"agggen {version('agggen')}, and the versions of its packages are in range")


def _is_met(requirement: Requirement) -> bool:
    """Whether a package is installed in the range; one of an extra, or for another platform, need not be installed."""
    installed = installed_version(requirement.name)
    if installed is None:
        return requirement.marker is not None
    return requirement.specifier.contains(installed, prereleases=True)


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
