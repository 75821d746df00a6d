"""torch, and the GPUs that it can use on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from agggen_platform.doctor.findings import Finding, error, note, ok, warning
from agggen_platform.doctor.settings import Settings

_REINSTALL = "pip install --force-reinstall torch  # the build for this machine's CUDA: compare with nvidia-smi"


def check(settings: Settings) -> Iterator[Finding]:
    try:
        import torch
    except (ImportError, OSError) as failure:  # OSError: a shared library is missing
        yield error("import", f"torch cannot be imported: {failure}", _REINSTALL)
        return
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
    yield ok("version", f"torch {torch.__version__}, {build}")
    requested = not settings.distributed and (settings.gpus_per_worker > 0 or settings.device.startswith("cuda"))
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        yield ok("GPU", f"{len(names)}: {', '.join(names)}")
    elif requested:
        remedy = (
            "agggen train PRESET training.device=cpu cluster.gpus_per_worker=0  # or the build for nvidia-smi's CUDA"
        )
        yield error("GPU", f"the job requests a GPU, and torch ({build}) can use none here", remedy)
    elif shutil.which("nvidia-smi"):
        yield warning("GPU", f"this machine has an NVIDIA driver, but torch ({build}) can use no GPU", _REINSTALL)
    else:
        yield note("GPU", "none: models run on the CPU")
