"""A pickle that creates a file when it is loaded, to detect that agggen loads pickles."""

import io
import pickle
from pathlib import Path
from typing import Any

import torch


class Canary:
    """Loading its pickle creates the file `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")

    def pickled(self) -> bytes:
        return pickle.dumps(self)

    def saved_by_torch(self) -> bytes:
        """A file of ``torch.save``: a zip archive that contains a pickle."""
        content = io.BytesIO()
        torch.save({"weight": self}, content)
        return content.getvalue()

    @property
    def was_loaded(self) -> bool:
        return self.path.exists()
