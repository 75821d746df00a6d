"""The check of images, on the real wheel in a virtual environment, whole and broken."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.wheels import build_wheel

REPO = Path(__file__).parents[2]
PACKAGES = (REPO / "agggen", REPO / "platform" / "agggen_platform", REPO / "serve")
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
    "OMP_NUM_THREADS": "1",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONDONTWRITEBYTECODE": "1",
}

pytestmark = pytest.mark.slow


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=ENV, timeout=600)


def check(environment: Path, *arguments: str) -> tuple[int, str]:
    """The exit status and what was printed."""
    done = run(environment / "bin" / "python", REPO / "infra" / "docker" / "check.py", *arguments)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def environment(wheel: Path, tmp_path: Path) -> Path:
    """A virtual environment with the wheel, which sees the dependencies of the one that runs the tests."""
    folder = tmp_path / "env"
    venv.create(folder, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install")
    done = run(*pip, "--quiet", "--no-deps", "--no-index", "--no-compile", wheel)
    assert done.returncode == 0, done.stderr
    (site_packages(folder) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def site_packages(environment: Path) -> Path:
    return next((environment / "lib").glob("python3.*/site-packages"))


def test_the_wheel_holds_all_files_of_the_packages_and_the_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    paths = [path for folder in PACKAGES for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    for_readers_of_the_source = {"README.md"}
    expected = {
        path.relative_to(REPO).as_posix().removeprefix("platform/")
        for path in paths
        if path.suffix != ".pyc" and path.name not in for_readers_of_the_source
    }
    assert sorted(expected - names) == []
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_a_whole_environment(environment: Path) -> None:
    assert check(environment, "modules", "commands", "--torch", "cpu") == (0, "ok\tmodules\nok\tcommands\nok\ttorch\n")
