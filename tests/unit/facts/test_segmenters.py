"""Segmenters: configuration, clauses and sentences, words, frames of BIO tags; facts concatenate to the text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.config import load_config
from agggen.errors import AggGenError, ConfigError
from agggen.facts import check_facts, cut
from agggen.facts.config import AllenNLPConfig, SegmenterConfig, segmenter
from agggen.facts.framed import FrameSegmenter, split_sentences
from agggen.facts.frames import Frame, Phrase, Tokens, frame_of_tags
from agggen.run import FactsConfig, RunConfig
from tests.pickling import pickle_copy
from tests.unit.facts.role_notation import sentence


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
        ("clauses", "The Fig is near Café Rouge |that serves Thai food |and it has pies, |but kids aren't welcome."),
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


TOKENS = ["Ann", "doesn't", "it's", "U.S.", "F.C.", "3,800.5", "O'Brien", "18R/36L", "\u00e9", "e\u0301", "\u00bd"]
MARKS = ["(", ")", '"', "'", "\u201c", "\u2019", "-", "--", "\u2014", ".", ",", "..."]
TOKEN_PIECES = st.sampled_from(TOKENS + MARKS)
TOKEN_TEXTS = st.one_of(
    st.text(), *(st.lists(TOKEN_PIECES, max_size=20).map(separator.join) for separator in (" ", ""))
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann's dog doesn't bark.", "Ann 's dog does n't bark ."),
        ("He can\u2019t; they\u2019ll see.", "He ca n\u2019t ; they \u2019ll see ."),
        ("It has 3,800.5 m and No. 5.", "It has 3,800.5 m and No . 5 ."),
        ("A.F.C. Fylde (the U.S. club)", "A.F.C. Fylde ( the U.S. club )"),
        ('the 16,000-seat "Arena"...', 'the 16,000 - seat " Arena " ...'),
        ("O'Brien and D'Angelo's", "O'Brien and D'Angelo 's"),
        ("\u00c6thelwald\u2014\u4e2d\u6587", "\u00c6thelwald \u2014 \u4e2d\u6587"),
    ],
)
def test_words_follow_treebank_tokenisation(text: str, words: str) -> None:
    sentences = split_sentences(text)
    assert [word for sentence in sentences for word in sentence.words] == words.split()
    assert [text[start:end] for sentence in sentences for start, end in sentence.spans] == words.split()


@given(text=TOKEN_TEXTS)
def test_every_visible_character_is_in_one_word(text: str) -> None:
    spans = [span for sentence in split_sentences(text) for span in sentence.spans]
    covered = {position for start, end in spans for position in range(start, end)}
    assert len(covered) == sum(end - start for start, end in spans)
    assert {position for position, character in enumerate(text) if not character.isspace()} <= covered


@pytest.mark.parametrize(
    ("tags", "phrases"),
    [
        ("B-ARG0 B-V B-ARG1 I-ARG1 O", [("ARG0", 0, 1), ("V", 1, 2), ("ARG1", 2, 4)]),
        ("B-V I-V O B-ARG1", [("V", 0, 2), ("ARG1", 3, 4)]),
        ("B-ARG1 B-ARG1 B-V", [("ARG1", 0, 1), ("ARG1", 1, 2), ("V", 2, 3)]),
        ("B-ARG1 O B-V B-C-ARG1", [("ARG1", 0, 1), ("V", 2, 3), ("C-ARG1", 3, 4)]),
        ("I-ARG0 B-V I-ARGM-LOC O I-ARGM-LOC", [("ARG0", 0, 1), ("V", 1, 2), ("ARGM-LOC", 2, 3), ("ARGM-LOC", 4, 5)]),
        ("B-V B-ARG1 B-C-V", [("V", 0, 1), ("ARG1", 1, 2), ("C-V", 2, 3)]),
        ("B-ARG0 O", None),
    ],
)
def test_phrases_of_bio_tags(tags: str, phrases: list[tuple[str, int, int]] | None) -> None:
    frame = frame_of_tags(tags.split())
    assert frame == (phrases and Frame(tags.split().index("B-V"), tuple(Phrase(*phrase) for phrase in phrases)))


@pytest.mark.parametrize("tag", ["", "B", "B-", "X-ARG0", "ARG0", "o"])
def test_an_invalid_tag_is_refused(tag: str) -> None:
    with pytest.raises(AggGenError, match="tag 2 is"):
        frame_of_tags(["B-V", tag])


DESCRIBED = (
    sentence("Ann sang a song !", "[ARG0: Ann] [V: sang] [ARG1: a song] !"),
    sentence(
        "The Fig is a pub , and it has hot soup .",
        "[ARG1: The Fig] [V: is] [ARG2: a pub] , and it has hot soup .",
        "The Fig is a pub , and [ARG0: it] [V: has] [ARG1: hot soup] .",
    ),
)


class Source:
    """A frame source for `DESCRIBED` sentences; records the number of sentences of each call."""

    name = "list"

    def __init__(self, fingerprint: str = "list-1") -> None:
        self.fingerprint = fingerprint
        self.calls: list[int] = []

    def frames(self, sentences: Sequence[Tokens]) -> list[tuple[Frame, ...]]:
        self.calls.append(len(sentences))
        frames_of = {described.tokens.words: described.frames for described in DESCRIBED}
        return [frames_of.get(sentence.words, ()) for sentence in sentences]


def test_the_distinct_sentences_of_all_texts_are_one_call() -> None:
    source = Source()
    texts = [
        "The  Fig is a pub, and  it has hot soup. Ann sang a song!  What a day!",
        " ",
        "No verb",
        "Ann sang a song!",
    ]
    assert FrameSegmenter(source).segment(texts) == [
        ("The  Fig is a pub, ", "and  it has hot soup. ", "Ann sang a song!  ", "What a day!"),
        (),
        ("No verb",),
        ("Ann sang a song!",),
    ]
    assert source.calls == [4]
    assert FrameSegmenter(source).segment([" ", ""]) == [(), ()]
    assert source.calls == [4], "texts without words caused a call"
    first, *_, last = FrameSegmenter(source).sentences(texts)
    assert [described.tokens.spans[1] for described in (*first[:2], *last)] == [(5, 8), (45, 49), (4, 8)]
    assert first[1].frames == last[0].frames == DESCRIBED[0].frames


def test_segmenting_does_not_compute_the_fingerprint() -> None:
    """Computing AllenNLP's fingerprint reads the whole archive."""
    source = Source()
    del source.fingerprint
    assert FrameSegmenter(source).segment(["Ann sang a song!"]) == [("Ann sang a song!",)]


def test_a_source_that_returns_too_few_results_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "frames", lambda self, sentences: [])
    with pytest.raises(AggGenError, match="list returned frames of 0 of 1 sentences"):
        FrameSegmenter(Source()).segment(["It is."])


def test_fingerprints_depend_on_source_and_level() -> None:
    segmenters = [FrameSegmenter(Source(name), level) for name in ("a", "b") for level in ("paper", "full")]
    assert len({segmenter.fingerprint for segmenter in segmenters}) == 4
    assert (
        FrameSegmenter(Source("a")).fingerprint == segmenters[1].fingerprint == pickle_copy(segmenters[1]).fingerprint
    )
