"""Ports with real sockets; disks, memory, CPUs, open files and clocks as small machines and containers have them."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from agggen_platform.doctor import disk, ports, reach, system
from agggen_platform.doctor.settings import Settings
from tests.processes import free_ports
from tests.unit.doctor.servers import only, said

GIB = 1 << 30


# --- ports -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)], ids=["IPv4", "IPv6"])
def taken(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """Host and port of a socket of ours that listens."""
    host, family = request.param
    with socket.socket(family) as one:
        try:
            one.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        one.listen()
        yield host, one.getsockname()[1]


def test_a_port_that_is_free() -> None:
    (number,) = free_ports(1)
    (found,) = ports.ports((ports.Port(number, "MLflow", ("mlflow",), "another"),))
    assert (found.level, found.about, found.found) == ("ok", str(number), "free, for MLflow")


def test_a_port_that_another_program_has(taken: tuple[str, int]) -> None:
    host, number = taken
    (found,) = ports.ports((ports.Port(number, "MLflow", ("mlflow",), "agggen runs ui --port 5001"),))
    name = psutil.Process().name()
    assert (found.level, found.remedy) == ("warning", "agggen runs ui --port 5001")
    assert found.found == f"{name} (process {os.getpid()}) at {host} has the port of MLflow"


def test_a_port_that_its_own_program_has(taken: tuple[str, int]) -> None:
    usual = (psutil.Process().name().lower(),)
    (found,) = ports.ports((ports.Port(taken[1], "MLflow", usual, "agggen runs ui --port 5001"),))
    assert (found.level, found.found.startswith("MLflow has it: ")) == ("note", True)


def test_a_system_that_does_not_say_who_listens(taken: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS without root: a knock says whether somebody does."""

    def refused(_: str) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refused)
    assert reach.listeners(free_ports(1)[0]) == []
    if taken[0] == "127.0.0.1":
        assert reach.listeners(taken[1]) == [reach.Listener("127.0.0.1", None, None)]


def test_a_process_that_cannot_be_seen_is_no_known_one() -> None:
    assert str(reach.Listener("0.0.0.0", None, None)) == "a process of another user or container at 0.0.0.0"


def test_the_ports_are_those_that_agggen_and_ray_use() -> None:
    assert [port.number for port in ports.PORTS] == [8000, 8265, 6379, 5000, 8080]


# --- disk --------------------------------------------------------------------------------------------------------

Usage = Callable[[float, float], None]


@pytest.fixture
def usage(monkeypatch: pytest.MonkeyPatch) -> Usage:
    """Sets what all disks have: GiB in all, and free."""

    def call(total: float, free: float) -> None:
        size = SimpleNamespace(total=int(total * GIB), free=int(free * GIB))
        monkeypatch.setattr(disk, "shutil", SimpleNamespace(disk_usage=lambda _: size))

    return call


def test_this_machines_disks_can_be_read() -> None:
    assert set(said(disk.room(Settings()))) == {"runs", "cache"}
    assert {*said(disk.ray_folder()), *said(disk.shared_memory())} == {"ray", "shared memory"}


@pytest.mark.parametrize(("free", "level"), [(100, "ok"), (3, "warning"), (0.5, "error")])
def test_room_for_runs(free: float, level: str, usage: Usage) -> None:
    usage(1000, free)
    assert said(disk.room(Settings())) == {"runs": level, "cache": level}


@pytest.mark.parametrize(("free", "level"), [(500, "ok"), (80, "warning"), (50, "error"), (10, "error")])
def test_ray_stops_where_its_disk_is_nearly_full(free: float, level: str, usage: Usage) -> None:
    usage(1000, free)
    (found,) = disk.ray_folder()
    assert (found.level, level == "ok" or str(found.remedy).startswith("du -sh ")) == (level, True)


def test_the_folder_of_ray(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(home))
    assert f"the disk of {home}/ray is" in only(disk.ray_folder(), "ray").found


