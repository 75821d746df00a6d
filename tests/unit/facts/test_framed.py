"""Segmentation by a frame source: one call per batch, with distinct sentences."""

from collections.abc import Sequence

import pytest

from agggen.errors import AggGenError
from agggen.facts.framed import FrameSegmenter
from agggen.facts.frames import Frame, Tokens
from tests.pickling import pickle_copy
from tests.unit.facts.role_notation import sentence

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
