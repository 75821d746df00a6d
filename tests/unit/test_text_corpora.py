"""The real corpora come back from their tokens, and copying leaves few words unknown."""

from __future__ import annotations

import csv
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from agggen.records import Record
from agggen.text import Vocabulary, detokenise, tokenise

HOME = os.environ.get("AGGGEN_DATA_HOME")
pytestmark = pytest.mark.skipif(not HOME, reason="AGGGEN_DATA_HOME does not name a folder with the real corpora")


def webnlg(split: str) -> list[Record]:
    records = []
    for path in sorted(Path(str(HOME), "webnlg_2017", split).rglob("*.xml")):
        for entry in ElementTree.parse(path).iter("entry"):
            triples = [str(item.text).split("|") for item in entry.iter("mtriple")]
            texts = [text for lex in entry.iter("lex") if (text := "".join(lex.itertext())).strip()]
            if texts:
                records.append(Record.of({"id": len(records), "triples": triples, "references": texts}))
    return records


def e2e_texts() -> Iterator[str]:
    for name in ("trainset.csv", "devset.csv", "testset_w_refs.csv"):
        with Path(str(HOME), "e2e", name).open(encoding="utf-8", newline="") as file:
            yield from (row["ref"] for row in csv.DictReader(file))


def webnlg_texts() -> Iterator[str]:
    for split in ("train", "dev"):
        yield from (reference.text for record in webnlg(split) for reference in record.references)


@pytest.mark.parametrize(("texts", "count"), [(webnlg_texts, 20_370), (e2e_texts, 51_426)])
def test_real_texts_come_back(texts, count) -> None:
    read = 0
    for text in texts():
        read += 1
        assert detokenise(token.text for token in tokenise(text)) == text
    assert read == count


def test_few_words_of_webnlg_dev_are_unknown() -> None:
    vocabulary = Vocabulary.build(webnlg("train"))
    tokens = unknown = not_generated = 0
    for record in webnlg("dev"):
        source = vocabulary.encode_source(record)
        for reference in record.references:
            ids = vocabulary.encode_target([reference.text], source).ids
            tokens += len(ids)
            unknown += ids.count(Vocabulary.UNK)
            not_generated += sum(number == Vocabulary.UNK or number >= vocabulary.n_output for number in ids)
    assert unknown / tokens < 0.005
    assert not_generated / tokens < 0.006


def test_copying_covers_the_categories_never_trained_on() -> None:
    """Of WebNLG's test texts 15 % of the words cannot be generated; all but 2.5 % are in the record."""
    vocabulary = Vocabulary.build(webnlg("train"))
    ids: list[int] = []
    for record in webnlg("test"):
        source = vocabulary.encode_source(record)
        for reference in record.references:
            ids += vocabulary.encode_target([reference.text], source).ids
    beyond = sum(number == Vocabulary.UNK or number >= vocabulary.n_output for number in ids)
    assert beyond / len(ids) > 0.10
    assert ids.count(Vocabulary.UNK) / len(ids) < 0.025
