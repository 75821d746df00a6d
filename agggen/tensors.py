"""The device of tensors; and tensors on disk as safetensors, where what the system refuses is an OSError."""

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

_NUMBER = re.compile(r"\(os error (\d+)\)")


def device_of(name: str, setting: str = "device") -> torch.device:
    """The device ``cpu``, ``cuda``, ``cuda:1`` and so on; ``auto`` is a GPU if there is one.

    Raises:
        ConfigError: it is not available; says so of `setting`.
    """
    import torch

    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        return torch.empty(0, device=chosen).device
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"{setting} {name!r} is not usable here: {error}") from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Writes tensors, and texts about them, to the file `path`.

    Raises:
        OSError: the system refused, and nothing was changed. safetensors itself says so in the words of another error.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(dict(tensors), path, metadata=None if metadata is None else dict(metadata))
    except SafetensorError as error:
        said = _NUMBER.search(str(error))
        if said is None:
            raise
        code = int(said[1])
        raise OSError(code, os.strerror(code), str(path)) from error
