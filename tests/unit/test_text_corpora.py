"""The vocabulary on a real corpus."""

from pathlib import Path

from agggen.corpora.catalogue import load
from agggen.records import Record
from agggen.text import Vocabulary


def records(split: str) -> list[Record]:
    return [item for item in load("webnlg", split) if isinstance(item, Record)]


def test_copying_leaves_few_words_unknown(data_home: Path) -> None:
    """15 % of the words of WebNLG's test texts cannot be generated; 2.5 % can be neither generated nor copied."""
    vocabulary = Vocabulary.build(records("train"))

    def shares(split: str) -> tuple[float, float]:
        """The share of unknown words, and the share of words that cannot be generated."""
        ids: list[int] = []
        for record in records(split):
            source = vocabulary.encode_source(record)
            for reference in record.references:
                ids += vocabulary.encode_target([reference.text], source)[0]
        not_generated = sum(number == Vocabulary.UNK or number >= vocabulary.n_output for number in ids)
        return ids.count(Vocabulary.UNK) / len(ids), not_generated / len(ids)

    unknown, not_generated = shares("dev")
    assert unknown < 0.005 and not_generated < 0.006
    unknown, not_generated = shares("test")
    assert unknown < 0.025 and not_generated >= 0.10
