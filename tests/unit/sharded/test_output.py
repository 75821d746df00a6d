"""The output folder of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen_platform.bulk.output import Output
from agggen_platform.storage.folder import Folder


@pytest.mark.parametrize("fresh", [False, True])
def test_temporary_files_of_the_user_are_kept_and_those_of_killed_workers_removed(fresh: bool, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    output = Output(folder, "job")
    output.begin({}, {})
    for name in ("mine.tmp", "a/mine.tmp", "texts/.0.parquet.0badcafe.tmp", "texts/.1.parquet.0badcafe.tmp.42.tmp"):
        folder.write(name, b"")
    if fresh:
        output.clear()
    output.begin({}, {})
    assert folder.names() == [".job.json", "a/mine.tmp", "mine.tmp"]
