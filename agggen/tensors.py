"""Tensors on disk as safetensors, where what the system refuses is an OSError, as with any other file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_NUMBER = re.compile(r"\(os error (\d+)\)")


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
