"""Checkers with lexicons of corpora, learned once per session."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.records import Record
from agggen.verification.check import Checker
from agggen.verification.learning import learn

Learned = tuple[Checker, list[Record], Callable[[str], list[Record]]]
"""A checker with the lexicon of a corpus, its training records, and a function that loads a split by name."""


@cache
def records_of(corpus: str, split: str) -> list[Record]:
    return split_rejects(load(corpus, split))[0]


def _learned(corpus: str) -> Learned:
    train = records_of(corpus, "train")
    return Checker(learn(train)), train, partial(records_of, corpus)


@pytest.fixture(scope="session")
def elements() -> Learned:
    return _learned("elements")


@pytest.fixture(scope="session")
def webnlg(data_home: Path) -> Learned:
    return _learned("webnlg")


@pytest.fixture(scope="session")
def e2e_cleaned(data_home: Path) -> Learned:
    return _learned("e2e-cleaned")
