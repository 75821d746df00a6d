"""Full disks: jobs fail with a clear error, publish nothing, and resume when there is room."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.chaos
_UNSHARE = ["unshare", "--mount", "--map-root-user"]


def test_jobs_on_a_small_disk(tmp_path: Path) -> None:
    """Runs `on_small_disk.py` on a tmpfs in its own mount namespace."""
    if not shutil.which("unshare") or subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    disk, tests = tmp_path / "disk", Path(__file__).with_name("on_small_disk.py")
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=48m none {disk} && exec "$@"'
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests), "--basetemp"]
    command = [*_UNSHARE, "sh", "-c", mount, "sh", *pytest_command, str(tmp_path / "inner")]
    environment = os.environ | {"AGGGEN_SMALL_DISK": str(disk)}
    repository = Path(__file__).parents[2]
    completed = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=900)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "3 passed" in completed.stdout
