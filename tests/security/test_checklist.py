"""The list of promises: every test that it names is there, and every test of this folder is named."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.security.checklist import Promise, promises

TESTS = Path(__file__).parents[1]
PROMISES = promises()


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the test functions in a file; none where there is no such file."""
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.holds)
def test_its_tests_are_there(promise: Promise) -> None:
    assert promise.tests
    missing = [name for name in promise.tests if name.partition("::")[2] not in names_in(name.partition("::")[0])]
    assert missing == [], "renamed, or gone? the promise needs a test that shows it"


def test_every_test_of_this_folder_shows_a_promise() -> None:
    named = {name for promise in PROMISES for name in promise.tests}
    files = [f"security/{path.name}" for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    assert len(files) > 5
    assert {f"{file}::{name}" for file in files for name in names_in(file)} - named == set()


def test_no_test_is_named_twice_for_a_promise() -> None:
    for promise in PROMISES:
        assert len(set(promise.tests)) == len(promise.tests), promise.holds
