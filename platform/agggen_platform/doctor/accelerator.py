"""torch and GPUs: a probe imports it, multiplies matrices on every device, and says what it was built with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agggen_platform.doctor.findings import Check, Finding, Level, error, ok, warning
from agggen_platform.doctor.probing import ProbeError, probe
from agggen_platform.doctor.settings import Settings
from agggen_platform.doctor.versions import TORCH, installed, judged

AREA = "torch"
SECONDS = 90.0  # that importing torch and waking all GPUs of a busy machine may take
_DEVICES = Path("/dev")


def checks(settings: Settings) -> list[Check]:
    return [Check(AREA, "torch", lambda: look(settings), SECONDS + 10)]


def look(settings: Settings) -> Iterator[Finding]:
    found = installed("torch")
    if found is None:
        yield error("version", "torch is not installed", f"pip install '{TORCH.requirement}'")
        return
    yield judged(found, TORCH)
    try:
        seen = probe("torch_probe", seconds=SECONDS)
    except ProbeError as failed:
        yield error("import", f"torch {found} does not work: {failed}", f"pip install --force-reinstall torch=={found}")
        return
    yield from of_probe(seen, settings, has_gpu())


def has_gpu() -> bool:
    """Whether the machine has an NVIDIA GPU, asked without torch."""
    return any(_DEVICES.glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


def of_probe(seen: dict[str, Any], settings: Settings, gpu: bool) -> Iterator[Finding]:
    """What the probe's answer means for the job.

    Args:
        gpu: whether the machine has one.
    """
    if seen["wrong"]:
        again = f"pip install --force-reinstall torch=={seen['version']}"
        yield error("CPU", f"a small kernel fails on the CPU: {seen['wrong']}", again)
    else:
        yield ok("CPU", f"a small kernel computes the right numbers; threads: {seen['threads']}")
    yield _cuda(seen, settings, gpu)
    for number, device in enumerate(seen["devices"]):
        yield _device(number, device, seen)
    if len(seen["devices"]) > 1:
        yield _nccl(seen)


def _cuda(seen: dict[str, Any], settings: Settings, gpu: bool) -> Finding:
    missed = Level.ERROR if settings.needs_gpu_here else Level.WARNING if gpu else Level.NOTE
    if seen["build"] is None:
        if missed is Level.NOTE:
            return ok("CUDA", "a CPU build, and this machine has no NVIDIA GPU")
        what = "this machine has an NVIDIA GPU" if gpu else "the job asks for GPUs, and this machine has none"
        remedy = "pip install --force-reinstall torch  # from the index of your CUDA version, as torch's site says"
        return Finding(missed, "CUDA", f"torch is a CPU build; {what}", remedy)
    if seen["unusable"] or not seen["devices"]:
        why = seen["unusable"] or "no device is visible"
        found = f"built for CUDA {seen['build']}, but it cannot be used: {why}"
        if gpu:
            look = "nvidia-smi  # driver and devices; the driver must be as new as the build's CUDA"
            return Finding(missed, "CUDA", found, look)
        elsewhere = "agggen train PRESET training.device=cpu cluster.gpus_per_worker=0  # or run where there is a GPU"
        return Finding(missed, "CUDA", found, elsewhere)
    count = len(seen["devices"])
    return ok("CUDA", f"built for CUDA {seen['build']}, the driver has {seen['driver']}; GPUs: {count}")


def _device(number: int, device: dict[str, Any], seen: dict[str, Any]) -> Finding:
    name = f"cuda:{number}"
    about = f"{device['name']}, compute capability {device['capability']}, {device['memory'] / 2**30:.0f} GiB"
    if not device["wrong"]:
        return ok(name, f"{about}; a small kernel computes the right numbers")
    built = ", ".join(seen["architectures"]) or "none"
    return error(
        name,
        f"{about}: a small kernel fails: {device['wrong']} (this build has {built})",
        "pip install --force-reinstall torch  # a build for this GPU, or a newer driver: compare with nvidia-smi",
    )


def _nccl(seen: dict[str, Any]) -> Finding:
    if seen["nccl"]:
        return ok("NCCL", f"NCCL {seen['nccl']}")
    return warning(
        "NCCL",
        "several GPUs, but this torch was built without NCCL: workers cannot add up gradients on GPUs",
        "pip install --force-reinstall torch  # a CUDA build for Linux",
    )
