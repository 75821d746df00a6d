"""Prints what torch is, which GPUs it sees, and whether a small kernel computes the right numbers on each."""

import json
from typing import Any

import torch

SIZE = 256  # of the matrices that are multiplied


def kernel(device: str) -> str | None:
    """None where the product is right, else what is wrong."""
    try:
        ones = torch.ones(SIZE, SIZE, device=device)
        total = float((ones @ ones).sum().item())
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"
    return None if total == SIZE**3 else f"a product of {SIZE} x {SIZE} ones sums up to {total:g}, not {SIZE**3}"


def nccl() -> str | None:
    """The version of NCCL, None where torch was built without."""
    if not (torch.distributed.is_available() and torch.distributed.is_nccl_available()):
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def cuda() -> dict[str, Any]:
    """Why CUDA cannot be used, or None; then the devices, the driver's CUDA version, and the build's architectures."""
    try:
        torch.cuda.init()
    except Exception as error:
        reason = f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"
        return {"unusable": reason, "devices": []}
    devices = []
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        devices.append(
            {
                "name": about.name,
                "capability": f"{about.major}.{about.minor}",
                "memory": about.total_memory,
                "wrong": kernel(f"cuda:{number}"),
            }
        )
    driver = torch._C._cuda_getDriverVersion()  # type: ignore[attr-defined]  # 12040 is 12.4
    return {
        "unusable": None,
        "devices": devices,
        "driver": f"{driver // 1000}.{driver % 1000 // 10}",
        "architectures": torch.cuda.get_arch_list(),
    }


if __name__ == "__main__":
    found = {
        "version": torch.__version__,
        "threads": torch.get_num_threads(),
        "wrong": kernel("cpu"),
        "build": torch.version.cuda,
        "nccl": nccl(),
        **(cuda() if torch.version.cuda else {"unusable": None, "devices": []}),
    }
    print(json.dumps(found))
