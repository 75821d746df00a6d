"""The notebooks run without errors, and their stored outputs are small."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.documents import REPO
from tests.notebooks import run

NOTEBOOKS = sorted((REPO / "jobs/notebooks").glob("*.ipynb"))


def kinds(book: dict[str, Any]) -> list[list[str]]:
    return [[out["output_type"] for out in cell["outputs"]] for cell in book["cells"] if cell["cell_type"] == "code"]


def test_the_outputs_in_the_repository_are_small() -> None:
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        assert path.stat().st_size < 30_000, path.name
        assert any(kinds(json.loads(path.read_text()))), (
            f"{path.name} has no outputs: python -m tests.notebooks writes them"
        )


@pytest.mark.slow
def test_notebooks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # in one folder, since the last notebook uses the first one's model
    for path in NOTEBOOKS:
        assert kinds(run(path)) == kinds(json.loads(path.read_text())), path.name
