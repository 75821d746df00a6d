"""Torch devices, and the writing of safetensors files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agggen.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def device_of(name: str, setting: str = "device") -> torch.device:
    """The device ``cpu``, ``cuda``, ``cuda:1``, ..., or ``auto``: a GPU if available; ConfigError if unavailable."""
    import torch

    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        return torch.empty(0, device=chosen).device
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"{setting} {name!r} is not usable here: {error}") from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Writes tensors and metadata to the file `path`; converts SafetensorError for a failed write to OSError."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(dict(tensors), path, metadata=None if metadata is None else dict(metadata))
    except SafetensorError as error:
        match = _OS_ERROR.search(str(error))
        if match is None:
            raise
        code = int(match[1])
        raise OSError(code, os.strerror(code), str(path)) from error
