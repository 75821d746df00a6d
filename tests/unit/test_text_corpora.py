"""Tokenisation and vocabulary on the real corpora."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen.corpora.catalogue import load
from agggen.records import Record
from agggen.text import Vocabulary, detokenise, tokenise


def records(home: Path, split: str, corpus: str = "webnlg") -> list[Record]:
    return [item for item in load(corpus, split, home) if isinstance(item, Record)]


@pytest.mark.parametrize(("corpus", "count"), [("webnlg", 20_370), ("e2e", 46_733)])
def test_real_texts_are_reproduced_from_their_tokens(data_home: Path, corpus: str, count: int) -> None:
    read = [record for split in ("train", "dev") for record in records(data_home, split, corpus)]
    texts = [reference.text for record in read for reference in record.references]
    assert len(texts) == count
    assert [text for text in texts if detokenise(token.text for token in tokenise(text)) != text] == []


@pytest.fixture(scope="module")
def vocabulary(data_home: Path) -> Vocabulary:
    return Vocabulary.build(records(data_home, "train"))


@pytest.mark.parametrize(
    ("split", "unknown", "not_generated"),
    # Of WebNLG's test texts 15 % of the words cannot be generated; all but 2.5 % are in the record.
    [("dev", (0, 0.005), (0, 0.006)), ("test", (0, 0.025), (0.10, 1))],
)
def test_copying_leaves_few_words_unknown(
    data_home: Path,
    vocabulary: Vocabulary,
    split: str,
    unknown: tuple[float, float],
    not_generated: tuple[float, float],
) -> None:
    ids: list[int] = []
    for record in records(data_home, split):
        source = vocabulary.encode_source(record)
        for reference in record.references:
            ids += vocabulary.encode_target([reference.text], source)[0]
    assert unknown[0] <= ids.count(Vocabulary.UNK) / len(ids) < unknown[1]
    copied_or_unknown = sum(number == Vocabulary.UNK or number >= vocabulary.n_output for number in ids)
    assert not_generated[0] <= copied_or_unknown / len(ids) < not_generated[1]
