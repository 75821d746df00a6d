"""Rules of the repository: layout, sizes and docstrings of modules, imports, private paths."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bare import REPO, python_without


def modules(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


def test_the_source_root_platform_contains_only_the_package() -> None:
    assert not (REPO / "platform" / "__init__.py").exists(), "a package platform would hide the standard module"
    result = {path.name for path in (REPO / "platform").iterdir()}
    assert {name for name in result if name != "__pycache__" and not name.endswith(".egg-info")} == {"agggen_platform"}


@pytest.mark.parametrize("path", modules(REPO / "agggen", REPO / "platform", REPO / "serve"), ids=name_of)
def test_a_module_has_a_docstring_and_less_than_400_lines(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "the module has no docstring"
    assert text.count("\n") < 400


LIBRARY = [".".join(path.relative_to(REPO).with_suffix("").parts) for path in modules(REPO / "agggen")]
LIBRARY = [name.removesuffix(".__init__") for name in LIBRARY if not name.endswith("__main__")]


@pytest.mark.parametrize(
    ("names", "heavy"),
    [
        (LIBRARY, ["ray", "mlflow", "boto3", "fastapi", "typer", "rich", "optuna", "agggen_platform"]),
        (["agggen_platform.cli.main"], ["torch", "mlflow", "ray", "pyarrow", "pydantic", "numpy", "sklearn"]),
    ],
    ids=["the library", "the start of the command line"],
)
def test_nothing_heavy_is_imported_by(names: list[str], heavy: list[str], tmp_path: Path) -> None:
    code = f"import importlib, sys\nfor n in {names}: importlib.import_module(n)\n"
    done = python_without((), code + f"print([n for n in {heavy} if n in sys.modules])", tmp_path)
    assert done.stdout == "[]\n", done.stderr


MACHINE_PATH = re.compile(r"(?<![\w.~}*-])/(?:home|root|Users|work)/[\w.]+|/tmp/bash\w*")


def test_no_committed_file_contains_a_private_path() -> None:
    git = shutil.which("git")
    if git is None or not (REPO / ".git").exists():
        pytest.skip("no git, or no checkout: the committed files are not known")
    listed = subprocess.run([git, "-C", str(REPO), "ls-files", "-z"], capture_output=True, text=True, check=True)
    result = []
    for name in filter(None, listed.stdout.split("\0")):
        path = REPO / name
        if name == name_of(Path(__file__)) or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        result += [f"{name}: {match.group()}" for match in MACHINE_PATH.finditer(text)]
    assert result == []
