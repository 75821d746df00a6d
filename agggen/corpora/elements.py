"""The included corpus `elements`: triples about the chemical elements, and texts with gold facts and plans.

A record has one to seven triples of one element and three references. Each reference has gold facts with their
predicates, and a plan. Each element is in one split only: 94 in train, 12 in dev, 12 in test.

The plans of a record's references often differ. For records of at least two triples, the mean NMI of two reference
plans is .90 (.91 in dev); the mean NMI of a reference plan and the more similar of the other two is .93 (test) to .95
(dev), an upper bound for planners.

``elements.jsonl.gz`` in this folder has all splits, one record per line. The triples were written from general
knowledge, the texts by a random grammar.
"""

import gzip
import json
from collections.abc import Iterator
from importlib import resources

from agggen.records import Record

SPLITS = ("train", "dev", "test")


def elements_records(split: str) -> Iterator[Record]:
    """The records of one of `SPLITS`, with ids such as ``elements-train-Au-03``."""
    compressed = resources.files("agggen.corpora").joinpath("elements.jsonl.gz").read_bytes()
    lines = gzip.decompress(compressed).decode().splitlines()
    return (Record.of(json.loads(line)) for line in lines if line.startswith(f'{{"id": "elements-{split}-'))
