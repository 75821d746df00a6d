"""The ports that agggen's parts listen at by default: free, or who has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agggen_platform.doctor import reach
from agggen_platform.doctor.findings import Check, Finding, note, ok, warning
from agggen_platform.doctor.settings import Settings

AREA = "ports"


@dataclass(frozen=True)
class Port:
    """A port, whose it is, and how to choose another."""

    number: int
    what: str
    usual: tuple[str, ...]
    """Parts of the names of processes that have it where all is well."""
    instead: str


PORTS = (
    Port(8000, "the endpoint", ("ray", "haproxy"), "agggen serve BUNDLE http.port=8001"),
    Port(8265, "Ray's dashboard and jobs", ("ray", "dashboard"), "ray start --head --dashboard-port=8266"),
    Port(6379, "the head of a Ray cluster", ("gcs_server",), "ray start --head --port=6380"),
    Port(5000, "MLflow", ("mlflow", "uvicorn", "gunicorn"), "agggen runs ui --port 5001"),
    Port(8080, "Ray's metrics", ("ray", "dashboard"), "ray start --head --metrics-export-port=8081"),
)


def checks(_: Settings) -> list[Check]:
    return [Check(AREA, "ports", ports, 20)]


def ports(wanted: tuple[Port, ...] = PORTS) -> Iterator[Finding]:
    for port in wanted:
        name = str(port.number)
        found = reach.listeners(port.number)
        if not found:
            yield ok(name, f"free, for {port.what}")
            continue
        who = ", ".join(sorted({str(one) for one in found}))
        if all(one.name and any(usual in one.name.lower() for usual in port.usual) for one in found):
            yield note(name, f"{port.what} has it: {who}", f"{port.instead}  # for a second one")
        else:
            yield warning(name, f"{who} has the port of {port.what}", port.instead)
