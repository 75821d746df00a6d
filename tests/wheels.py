"""The wheel of agggen, built from the sources of this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).parents[1]


def build_wheel(folder: Path) -> Path:
    """Builds the wheel in `folder` from a copy of the sources, since setuptools writes into the source folder."""
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
    for name in ("agggen", "platform", "serve"):
        shutil.copytree(REPO / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, source)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("agggen-*.whl")
    return path
