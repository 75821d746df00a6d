"""System errors in writing tensors are raised as OSError."""

import errno
import resource
from pathlib import Path

import pytest
import torch

from agggen.tensors import save_tensors


def test_a_failed_write_raises_oserror_and_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # maximum file size in bytes
    try:
        with pytest.raises(OSError) as caught:
            save_tensors(path, {"a": torch.ones(2)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]
    assert path.read_bytes() == b"old"
    with pytest.raises(FileNotFoundError):
        save_tensors(tmp_path / "nowhere" / "x", {})
