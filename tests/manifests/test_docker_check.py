"""The images' check, on the real wheel in a virtual environment, whole and broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
CHECK = REPO / "infra" / "docker" / "check.py"
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
    "OMP_NUM_THREADS": "1",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONDONTWRITEBYTECODE": "1",
}

pytestmark = pytest.mark.slow

Check = Callable[..., subprocess.CompletedProcess[str]]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=ENV, timeout=600)


def pip(python: Path, *arguments: object) -> str:
    done = run(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with our wheel, which sees the dependencies of the one that runs the tests."""
    folder = tmp_path_factory.mktemp("check")
    source = folder / "source"
    kept = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
    for name in ("agggen", "platform", "serve"):
        shutil.copytree(REPO / name, source / name, ignore=kept)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, source)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    built = run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, source)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("agggen-*.whl")
    place = folder / "env"
    venv.create(place, with_pip=False)
    pip(place / "bin" / "python", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel)
    (site_packages(place) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return place


def site_packages(place: Path) -> Path:
    return next((place / "lib").glob("python3.*/site-packages"))


@pytest.fixture
def check(environment: Path) -> Check:
    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        return run(environment / "bin" / "python", CHECK, "--jobs", REPO / "jobs", *arguments)

    return call


@contextmanager
def aside(path: Path) -> Iterator[bytes]:
    """The file's content; whatever becomes of it in the block, it is back afterwards."""
    content, mode = path.read_bytes(), path.stat().st_mode
    try:
        yield content
    finally:
        path.write_bytes(content)
        path.chmod(mode)


def test_the_wheel_is_found_whole(environment: Path, check: Check) -> None:
    code = "import agggen, serve; print(agggen.__file__, serve.__file__)"
    where = run(environment / "bin" / "python", "-I", "-c", code)
    assert where.stdout.count(str(environment)) == 2
    done = check("platform", "files", "modules", "commands", "jobs", "torch", "--torch", "cpu")
    lines = done.stdout.splitlines()
    assert lines == [f"ok\t{name}" for name in ("platform", "files", "modules", "commands", "jobs", "torch")]
    assert done.returncode == 0


def test_a_file_that_is_missing_or_changed_is_named(environment: Path, check: Check) -> None:
    preset = site_packages(environment) / "agggen_platform" / "presets" / "webnlg.yaml"
    tagger = site_packages(environment) / "agggen" / "facts" / "tagger_model" / "tagger.json"
    with aside(preset), aside(tagger) as content:
        preset.unlink()
        tagger.write_bytes(content + b" ")
        done = check("files")
    assert done.returncode == 1 and done.stdout.startswith("FAILED\tfiles")
    assert "agggen_platform/presets/webnlg.yaml cannot be read" in done.stdout
    assert "agggen/facts/tagger_model/tagger.json was changed" in done.stdout


def test_a_wheel_without_a_preset_or_a_licence_is_refused(environment: Path, check: Check) -> None:
    (record,) = site_packages(environment).glob("agggen-*.dist-info/RECORD")
    with aside(record) as content:
        lines = content.decode().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if "sweeps/rates" not in line and "LICENSE" not in line))
        done = check("files")
    assert done.returncode == 1
    assert "the wheel has no agggen_platform/sweeps/rates.yaml" in done.stdout
    assert "the wheel has no licence" in done.stdout


def test_a_folder_that_hides_pythons_platform_is_named(environment: Path, check: Check) -> None:
    hiding = site_packages(environment) / "platform" / "__init__.py"
    hiding.parent.mkdir()
    try:
        hiding.touch()
        done = check("platform")
    finally:
        shutil.rmtree(hiding.parent)
    assert done.returncode == 1 and "which is Python's own name" in done.stdout


def test_a_command_that_is_missing_is_named(environment: Path, check: Check) -> None:
    with aside(environment / "bin" / "agggen"):
        (environment / "bin" / "agggen").unlink()
        done = check("commands")
    assert done.returncode == 1 and "does not run" in done.stdout


def installed() -> dict[str, str]:
    """What the environment of `check` sees, which is what this one has."""
    return {each.metadata["Name"]: each.version for each in metadata.distributions()}


def test_versions_are_those_of_the_constraints(check: Check, tmp_path: Path) -> None:
    constraints = tmp_path / "constraints.txt"
    lines = [f"{name}=={version.split('+')[0]}" for name, version in installed().items() if name != "numpy"]
    constraints.write_text("\n".join(["# pinned", *lines, "numpy==1.0", ""]))
    done = check("versions", "--constraints", constraints)
    assert done.returncode == 1
    problems = done.stdout.splitlines()[1:]
    assert len(problems) == 1 and problems[0].startswith("\tnumpy is ") and problems[0].endswith("names 1.0")
    constraints.write_text("\n".join(lines))
    assert "does not name it" in check("versions", "--constraints", constraints).stdout


def test_a_package_that_lacks_another_is_named(environment: Path, check: Check) -> None:
    with aside(site_packages(environment) / "dependencies.pth"):
        (site_packages(environment) / "dependencies.pth").unlink()
        done = check("dependencies")
    assert done.returncode == 1 and "requires pyarrow, which is not installed" in done.stdout


def test_whoever_may_change_what_is_installed_is_refused(environment: Path, check: Check) -> None:
    done = check("user")
    assert done.returncode == 1
    assert f"this user may write to {site_packages(environment)}" in done.stdout
    assert f"this runs as user {os.geteuid()}, not 10001" in done.stdout


def test_lists_that_differ_from_what_is_installed_are_refused(environment: Path, check: Check, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("agggen\n")
    (tmp_path / "packages.tsv").write_text("tini\t0.19\n")
    report = json.loads(pip(environment / "bin" / "python", "inspect", "--local", "--quiet"))
    assert [each["metadata"]["name"] for each in report["installed"]] == ["agggen"]
    for name, version in installed().items():
        if name != "agggen":
            report["installed"].append({"metadata": {"name": name, "version": version}})
    text = json.dumps(report)
    (tmp_path / "pip-inspect.json").write_text(text)
    assert check("lists", "--share", tmp_path).stdout == "ok\tlists\n"
    (tmp_path / "pip-inspect.json").write_text(text.replace('"name": "torch"', '"name": "fire"'))
    (tmp_path / "packages.tsv").unlink()
    done = check("lists", "--share", tmp_path)
    assert done.returncode == 1 and "pip-inspect.json has no such package" in done.stdout
    assert "packages.tsv is missing" in done.stdout


def test_an_unknown_check_is_refused(check: Check) -> None:
    done = check("vershuns")
    assert done.returncode == 2 and "no such check: vershuns" in done.stderr
