"""The claim on a folder of a store that has troubles of its own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agggen_platform.storage.claim import claim
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy
from tests.s3_faults import FaultyS3


def test_a_claim_that_cannot_be_renewed_is_lost(s3: str, faulty_s3: FaultyS3) -> None:
    folder = Folder(f"{s3}/run", Policy(attempts=2, pause=0.01))
    with claim(folder, beat=0.1) as check:
        check()
        faulty_s3.inject("503", -1, method="PUT")  # only the beat fails, and the check tells of it
        deadline = time.monotonic() + 20
        with pytest.raises(StorageError, match="failed 2 times"):
            while time.monotonic() < deadline:
                check()
        faulty_s3.inject("503", -1)  # and it cannot be given back either, which is no error on the way out
    faulty_s3.heal()
    with claim(folder, beat=0.1) as check:
        check()
    assert folder.names() == []


def test_a_fault_that_passes_does_not_cost_the_claim(s3: str, faulty_s3: FaultyS3) -> None:
    folder = Folder(f"{s3}/run", Policy(attempts=10, pause=0.01))
    with claim(folder, beat=0.05) as check:
        for kind in ("503", "reset", "lost answer"):
            faulty_s3.inject(kind, 3)
            asked = faulty_s3.count("PUT")
            deadline = time.monotonic() + 20
            while faulty_s3.count("PUT") < asked + 3 and time.monotonic() < deadline:
                time.sleep(0.02)
            check()


def test_a_folder_that_cannot_be_is_no_claim(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot claim"), claim(Folder(str(tmp_path / "file" / "run"))):
        pass
