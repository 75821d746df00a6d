"""Frames from BIO tags; invalid tags are refused."""

import pytest

from agggen.errors import AggGenError
from agggen.facts.frames import Frame, Phrase, frame_of_tags


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
    assert not (frame and phrases) or (frame.start, frame.end) == (phrases[0][1], phrases[-1][2])


@pytest.mark.parametrize("tag", ["", "B", "B-", "X-ARG0", "ARG0", "o"])
def test_an_invalid_tag_is_refused(tag: str) -> None:
    with pytest.raises(AggGenError, match="tag 2 is"):
        frame_of_tags(["B-V", tag])