@pytest.mark.parametrize(
    ("free", "level", "words"),
    [(16, "ok", None), (2, "note", "--object-store-memory=1932525568"), (1 / 16, "warning", "docker run --shm-size")],
)
def test_shared_memory(
    free: float, level: str, words: str | None, usage: Usage, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage(free, free)
    monkeypatch.setattr(disk, "psutil", SimpleNamespace(virtual_memory=lambda: SimpleNamespace(total=32 * GIB)))
    (found,) = disk.shared_memory()
    assert (found.level, words is None or words in str(found.remedy)) == (level, True)


def test_no_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_SHARED", tmp_path / "absent")
    assert said(disk.shared_memory()) == {"shared memory": "note"}


# --- memory and CPUs ---------------------------------------------------------------------------------------------

Group = Callable[..., None]


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    """Makes the files of control groups that are given by path, and a machine of 64 GiB and 8 CPUs."""

    def call(own: str, **files: str) -> None:
        (tmp_path / "own").write_text(own)
        for name, content in files.items():
            path = tmp_path / "cgroup" / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    monkeypatch.setattr(system, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(system, "_OWN", tmp_path / "own")
    machine = SimpleNamespace(total=64 * GIB, available=60 * GIB)
    monkeypatch.setattr(system, "psutil", SimpleNamespace(virtual_memory=lambda: machine))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return call


def two(memory: str, cpu: str, used: int = 0) -> dict[str, str]:
    return {"memory_dot_max": memory, "memory_dot_current": str(used), "cpu_dot_max": cpu}


def test_the_limits_of_this_machine_can_be_read() -> None:
    assert set(said(system.memory())) | set(said(system.cpus())) == {"memory", "CPUs"}


@pytest.mark.parametrize("files", [two("max", "max 100000"), {}])
def test_without_limits_it_is_the_machine_that_counts(files: dict[str, str], group: Group) -> None:
    group("0::/\n", **files)
    assert system.limits() == system.Limits(None, 0, None)
    assert only(system.memory(), "memory").found == "60.0 GiB are free of 64.0 GiB of this machine"
    assert said(system.cpus()) == {"CPUs": "ok"}


@pytest.mark.parametrize(("limit", "used", "level"), [(16, 2, "ok"), (6, 3, "warning"), (2, 1.5, "error")])
def test_the_memory_of_a_container(limit: int, used: float, level: str, group: Group) -> None:
    group("0::/\n", **two(str(limit * GIB), "max 100000", int(used * GIB)))
    (found,) = system.memory()
    free = f"{limit - used:.1f} GiB are free of {limit}.0 GiB that this container may use"
    assert (found.level, found.found.startswith(free)) == (level, True)


def test_a_group_below_the_root(group: Group) -> None:
    group("0::/pod/agggen\n", pod__agggen__memory_dot_max=str(2 * GIB), pod__agggen__cpu_dot_max="150000 100000")
    assert system.limits() == system.Limits(2 * GIB, 0, 1.5)


def test_groups_of_the_first_version(group: Group) -> None:
    files = {"limit_in_bytes": str(2 * GIB), "usage_in_bytes": str(GIB)}
    memory = {f"memory__pod__memory_dot_{name}": content for name, content in files.items()}
    cpu = {"cpu__cpu_dot_cfs_quota_us": "50000", "cpu__cpu_dot_cfs_period_us": "100000"}
    group("4:memory:/pod\n1:cpu,cpuacct:/pod\n0::/\n", **memory, **cpu)  # the second is seen as the root
    assert system.limits() == system.Limits(2 * GIB, GIB, 0.5)
    group(
        "4:memory:/pod\n", memory__pod__memory_dot_limit_in_bytes=str((1 << 63) - 4096), cpu__cpu_dot_cfs_quota_us="-1"
    )
    assert system.limits() == system.Limits(None, GIB, None)


@pytest.mark.parametrize(
    ("quota", "threads", "level"),
    [("200000 100000", None, "warning"), ("200000 100000", "2", "ok"), ("200000 100000", "8", "warning")],
)
def test_a_quota_of_cpus_that_libraries_do_not_see(
    quota: str, threads: str | None, level: str, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    group("0::/\n", **two("max", quota))
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    (found,) = system.cpus()
    assert found.level == level
    assert level == "ok" or str(found.remedy).startswith("export OMP_NUM_THREADS=2 ")


# --- open files and clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("soft", "hard", "level"),
    [
        (65536, 65536, "ok"),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, "ok"),
        (1024, 65536, "note"),
        (1024, 2048, "warning"),
        (256, 256, "error"),
    ],
)
def test_open_files(soft: int, hard: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    (found,) = system.open_files()
    assert (found.level, level == "ok" or "ulimit" in str(found.remedy)) == (level, True)


@pytest.mark.parametrize(
    ("zone", "level"), [(None, "ok"), ("UTC", "ok"), ("CET-1CEST,M3.5.0,M10.5.0", "ok"), ("Mars/Olympus", "warning")]
)
def test_time_zones(zone: str | None, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if zone is None:
        monkeypatch.delenv("TZ", raising=False)
    else:
        monkeypatch.setenv("TZ", zone)
    assert said(system.clock()) == {"clock": level}


def test_a_clock_that_was_never_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 86400.0)
    (found,) = system.clock()
    assert (found.level, "1970-01-0" in found.found) == ("error", True)
