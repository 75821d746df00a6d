"""`pip install agggen` without extras in an empty virtual environment: train, generate, evaluate."""

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from agggen_platform.extras import EXTRAS

REPO = Path(__file__).parents[2]

pytestmark = pytest.mark.slow
FILMS = [f"Film {year},Anna Berg,{year},Film {year} by Anna Berg is from {year}." for year in range(1980, 2000)]
SMALL = "model.width=16 model.heads=2 model.layers=1 model.feed_forward=16 training.baseline.epochs=1 "
SMALL += "training.joint.epochs=1 inference.plans=1"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources, since setuptools writes into the source folder."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
    for name in ("agggen", "platform", "serve"):
        shutil.copytree(REPO / name, folder / "source" / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, folder / "source")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, folder / "source"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    (path,) = folder.glob("agggen-*.whl")
    return path


def test_the_wheel_contains_all_package_files_and_the_licence(wheel: Path) -> None:
    folders = (REPO / "agggen", REPO / "platform" / "agggen_platform", REPO / "serve")
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    expected = {
        path.relative_to(REPO).as_posix().removeprefix("platform/")
        for path in paths
        if path.suffix not in (".pyc", ".png") and path.name != "README.md"  # pictures belong to READMEs
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert sorted(expected - names) == []
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def install(wheel: Path, folder: Path) -> Path:
    """Installs agggen and its dependencies from the package index; returns the bin folder of the environment."""
    torch = version("torch")
    if not torch.endswith("+cpu"):
        pytest.skip(f"torch {torch} is a CUDA build, whose second copy would be a download of gigabytes")
    venv.create(folder / "env", with_pip=True)
    pinned = (REPO / "constraints.txt").read_text(encoding="utf-8").replace("\ntorch==", "\n# torch==")
    (folder / "constraints.txt").write_text(f"{pinned}\ntorch=={torch}\n", encoding="utf-8")
    pip = [folder / "env" / "bin" / "pip", "install", "--quiet", "--no-compile", "-c", folder / "constraints.txt"]
    completed = subprocess.run([*pip, wheel], capture_output=True, text=True, timeout=900)
    if "No matching distribution found for torch" in completed.stderr:
        pytest.skip(f"the package index of this machine does not have torch {torch}")
    assert completed.returncode == 0, completed.stderr
    return folder / "env" / "bin"


def run(program: Path, *arguments: str, folder: Path) -> str:
    command = [str(program), *arguments]
    completed = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT | {"HOME": str(folder)}, timeout=900
    )
    assert completed.returncode == 0, f"{command}\n{completed.stdout}\n{completed.stderr}"
    return completed.stdout


def test_a_model_is_trained_and_used_without_extras(wheel: Path, tmp_path: Path) -> None:
    environment = install(wheel, tmp_path)
    listed = json.loads(run(environment / "pip", "list", "--format=json", folder=tmp_path))
    assert not {package["name"].lower() for package in listed} & EXTRAS.keys()
    run(environment / "pip", "check", folder=tmp_path)
    (tmp_path / "films.csv").write_text("\n".join(["title,director,year,text", *FILMS]) + "\n", encoding="utf-8")
    agggen = environment / "agggen"
    bundle = run(agggen, "train", "films.csv", *SMALL.split(), folder=tmp_path).strip()
    texts = run(agggen, "generate", bundle, "-i", "films.csv", folder=tmp_path).splitlines()
    first = json.loads(texts[0])
    assert len(texts) == len(FILMS) and "Anna Berg" in first["text"] and first["fulfilled"]
    scores = run(agggen, "evaluate", bundle, "--corpus", "films.csv", "--split", "dev", folder=tmp_path)
    assert "plain/bleu" in scores
    (tmp_path / "hydrogen.csv").write_text("subject,predicate,object\nHydrogen,discoveryYear,1766\n", encoding="utf-8")
    shipped = json.loads(run(agggen, "generate", "-i", "hydrogen.csv", folder=tmp_path))  # by the shipped bundle
    assert shipped["fulfilled"] and "1766" in shipped["text"]
