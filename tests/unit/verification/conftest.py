"""What training texts teach, once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.records import Record
from agggen.verification.check import Checker
from agggen.verification.learning import learn

Learned = tuple[Checker, list[Record], Callable[[str], list[Record]]]


def _learned(corpus: str, home: Path | None = None) -> Learned:
    @cache
    def split(name: str) -> list[Record]:
        return split_rejects(load(corpus, name, home))[0]

    return Checker(learn(split("train"))), split("train"), split


@pytest.fixture(scope="session")
def elements() -> Learned:
    """A checker that has read the training texts of the shipped corpus; these; and a way to its other splits."""
    return _learned("elements")


@pytest.fixture(scope="session")
def webnlg(data_home: Path) -> Learned:
    """The same of WebNLG."""
    return _learned("webnlg", data_home)


@pytest.fixture(scope="session")
def e2e_cleaned(data_home: Path) -> Learned:
    """The same of cleaned E2E."""
    return _learned("e2e-cleaned", data_home)
