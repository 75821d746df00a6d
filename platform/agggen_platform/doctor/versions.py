"""The oldest versions that agggen accepts, and why: the same floors as in pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from agggen_platform.doctor.findings import Finding, error, ok


@dataclass(frozen=True)
class Floor:
    """The oldest version of a package that is accepted."""

    package: str
    oldest: str
    why: str
    requirement: str
    """What to give to pip."""


TORCH = Floor("torch", "2.10", "older ones run code of a weights file (CVE-2026-24747)", "torch>=2.10")
RAY = Floor(
    "ray",
    "2.55",
    "older ones run pickles out of Parquet files (CVE-2026-41486), let web pages run code on the cluster and delete "
    "jobs (CVE-2025-62593, CVE-2026-27482)",
    "ray[data,train,serve,tune]>=2.55",
)
MLFLOW = Floor("mlflow", "3.17", "agggen is made for, and tested with, newer ones only", "mlflow>=3.17,<4")


def installed(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def is_older(found: str, floor: Floor) -> bool:
    return Version(found).release < Version(floor.oldest).release


def judged(found: str, floor: Floor) -> Finding:
    """Whether the version `found` of the package here is new enough."""
    if is_older(found, floor):
        return error(
            "version",
            f"{floor.package} {found} is older than {floor.oldest}: {floor.why}",
            f"pip install '{floor.requirement}'",
        )
    return ok("version", f"{floor.package} {found}")
