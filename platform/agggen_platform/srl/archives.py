"""Archives of AllenNLP models, known by their SHA-256.

An archive (``model.tar.gz`` or its unpacked folder) holds pickles: loading one runs its author's code.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agggen_platform.srl.errors import AllenNLPError
from agggen_platform.srl.worker import hash_of


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive on this machine."""

    path: Path
    sha256: str


def get_archive(location: str | Path, sha256: str | None = None) -> Archive:
    """The archive at `location`.

    Args:
        sha256: its expected digest; of a folder, see ``worker.hash_of``.

    Raises:
        AllenNLPError: it does not exist, or has another digest.
    """
    path = Path(location).expanduser().absolute()
    if not path.exists():
        raise AllenNLPError(f"there is no archive {path}")
    actual = hash_of(str(path))
    if sha256 not in (None, actual):
        raise AllenNLPError(f"{path} has the sha256 {actual}, not {sha256}; it was not loaded")
    return Archive(path, actual)
