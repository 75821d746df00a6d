"""Segmenters by name and configuration; clauses and sentences; facts concatenate to the text."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.config import load_config
from agggen.errors import AggGenError, ConfigError
from agggen.facts import check_facts, cut
from agggen.facts.config import AllenNLPConfig, SegmenterConfig, segmenter
from agggen.run import FactsConfig, RunConfig


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("clause", "unknown fact segmenter 'clause'; there are embedded, allennlp, clauses"),
        ("allennlp", "needs an archive: set facts.allennlp.archive=model.tar.gz"),
    ],
)
def test_an_invalid_source_is_refused(source: Any, message: str) -> None:
    for make in (SegmenterConfig, FactsConfig, lambda source: segmenter(source)):
        with pytest.raises(ConfigError, match=message):
            make(source=source)


def test_allennlp_needs_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SegmenterConfig(source="allennlp", allennlp=AllenNLPConfig("a.tar.gz"))
    assert segmenter(config).name == "allennlp"
    monkeypatch.setattr("agggen.facts.config._ALLENNLP_FRAMES", "absent_platform.source:AllenNLPFrames")
    with pytest.raises(ConfigError, match="needs the package agggen_platform: No module named 'absent_platform'"):
        segmenter(config)


def test_an_archive_address_is_refused_without_quoting_its_secrets() -> None:
    with pytest.raises(ConfigError, match="must be a local path, not a URL") as refused:
        AllenNLPConfig("https://ann:secret@example.org/a.tar.gz?token=secret")
    assert "secret" not in str(refused.value)


def test_new_texts_are_segmented_by_the_same_source_or_the_embedded_tagger() -> None:
    assert FactsConfig(source="clauses").for_new_texts.source == "clauses"
    config = load_config(RunConfig, None, ["facts.source=corpus", "facts.level=paper"]).facts
    assert config.segmenter is None
    assert config.for_new_texts == SegmenterConfig(source="embedded", level="paper")
    allennlp = AllenNLPConfig("a.tar.gz", threads=1)
    with_archive = FactsConfig(source="allennlp", allennlp=allennlp)
    assert with_archive.for_new_texts == with_archive.segmenter == SegmenterConfig(source="allennlp", allennlp=allennlp)


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    allennlp = AllenNLPConfig("a.tar.gz", bert="bert", environment="/srl")
    here = SegmenterConfig(allennlp=allennlp).absolute
    assert here.allennlp == AllenNLPConfig(str(tmp_path / "a.tar.gz"), bert=str(tmp_path / "bert"), environment="/srl")


PIECES = (
    "Bolt who is and was written by J. R. R. Tolkien , it It serves food; but while which has near U.S. 3.5 . ! \n \t "
    "« » The they that located in serving - \u00a0 \u2003 Ünï"
)
NAMES = ("embedded", "clauses", "sentences")  # segmenters without an archive
WORDS = st.sampled_from(PIECES.split(" "))


@pytest.mark.parametrize("name", NAMES)
@given(text=st.one_of(st.text(), st.lists(WORDS, max_size=30).map(" ".join)))
def test_facts_concatenate_to_the_text(name: str, text: str) -> None:
    (facts,) = segmenter(name).segment([text])
    assert "".join(facts) == (text if text.strip() else "")
    assert all(fact.strip() for fact in facts)


@given(text=st.text(), starts=st.lists(st.integers(0, 40)))
def test_whitespace_at_a_boundary_belongs_to_the_fact_before_it(text: str, starts: list[int]) -> None:
    facts = cut(text, [start for start in starts if start <= len(text)])
    assert "".join(facts) == (text if text.strip() else "")
    assert not any(fact[0].isspace() for fact in facts[1:])


@pytest.mark.parametrize(
    ("name", "marked"),
    [
        ("sentences", "J. R. R. Tolkien wrote it. |He died."),
        ("sentences", "Dr. Who met Mr. Bean. |Fine!"),
        ("sentences", "The U.S. Navy sails. |It is in the U.S. |It floats."),
        ("sentences", "It is 3.5 m long. |20 people fit."),
        ("sentences", 'He said "No." |Then he left.'),
        ("sentences", "Opened in 1990.|It has a bar."),
        ("sentences", "St. Louis is in the U.S., e.g. near water."),
        (
            "clauses",
            "The Fig is near Café Rouge |that serves Thai food |and it has pies, |but kids aren't welcome.",
        ),
        ("clauses", "Bolt, who was drawn by Ann Roe, |is a hero |and was published in 1990; |its editor is Jo Poe."),
        ("clauses", "The Fig serves fish and chips."),
        ("clauses", "Salt and water are ingredients of bread."),
        ("clauses", "The Fig is a pub |located in the city centre. |It is family friendly."),
        ("clauses", "The fan sold No. 5. |Then he left."),
        ("clauses", "The town, in which Ann was born, |is big."),
    ],
)
def test_facts_by_rules(name: str, marked: str) -> None:
    """A bar is between two facts."""
    assert segmenter(name).segment([marked.replace("|", "")]) == [tuple(marked.split("|"))]


@pytest.mark.parametrize(
    ("text", "facts", "message"),
    [
        ("a b", ["a", "b"], "do not concatenate"),
        ("a b", ["a b", ""], "fact 2 .* is blank"),
        ("a b", [], "at least one"),
        (" ", [" "], "blank text has no facts"),
    ],
)
def test_invalid_segmentations_are_refused(text: str, facts: list[str], message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        check_facts(text, facts)
