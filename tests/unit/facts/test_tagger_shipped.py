"""The shipped tagger: its files, and unusual input."""

import re
from functools import cache

from agggen.facts.embedded import TAGGER_FOLDER, EmbeddedFrames
from agggen.facts.tagger.store import RoleTagger, load_tagger
from tests.pickling import pickle_copy
from tests.unit.facts.role_notation import check_bio, joined

ADDRESS = re.compile(r".@|@.|://|www\.|\w\.(?:com|net|org|edu|gov)(?!\w)", re.IGNORECASE)
ALAN, WATERMAN = map(
    str.split,
    (
        "Alan Bean , who was born in Wheeler , Texas , was selected by NASA in 1963 .",
        "The Waterman serves Italian food near the river and can be found in the city centre .",
    ),
)
ODD = (
    [],
    ["."],
    ["is"],
    ["Hello"],
    ["\u6771\u4eac", "is", "\U0001f980", "."],
    ["\u0130stanbul", "lies", "in", "Tu\u0308rkiye"],
    ["x" * 5000, "serves", "food"],
    ["is"] * 7,
    (ALAN + WATERMAN) * 10,
    ["a"] * 300,
)


@cache
def shipped() -> RoleTagger:
    return load_tagger(TAGGER_FOLDER)


def test_the_shipped_files_are_small_attributed_and_without_addresses() -> None:
    source = EmbeddedFrames()
    assert source.fingerprint == EmbeddedFrames().fingerprint
    assert source.fingerprint.startswith("embedded-")
    assert sum(file.stat().st_size for file in TAGGER_FOLDER.iterdir()) < 7_000_000
    assert "CC BY-SA 4.0" in (TAGGER_FOLDER / "README.md").read_text()
    words = shipped().features.tables["word"]
    assert len(words) > 9000
    assert [word for word in words if ADDRESS.search(word)] == []


def test_agents_and_patients_are_tagged() -> None:
    [frames] = EmbeddedFrames().frames([joined(ALAN)])
    phrases_of = {
        ALAN[frame.predicate]: {phrase.role: " ".join(ALAN[phrase.start : phrase.end]) for phrase in frame.phrases}
        for frame in frames
    }
    assert set(phrases_of) == {"was", "born", "selected"}
    assert phrases_of["born"]["R-ARG1"] == "who"
    assert phrases_of["born"]["ARGM-LOC"].startswith("in Wheeler")
    assert phrases_of["selected"]["ARG0"] == "by NASA"


def test_unusual_sentences_have_well_formed_frames() -> None:
    tagged = shipped().tag(ODD)
    assert len(tagged) == len(ODD)
    assert tagged[0] == ()
    for words, frames in zip(ODD, tagged, strict=True):
        predicates = [tags.index("B-V") for tags in frames]
        assert predicates == sorted(set(predicates))
        for tags in frames:
            assert len(tags) == len(words) and tags.count("B-V") == 1
            check_bio(tags)
    assert len(tagged[8]) > 60, "the end of a long sentence is not tagged"


def test_tags_do_not_depend_on_batch_composition() -> None:
    """The sentences have no nearly tied tags, which rounding could decide differently."""
    source = EmbeddedFrames()
    batch = [joined(list(words)) for words in (["Hello"], ALAN, WATERMAN, WATERMAN[:9], ALAN + WATERMAN)]
    result = source.frames(batch)
    assert result == source.frames(batch)
    assert result == [source.frames([words])[0] for words in batch]
    assert source.frames([]) == []


def test_a_source_is_pickled_without_its_weights() -> None:
    source = EmbeddedFrames()
    source.frames([joined(ALAN)])
    assert pickle_copy(source, max_bytes=1000).frames([joined(ALAN)]) == source.frames([joined(ALAN)])
