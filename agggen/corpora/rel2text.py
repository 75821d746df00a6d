"""Reads Rel2Text (Kasner, Konstas and Dušek, EACL 2023): texts about single triples, over 1,522 relations.

An item is ``{"in": "<head> Chiltern Firehouse <rel> serves cuisine <tail> American cuisine", "out": "..."}``. The
relation, with its spaces, is the predicate. The raw annotation, which is published with the splits, also contains the
texts that annotators rejected.
"""

import csv
import json
import re
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.records import Record, Reference, Triple

_INPUT = re.compile(r"<head> (.+) <rel> (.+) <tail> (.+)")


def read_rel2text(path: Path, split: str) -> Iterator[Record | Reject]:
    """Reads a published split. The texts about a triple are references of one record (``rel2text-dev-0001``, ...)."""
    try:
        items: list[Any] = json.loads(path.read_text(encoding="utf-8"))["data"]
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        form = '{"data": [{"in": ..., "out": ...}]}'
        raise CorpusError(f"{path} is not a split of Rel2Text, {form}: {error}") from None
    references: dict[Triple, list[Reference]] = {}
    for number, item in enumerate(items, start=1):
        try:
            if not isinstance(item, dict) or not (match := _INPUT.fullmatch(str(item.get("in")))):
                raise RecordError(f'item {number} has no "in" of the form <head> ... <rel> ... <tail> ...')
            references.setdefault(Triple(*match.groups()), []).append(Reference(str(item.get("out") or "").strip()))
        except AggGenError as error:
            yield Reject(str(path), number, None, str(error))
    for number, (triple, texts) in enumerate(references.items(), start=1):
        yield Record(f"rel2text-{split}-{number:04d}", (triple,), tuple(texts))


def read_corrupted(path: Path, excluded_relations: Set[str]) -> list[tuple[Triple, str]]:
    """The texts that ``rel2text_raw_annotated.tsv`` marks as ``corrupted``: they state their triple incorrectly."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [
                (Triple(row["head"], row["relation"], row["tail"]), row["response"])
                for row in csv.DictReader(file, delimiter="\t")
                if row["state"] == "corrupted" and row["relation"] not in excluded_relations
            ]
    except OSError as error:
        problem = f"cannot read {path}: {error.strerror or error}"
        raise CorpusError(f"{problem}; run `agggen corpora fetch rel2text`") from error
    except KeyError as error:
        raise CorpusError(f"{path} is not the raw annotation of Rel2Text: it has no column {error}") from None
