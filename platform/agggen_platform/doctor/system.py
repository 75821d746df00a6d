"""Memory, CPUs, open files and the clock, as the operating system and a container's limits (cgroups) give them."""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import psutil

from agggen_platform.doctor.findings import Check, Finding, error, note, ok, warning
from agggen_platform.doctor.settings import Settings

AREA = "system"
_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_LEAST_MEMORY, _GOOD_MEMORY = 1 << 30, 4 << 30  # a local Ray cluster takes 1 GB, 1.9 GB with its dashboard
_LEAST_FILES, _GOOD_FILES = 1024, 4096
_NO_LIMIT = 1 << 60  # what cgroup v1 writes for none is somewhat below 2^63
_BEGINNING = 1767225600.0  # 2026-01-01: agggen is younger


def checks(_: Settings) -> list[Check]:
    return [
        Check(AREA, "memory", memory, 5),
        Check(AREA, "CPUs", cpus, 5),
        Check(AREA, "open files", open_files, 5),
        Check(AREA, "clock", clock, 5),
    ]


@dataclass(frozen=True)
class Limits:
    """What the container may use; None where nothing limits it."""

    memory: int | None  # bytes
    used: int  # bytes, by all of the container
    cpus: float | None


def limits() -> Limits:
    """The limits of this process's control group, of version 2 or 1."""
    groups = dict(_groups())
    two = _folder(_CGROUPS, groups.get("", "/"))
    if (two / "memory.max").exists() or (two / "cpu.max").exists():
        quota, _, period = (_read(two / "cpu.max") or "max 100000").partition(" ")
        share = None if quota == "max" else int(quota) / int(period or 100000)
        return Limits(_number(_read(two / "memory.max")), _number(_read(two / "memory.current")) or 0, share)
    memory_folder = _folder(_CGROUPS / "memory", groups.get("memory", "/"))
    cpu_folder = _folder(_CGROUPS / "cpu", groups.get("cpu", "/"))
    quota_us = int(_read(cpu_folder / "cpu.cfs_quota_us") or -1)
    period_us = int(_read(cpu_folder / "cpu.cfs_period_us") or 100000)
    return Limits(
        _number(_read(memory_folder / "memory.limit_in_bytes")),
        _number(_read(memory_folder / "memory.usage_in_bytes")) or 0,
        quota_us / period_us if quota_us > 0 else None,
    )


def _groups() -> Iterator[tuple[str, str]]:
    for line in (_read(_OWN) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _folder(root: Path, path: str) -> Path:
    inside = root / path.lstrip("/")
    return inside if inside.is_dir() else root  # inside a container its own group is the root


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    value = int(text) if text and text.isdigit() else None
    return None if value is None or value >= _NO_LIMIT else value


def memory() -> Iterator[Finding]:
    machine, limited = psutil.virtual_memory(), limits()
    total, free = machine.total, machine.available
    whose = "of this machine"
    if limited.memory is not None and limited.memory < total:
        total, free = limited.memory, min(free, max(0, limited.memory - limited.used))
        whose = "that this container may use"
    found = f"{free / 2**30:.1f} GiB are free of {total / 2**30:.1f} GiB {whose}"
    remedy = (
        "docker run --memory=8g ...  # on Kubernetes resources.limits.memory; or end what takes it: ps aux --sort=-rss"
    )
    if free < _LEAST_MEMORY:
        yield error("memory", f"{found}; a cluster of a job's own does not start with less than 1 GiB", remedy)
    elif free < _GOOD_MEMORY:
        yield warning("memory", f"{found}; Ray takes up to 2, MLflow's server half a GiB, beside the job", remedy)
    else:
        yield ok("memory", found)


def cpus() -> Iterator[Finding]:
    """Libraries count the CPUs that they see; a quota below that makes their threads wait for each other."""
    seen = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = limits().cpus
    if quota is None or quota >= seen:
        yield ok("CPUs", f"{seen}, without a smaller quota")
        return
    threads = os.environ.get("OMP_NUM_THREADS", "")
    found = f"{quota:g} by the quota of this container, of {seen} that programs see"
    wanted = max(1, math.floor(quota))
    if threads.isdigit() and int(threads) <= math.ceil(quota):
        yield ok("CPUs", f"{found}; OMP_NUM_THREADS={threads}")
    else:
        remedy = f"export OMP_NUM_THREADS={wanted}  # or training.threads={wanted}"
        yield warning("CPUs", f"{found}: torch starts {seen} threads, which wait for each other", remedy)


def open_files() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    soft, hard = (1 << 30 if soft == endless else soft), (1 << 30 if hard == endless else hard)
    if soft >= _GOOD_FILES:
        yield ok("open files", f"{soft:,} at once")
    elif hard >= _GOOD_FILES:
        found = f"{soft:,} at once, {hard:,} if asked for; Ray asks by itself, other servers do not"
        yield note("open files", found, f"ulimit -n {min(hard, 65536)}")
    else:
        remedy = "ulimit -Hn 65536 && ulimit -n 65536  # as root; or docker run --ulimit nofile=65536:65536"
        found = f"{soft:,} at once, {hard:,} at most: many workers or connections end in 'Too many open files'"
        yield (error if hard < _LEAST_FILES else warning)("open files", found, remedy)


def clock() -> Iterator[Finding]:
    """The time itself is compared with servers', where there are some (areas storage and mlflow)."""
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    if now < _BEGINNING:
        remedy = "chronyc makestep  # or timedatectl set-ntp true; in a container, on its host"
        yield error("clock", f"it is {shown} here: certificates and signatures are refused", remedy)
        return
    zone = os.environ.get("TZ", "").lstrip(":")
    if zone and not _exists(zone):
        yield warning("clock", f"TZ={zone} is no time zone, so times are in UTC: {shown}", "export TZ=UTC")
    else:
        yield ok("clock", f"{shown}; logs and MLflow hold seconds since 1970, whatever the zone")


def _exists(zone: str) -> bool:
    if any(sign.isdigit() or sign == "," for sign in zone):  # POSIX rules such as CET-1CEST
        return True
    try:
        ZoneInfo(zone)
    except (OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError
        return False
    except KeyError:
        return False
    return True
