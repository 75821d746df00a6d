"""Frames: BIO tags and AllenNLP's JSON are read as they are, and what is none is refused."""

from __future__ import annotations

from typing import Any

import pytest

from agggen.errors import AggGenError
from agggen.facts.frames import Frame, Phrase, frame_of_tags, parse_allennlp


@pytest.mark.parametrize(
    ("tags", "phrases"),
    [
        ("B-ARG0 B-V B-ARG1 I-ARG1 O", [("ARG0", 0, 1), ("V", 1, 2), ("ARG1", 2, 4)]),
        ("B-V I-V O B-ARG1", [("V", 0, 2), ("ARG1", 3, 4)]),
        ("B-ARG1 B-ARG1 B-V", [("ARG1", 0, 1), ("ARG1", 1, 2), ("V", 2, 3)]),
        ("B-ARG1 O B-V B-C-ARG1", [("ARG1", 0, 1), ("V", 2, 3), ("C-ARG1", 3, 4)]),
        ("I-ARG0 I-ARGM-LOC B-V O I-ARGM-LOC", [("ARG0", 0, 1), ("ARGM-LOC", 1, 2), ("V", 2, 3), ("ARGM-LOC", 4, 5)]),
        ("B-V B-ARG1 B-C-V", [("V", 0, 1), ("ARG1", 1, 2), ("C-V", 2, 3)]),
    ],
)
def test_tags_spell_phrases(tags: str, phrases: list[tuple[str, int, int]]) -> None:
    frame = frame_of_tags(tags.split())
    assert frame is not None
    assert frame.phrases == tuple(Phrase(*phrase) for phrase in phrases)
    assert frame.predicate == tags.split().index("B-V")
    assert (frame.start, frame.end) == (phrases[0][1], phrases[-1][2])


def test_tags_without_a_predicate_have_no_frame() -> None:
    assert frame_of_tags(["O", "O"]) is None
    assert frame_of_tags(["B-ARG0", "O"]) is None


@pytest.mark.parametrize("tag", ["", "B", "B-", "X-ARG0", "ARG0", "o"])
def test_an_invalid_tag_is_refused(tag: str) -> None:
    with pytest.raises(AggGenError, match="tag 2 is"):
        frame_of_tags(["B-V", tag])


@pytest.mark.parametrize(
    "phrases", [[("V", 0, 0)], [("V", 1, 2), ("ARG0", 0, 1)], [("ARG0", 0, 2), ("V", 1, 2)], [("ARG0", 1, 2)], []]
)
def test_invalid_phrases_are_refused(phrases: list[tuple[str, int, int]]) -> None:
    with pytest.raises(AggGenError):
        Frame(1, tuple(Phrase(*phrase) for phrase in phrases))


def test_allennlp_is_read_as_it_is() -> None:
    words, frames = parse_allennlp(
        {
            "words": ["Ann", "can", "sing", "it", "."],
            "verbs": [
                {"verb": "can", "description": "Ann can sing it .", "tags": ["O", "O", "O", "O", "O"]},
                {"verb": "sing", "description": "...", "tags": ["B-ARG0", "B-ARGM-MOD", "B-V", "B-ARG1", "O"]},
            ],
        }
    )
    assert words == ("Ann", "can", "sing", "it", ".")
    assert [frame.predicate for frame in frames] == [2]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ([], "not a sentence"),
        ({"words": ["a"]}, "not a sentence"),
        ({"words": "a b", "verbs": []}, "not a sentence"),
        ({"words": ["a", 1], "verbs": []}, "not a sentence"),
        ({"words": ["a"], "verbs": [{"verb": "a"}]}, 'verb 1 has no "tags"'),
        ({"words": ["a"], "verbs": [{"tags": ["B-V"]}, {"tags": []}]}, "verb 2 has 0 tags for 1 words"),
        ({"words": ["a"], "verbs": [{"tags": ["V"]}]}, "tag 1 is 'V'"),
    ],
)
def test_another_structure_is_refused(item: Any, message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        parse_allennlp(item)
