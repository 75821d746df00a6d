"""What a panel and a dashboard are, and the panels of the nodes that all dashboards end with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Panel:
    """One panel; `queries` are pairs of PromQL and legend."""

    title: str
    about: str
    unit: str
    """One of Grafana's: s, ms, bytes, percentunit, reqps, short, ..."""
    queries: Sequence[tuple[str, str]]
    width: int = 8
    """Of 24."""
    kind: Literal["timeseries", "stat"] = "timeseries"
    stacked: bool = False
    least: float | None = 0
    red: float | None = None
    """From this value on something is wrong."""


@dataclass(frozen=True)
class Board:
    """A dashboard. A string among the panels is the title of a row; variables are name, label, query."""

    uid: str
    title: str
    about: str
    hours: int
    variables: Sequence[tuple[str, str, str]]
    panels: Sequence[Panel | str]


def machines(kinds: str) -> list[Panel | str]:
    """The nodes below; `kinds` of processes are named in the panels of their CPU and memory."""
    return [
        "Nodes",
        Panel(
            "CPU",
            "Of each node. Training and generation use what they have; a head near 1 answers late.",
            "percentunit",
            [("max by (ip) (ray_node_cpu_utilization) / 100", "{{ip}}")],
        ),
        Panel(
            "Memory of nodes",
            "Ray kills workers at 95 %, the largest group of them first.",
            "percentunit",
            [("max by (ip) (ray_node_mem_used / ray_node_mem_total)", "{{ip}}")],
            red=0.93,
        ),
        Panel(
            "Memory by process",
            f"Resident, of {kinds} and of Ray's own processes; memory that is shared counts for each.",
            "bytes",
            [("sum by (Component) (ray_component_rss_bytes)", "{{Component}}")],
            stacked=True,
        ),
        Panel(
            "Disk left",
            "Of the root file system. Below 5 % Ray stops spilling objects, if its temporary folder is there.",
            "percentunit",
            [("min by (ip) (ray_node_disk_free / (ray_node_disk_free + ray_node_disk_usage))", "{{ip}}")],
        ),
        Panel(
            "GPU",
            "Use of each GPU; empty on nodes without.",
            "percentunit",
            [("max by (ip, GpuIndex) (ray_node_gpus_utilization) / 100", "{{ip}} {{GpuIndex}}")],
        ),
        Panel(
            "GPU memory",
            "Held on each GPU; empty on nodes without.",
            "bytes",
            [("max by (ip, GpuIndex) (ray_node_gram_used) * 1024 * 1024", "{{ip}} {{GpuIndex}}")],
        ),
    ]
