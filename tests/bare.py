"""Runs Python in a new process in which given packages cannot be imported."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

REPO = Path(__file__).parents[1]


def python_without(
    packages: Collection[str], code: str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `code` in `folder`; importing one of `packages` fails there and in its child processes."""
    import_hook = f"""
import importlib.util, sys
ABSENT = {sorted(packages)}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.partition(".")[0] in ABSENT else find(name, package)
"""
    (folder / "without").mkdir()
    (folder / "without" / "sitecustomize.py").write_text(import_hook, encoding="utf-8")  # imported at interpreter start
    paths = os.pathsep.join(map(str, (folder / "without", REPO, REPO / "platform")))
    env = {"PYTHONPATH": paths, "PATH": "", "HOME": str(folder), "OMP_NUM_THREADS": "1", **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, timeout=900)
