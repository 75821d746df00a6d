"""Checkers with lexicons of corpora, learned once per session."""

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
"""A checker with the lexicon of a corpus, its training records, and a function that loads a split by name."""


def _learned(corpus: str) -> Learned:
    @cache
    def split(name: str) -> list[Record]:
        return split_rejects(load(corpus, name))[0]

    return Checker(learn(split("train"))), split("train"), split


@pytest.fixture(scope="session")
def elements() -> Learned:
    return _learned("elements")


@pytest.fixture(scope="session")
def webnlg(data_home: Path) -> Learned:
    return _learned("webnlg")


@pytest.fixture(scope="session")
def e2e_cleaned(data_home: Path) -> Learned:
    return _learned("e2e-cleaned")
