"""Example records for people who look at a bundle: those of the corpus that it was trained on.

Only corpora of the catalogue are read: a bundle may name any file, and an endpoint must not give away private data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.errors import CorpusError
from agggen.records import Record

MOST = 48


@dataclass(frozen=True, slots=True)
class Examples:
    """At most MOST records spread over a split; none if the corpus is not in the catalogue or not on this machine."""

    corpus: str = ""
    split: str = ""
    records: tuple[Record, ...] = ()


def examples_of(config: Mapping[str, Any]) -> Examples:
    """Examples from the test split of the corpus that a bundle's `config` names."""
    corpus = config.get("corpus")
    if not isinstance(corpus, Mapping):
        return Examples()
    name, split = str(corpus.get("name")), str(corpus.get("test"))
    try:
        records, _ = split_rejects(load(name, split))  # raises CorpusError for names that are not in the catalogue
    except CorpusError:
        return Examples()
    return Examples(name, split, tuple(records[:: -(-len(records) // MOST)]))
