"""The role tagger: features, decoding, files on disk; the shipped tagger, also with unusual input."""

import itertools
import re
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import BundleError
from agggen.facts.tagger.decode import best_frames, best_tags, tags_of
from agggen.facts.tagger.model import batch_by_length, feature_values, word_shape
from agggen.facts.tagger.store import TAGGER_FOLDER, EmbeddedFrames, RoleTagger, load_tagger
from agggen.files import read_json
from tests.pickling import pickle_copy
from tests.unit.facts.role_notation import check_bio, joined

# --- features and batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "expected"), [("NASA", "X"), ("McDonald", "XxXx"), ("A-320b", "X-0x"), ("\u6771\u4eac", "X"), ("...", ".")]
)
def test_shapes_of_words(word: str, expected: str) -> None:
    assert word_shape(word) == expected


def test_features_do_not_depend_on_unicode_form_or_digits() -> None:
    assert feature_values("Caf\u00e9")[0] == feature_values("Cafe\u0301")[0]
    assert feature_values("1963")[0] == feature_values("2020")[0] == "0"


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 200))
def test_batches_contain_every_non_empty_sentence_once_within_the_budget(lengths: list[int], max_words: int) -> None:
    batches = batch_by_length(lengths, max_words)
    assert sorted(index for batch in batches for index in batch) == [i for i, length in enumerate(lengths) if length]
    for batch in batches:
        widths = [lengths[index] for index in batch]
        assert widths == sorted(widths, reverse=True)
        assert len(batch) == 1 or len(batch) * widths[0] <= max_words


# --- decoding ----------------------------------------------------------------------------------------------------


def enumerate_best(scores: np.ndarray, predicate: int, names: tuple[str, ...]) -> float:
    """The highest total score of all valid tag sequences of a frame."""
    best = -np.inf
    for path in itertools.product(range(len(names)), repeat=len(scores)):
        tags = [names[number] for number in path]
        if [position for position, tag in enumerate(tags) if tag == "B-V"] != [predicate]:
            continue
        try:
            check_bio(tags)
        except AssertionError:
            continue
        best = max(best, sum(scores[position, number] for position, number in enumerate(path)))
    return float(best)


@pytest.mark.parametrize("seed", range(8))
def test_decoding_equals_enumeration(seed: int) -> None:
    names = tags_of(("ARG0", "C-V"))
    rng = np.random.default_rng(seed)
    lengths = np.array([1, 2, 4, 5])
    predicates = np.array([rng.integers(length) for length in lengths])
    scores = rng.normal(size=(4, 5, len(names))) * 3
    for row, path in enumerate(best_tags(scores.copy(), predicates, lengths)):
        assert len(path) == lengths[row]
        total = sum(scores[row, position, number] for position, number in enumerate(path))
        assert total == pytest.approx(enumerate_best(scores[row, : lengths[row]], int(predicates[row]), names))
        check_bio([names[number] for number in path])


def test_a_duplicate_role_is_kept_nearest_to_the_predicate() -> None:
    roles = ("ARG0", "ARGM-TMP")
    names = tags_of(roles)
    expected = [["B-ARG0", "B-ARG0", "I-ARG0", "B-V", "B-ARGM-TMP", "B-ARGM-TMP", "B-ARG0"]]
    scores = np.zeros((1, 7, len(names)))
    for position, tag in enumerate(expected[0]):
        scores[0, position, names.index(tag)] = 2
    scores[0, 6, names.index("B-ARGM-TMP")] = 1
    [path] = best_frames(scores, np.array([3]), np.array([7]), roles)
    assert [names[number] for number in path] == ["O", "B-ARG0", "I-ARG0", "B-V", *["B-ARGM-TMP"] * 3]


@given(st.integers(0, 10_000))
def test_random_scores_give_valid_frames_without_duplicate_roles(seed: int) -> None:
    roles = ("ARG0", "ARG1", "C-ARG1", "R-ARG0")
    names = tags_of(roles)
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(3, 9, len(names)))
    lengths, predicates = np.array([9, 5, 1]), np.array([rng.integers(9), rng.integers(5), 0])
    for row, path in enumerate(best_frames(scores, predicates, lengths, roles)):
        tags = [names[number] for number in path]
        check_bio(tags)
        assert [position for position, tag in enumerate(tags) if tag == "B-V"] == [predicates[row]]
        assert max(tags.count("B-ARG0"), tags.count("B-ARG1")) <= 1
        if max(map([names[n] for n in best_tags(scores, predicates, lengths)[row]].count, ("B-ARG0", "B-ARG1"))) <= 1:
            assert path == best_tags(scores, predicates, lengths)[row]


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tagger.json", "weights.safetensors", "manifest.json"])
def test_a_changed_or_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    shutil.copytree(TAGGER_FOLDER, tmp_path, dirs_exist_ok=True)
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    changed = "" if name == "manifest.json" else name
    with pytest.raises(BundleError, match=rf"{changed} does not match its hash in manifest\.json"):
        load_tagger(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(BundleError, match=f"{name} is missing"):
        load_tagger(tmp_path)


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
    words = read_json(TAGGER_FOLDER / "tagger.json")["features"]["word"]
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
