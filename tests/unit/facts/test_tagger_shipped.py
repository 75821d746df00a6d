"""The included tagger: its files, unusual input, agreement with AllenNLP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agggen.facts.embedded import SHIPPED, EmbeddedFrames
from agggen.facts.frames import FrameSource, Sentence
from agggen.facts.grouping import fact_starts
from agggen.facts.tagger.store import RoleTagger, load_tagger
from tests.sent import sent
from tests.unit.facts.role_notation import check_bio, joined, parse_allennlp

ADDRESS = re.compile(r".@|@.|://|www\.|\w\.(?:com|net|org|edu|gov)(?!\w)", re.IGNORECASE)
ALAN, WATERMAN = (
    sentence.split()
    for sentence in (
        "Alan Bean , who was born in Wheeler , Texas , was selected by NASA in 1963 .",
        "The Waterman serves Italian food near the river and can be found in the city centre .",
    )
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
    return load_tagger(SHIPPED)


def test_the_shipped_files_are_small_intact_and_attributed() -> None:
    source = EmbeddedFrames()
    assert isinstance(source, FrameSource)
    assert source.fingerprint == EmbeddedFrames().fingerprint
    assert source.fingerprint.startswith("embedded-")
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 7_000_000
    readme = (SHIPPED / "README.md").read_text()
    assert "CC BY-SA 4.0" in readme


def test_the_shipped_tables_hold_no_addresses() -> None:
    words = load_tagger(SHIPPED).features.tables["word"]
    assert len(words) > 9000
    assert [word for word in words if ADDRESS.search(word)] == []


def test_who_did_what() -> None:
    [frames] = EmbeddedFrames().frames([joined(ALAN)])
    phrases_of = {
        ALAN[frame.predicate]: {phrase.role: " ".join(ALAN[phrase.start : phrase.end]) for phrase in frame.phrases}
        for frame in frames
    }
    assert set(phrases_of) == {"was", "born", "selected"}
    assert phrases_of["born"]["R-ARG1"] == "who"
    assert phrases_of["born"]["ARGM-LOC"].startswith("in Wheeler")
    assert phrases_of["selected"]["ARG0"] == "by NASA"


def test_odd_sentences_have_well_formed_frames() -> None:
    tagged = shipped().tag(ODD)
    assert len(tagged) == len(ODD)
    assert tagged[0] == ()
    for words, frames in zip(ODD, tagged, strict=True):
        predicates = [tags.index("B-V") for tags in frames]
        assert predicates == sorted(set(predicates))
        for tags in frames:
            assert len(tags) == len(words) and tags.count("B-V") == 1
            check_bio(tags)
    assert len(tagged[8]) > 60, "the end of a long sentence is tagged too"


def test_tags_do_not_depend_on_batch_composition() -> None:
    """For sentences without nearly tied tags, which rounding could decide differently by batch."""
    source = EmbeddedFrames()
    batch = [joined(list(words)) for words in (["Hello"], ALAN, WATERMAN, WATERMAN[:9], ALAN + WATERMAN)]
    result = source.frames(batch)
    assert result == source.frames(batch)
    assert result == [source.frames([words])[0] for words in batch]
    assert source.frames([]) == []


def test_a_source_is_pickled_as_its_folder() -> None:
    source = EmbeddedFrames()
    source.frames([joined(ALAN)])
    assert sent(source, at_most=1000).frames([joined(ALAN)]) == source.frames([joined(ALAN)])


def test_agreement_with_allennlp_on_webnlg(data_home: Path) -> None:
    """F1 on every third text of the second half of the development texts, which were not used to choose settings."""
    path = data_home / "agggen_release" / "srl_allennlp" / "webnlg" / "dev-webnlg-tgt.txt"
    if not path.is_file():
        pytest.skip(f"{path} is not on this machine")
    lines = path.read_text(encoding="utf-8").splitlines()
    expected = [parse_allennlp(item) for line in lines[len(lines) // 2 :: 3] for item in json.loads(line)]
    frames = EmbeddedFrames().frames([sentence.words for sentence in expected])
    result = [
        replace(sentence, frames=sentence_frames) for sentence, sentence_frames in zip(expected, frames, strict=True)
    ]
    assert f1(result, expected, predicates) >= 0.95
    assert f1(result, expected, boundaries) >= 0.70
    assert f1(result, expected, lambda sentence: {span[:3] for span in arguments(sentence)}) >= 0.78
    assert f1(result, expected, arguments) >= 0.70


def f1(actual: Sequence[Sentence], expected: Sequence[Sentence], items: Callable[[Sentence], set[Any]]) -> float:
    """Harmonic mean of precision and recall of the items of all sentences, 0 to 1."""
    pairs = [(items(predicted), items(gold)) for predicted, gold in zip(actual, expected, strict=True)]
    return (
        2
        * sum(len(predicted & gold) for predicted, gold in pairs)
        / sum(len(predicted) + len(gold) for predicted, gold in pairs)
    )


def predicates(sentence: Sentence) -> set[Any]:
    return {frame.predicate for frame in sentence.frames}


def boundaries(sentence: Sentence) -> set[Any]:
    """The words at which the second and later facts of the sentence begin."""
    return set(fact_starts(sentence)[1:])


def arguments(sentence: Sentence) -> set[Any]:
    """Predicate, first word, end and role of each phrase but the verb."""
    return {
        (frame.predicate, phrase.start, phrase.end, phrase.role)
        for frame in sentence.frames
        for phrase in frame.phrases
        if phrase.role != "V"
    }
