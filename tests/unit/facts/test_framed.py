"""Segmentation by a frame source: one call per batch, facts concatenate to the text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import AggGenError
from agggen.facts.framed import FrameSegmenter
from agggen.facts.frames import Frame, Phrase, Words
from tests.sent import sent


class VerbsOfAList:
    """A frame per verb of a list, up to the next verb; records the size of each call."""

    name = "list"
    fingerprint = "list-1"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def frames(self, sentences: Sequence[Words]) -> list[tuple[Frame, ...]]:
        self.calls.append(len(sentences))
        return [tuple(self._frames(sentence.words)) for sentence in sentences]

    def _frames(self, words: tuple[str, ...]) -> list[Frame]:
        verbs = [index for index, word in enumerate(words) if word in ("is", "serves", "sang")]
        starts = [0] + [words.index("and", verb) for verb in verbs[:-1] if "and" in words[verb:]]
        ends = [*starts[1:], len(words) - 1]
        return [
            Frame(verb, (Phrase("ARG0", start, verb), Phrase("V", verb, verb + 1), Phrase("ARG1", verb + 1, end)))
            for start, verb, end in zip(starts, verbs, ends, strict=False)
            if start < verb < end - 1
        ]


class Silent(VerbsOfAList):
    def frames(self, sentences: Sequence[Words]) -> list[tuple[Frame, ...]]:
        return []


def test_segmenting_does_not_compute_the_fingerprint() -> None:
    """AllenNLP's fingerprint reads the whole archive."""

    class Unknown(VerbsOfAList):
        @property
        def fingerprint(self) -> str:  # type: ignore[override]
            raise AssertionError("asked for its fingerprint")

    assert FrameSegmenter(Unknown()).segment(["Ann sang a song!"]) == [("Ann sang a song!",)]


def test_texts_are_segmented_in_one_batch() -> None:
    source = VerbsOfAList()
    texts = [
        "The Fig is a pub in Oslo  and  it serves hot soup. Ann sang a song!  What a day!",
        " ",
        "No verb here",
    ]
    assert FrameSegmenter(source).segment(texts) == [
        ("The Fig is a pub in Oslo  and  it serves hot soup. ", "Ann sang a song!  ", "What a day!"),
        (),
        ("No verb here",),
    ]
    assert source.calls == [4], "all sentences of all texts should be one batch"
    assert FrameSegmenter(source).segment([" ", ""]) == [(), ()]
    assert source.calls == [4], "texts without words should ask for nothing"


def test_a_repeated_sentence_is_labelled_once() -> None:
    source = VerbsOfAList()
    texts = ["Ann sang a song. The Fig is a pub.", "The  Fig is a pub.", "Ann sang a song."]
    result = FrameSegmenter(source).sentences(texts)
    assert source.calls == [2], "only different sentences should be asked for"
    assert [[sentence.words.spans[1] for sentence in sentences] for sentences in result] == [
        [(4, 8), (21, 24)],
        [(5, 8)],
        [(4, 8)],
    ]
    assert result[0][0].frames == result[2][0].frames and result[0][1].frames == result[1][0].frames
    assert FrameSegmenter(source).segment(texts) == [FrameSegmenter(source).segment([text])[0] for text in texts]


PIECES = st.sampled_from(["It", "is", "Ann", "and", "sang", ".", "(", "\u201d", "U.S.", "\u00a0"])


@given(text=st.one_of(st.text(), st.lists(PIECES).map(" ".join)))
def test_facts_concatenate_to_the_text(text: str) -> None:
    (facts,) = FrameSegmenter(VerbsOfAList()).segment([text])
    assert "".join(facts) == (text if text.strip() else "")
    assert all(fact.strip() for fact in facts)


def test_a_source_that_returns_too_few_results_is_refused() -> None:
    with pytest.raises(AggGenError, match="list labelled 0 of 1 sentences"):
        FrameSegmenter(Silent()).segment(["It is."])


def test_fingerprints_depend_on_source_and_level() -> None:
    second = VerbsOfAList()
    second.fingerprint = "list-2"
    prints = {
        FrameSegmenter(source, level).fingerprint for source in (VerbsOfAList(), second) for level in ("paper", "full")
    }
    assert len(prints) == 4
    assert FrameSegmenter(VerbsOfAList()).fingerprint in prints


def test_a_segmenter_can_be_pickled() -> None:
    segmenter = FrameSegmenter(VerbsOfAList())
    copied = sent(segmenter)
    text = "Ann sang a song and it is big."
    assert copied.segment([text]) == segmenter.segment([text])
    assert copied.fingerprint == segmenter.fingerprint
