"""The role tagger's parts: features, decoding, training on a toy corpus, scores, files on disk."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import BundleError, ConfigError, CorpusError, TrainingError
from agggen.facts.frames import Frame, Words, frame_of_tags
from agggen.facts.tagger.batches import collate_words, groups
from agggen.facts.tagger.decode import best_frames, best_tags, tags_of
from agggen.facts.tagger.features import Features, shape, values
from agggen.facts.tagger.store import load_tagger, save_tagger, tagger_fingerprint
from agggen_platform.srl.tagger.data import check_bio, parse_sentence
from agggen_platform.srl.tagger.evaluate import (
    Agreement,
    evaluate_annotated,
    evaluate_source,
    joined_words,
    read_allennlp,
)
from agggen_platform.srl.tagger.train import (
    IGNORED,
    TrainConfig,
    collate_targets,
    common_roles,
    plain,
    shuffled_groups,
    train_tagger,
)
from tests.unit.srl.toy_tagger import SMALL, line, sentences, untrained

# --- features and batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "expected"), [("NASA", "X"), ("McDonald", "XxXx"), ("A-320b", "X-0x"), ("\u6771\u4eac", "X"), ("...", ".")]
)
def test_shapes(word: str, expected: str) -> None:
    assert shape(word) == expected


def test_values_do_not_depend_on_unicode_form_or_digits() -> None:
    assert values("Caf\u00e9")[0] == values("Cafe\u0301")[0]
    assert values("1963")[0] == values("2020")[0] == "0"


ADDRESSES = ("ann@example.org", "@ann", "http://example.org/a", "www.example.org", "Example.com", "<ann@example.org>")


def test_addresses_are_in_no_table_of_words() -> None:
    words = [*ADDRESSES, "@", "e.g.", "U.S.", "and/or", "Comedy", "A.Network", "3.5"]
    features, counts = Features.count([words] * 3)
    assert features.tables["word"] == ("0.0", "@", "a.network", "and/or", "comedy", "e.g.", "u.s.")
    assert counts == [0] + [3] * 7
    assert {features.numbers(word)[0] for word in ADDRESSES} == {0}


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 200))
def test_groups_hold_every_sentence_once_and_keep_to_the_budget(lengths: list[int], budget: int) -> None:
    for found in (groups(lengths, budget), shuffled_groups(lengths, budget, random.Random(0))):
        assert sorted(index for group in found for index in group) == list(range(len(lengths)))
        for group in found:
            widths = [lengths[index] for index in group]
            assert widths == sorted(widths, reverse=True)
            assert len(group) == 1 or len(group) * (widths[0] - 2) <= budget


def test_targets_ignore_padding_and_unknown_labels() -> None:
    batch = [parse_sentence(line()), sentences()[0]]
    targets = collate_targets(batch, {"NNP": 0, "VB": 1}, {}, {"O": 0, "B-V": 1, "B-ARG0": 2})
    assert targets.pos[0].tolist() == [0, 0, IGNORED, 1, IGNORED, IGNORED]
    assert targets.predicates[1].tolist() == [0, 1, 0, 0, IGNORED, IGNORED]
    assert targets.tags[2].tolist() == [2, 1, 0, 0, IGNORED, IGNORED]
    assert (targets.sentence.tolist(), targets.predicate.tolist()) == ([0, 0, 1], [2, 3, 1])


# --- decoding ----------------------------------------------------------------------------------------------------


def enumerate_best(scores: np.ndarray, predicate: int, names: tuple[str, ...]) -> float:
    """The best total over all valid tag sequences of one frame."""
    best = -np.inf
    for path in itertools.product(range(len(names)), repeat=len(scores)):
        tags = [names[number] for number in path]
        if [place for place, tag in enumerate(tags) if tag == "B-V"] != [predicate]:
            continue
        try:
            check_bio(tags)
        except ValueError:
            continue
        best = max(best, sum(scores[place, number] for place, number in enumerate(path)))
    return float(best)


@pytest.mark.parametrize("seed", range(8))
def test_decoding_finds_what_enumeration_finds(seed: int) -> None:
    names = tags_of(("ARG0", "C-V"))
    rng = np.random.default_rng(seed)
    lengths = np.array([1, 2, 4, 5])
    predicates = np.array([rng.integers(length) for length in lengths])
    scores = rng.normal(size=(4, 5, len(names))) * 3
    for row, path in enumerate(best_tags(scores.copy(), predicates, lengths)):
        assert len(path) == lengths[row]
        total = sum(scores[row, place, number] for place, number in enumerate(path))
        assert total == pytest.approx(enumerate_best(scores[row, : lengths[row]], int(predicates[row]), names))
        check_bio([names[number] for number in path])


def test_a_numbered_role_stands_once_where_the_predicate_is_nearest() -> None:
    roles = ("ARG0", "ARGM-TMP")
    names = tags_of(roles)
    wanted = [["B-ARG0", "B-ARG0", "I-ARG0", "B-V", "B-ARGM-TMP", "B-ARGM-TMP", "B-ARG0"]]
    scores = np.zeros((1, 7, len(names)))
    for place, tag in enumerate(wanted[0]):
        scores[0, place, names.index(tag)] = 2
    scores[0, 6, names.index("B-ARGM-TMP")] = 1
    [path] = best_frames(scores, np.array([3]), np.array([7]), roles)
    assert [names[number] for number in path] == ["O", "B-ARG0", "I-ARG0", "B-V", *["B-ARGM-TMP"] * 3]


@given(st.integers(0, 10_000))
def test_random_scores_give_valid_frames_without_doubles(seed: int) -> None:
    roles = ("ARG0", "ARG1", "C-ARG1", "R-ARG0")
    names = tags_of(roles)
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(3, 9, len(names)))
    lengths, predicates = np.array([9, 5, 1]), np.array([rng.integers(9), rng.integers(5), 0])
    for row, path in enumerate(best_frames(scores, predicates, lengths, roles)):
        tags = [names[number] for number in path]
        check_bio(tags)
        assert [place for place, tag in enumerate(tags) if tag == "B-V"] == [predicates[row]]
        assert max(tags.count("B-ARG0"), tags.count("B-ARG1")) <= 1
        if max(map([names[n] for n in best_tags(scores, predicates, lengths)[row]].count, ("B-ARG0", "B-ARG1"))) <= 1:
            assert path == best_tags(scores, predicates, lengths)[row]


# --- network and training ----------------------------------------------------------------------------------------


def test_padding_does_not_reach_the_words() -> None:
    tagger = untrained()
    model = tagger.model.eval()
    long, short = ["Bolda", "sees", "Tanko", "and", "hears", "it"], ["Bolda", "sees"]
    padded, alone = collate_words([long, short], tagger.features), collate_words([short], tagger.features)
    first, second = torch.tensor([1]), torch.tensor([1])
    with torch.inference_mode():
        together, single = model.read(*padded), model.read(*alone)
        torch.testing.assert_close(together.states[1:, :2], single.states)
        roles = model.roles(together.states, padded.lengths, first, second)
        torch.testing.assert_close(roles[:, :2], model.roles(single.states, alone.lengths, torch.tensor([0]), second))


def test_training_learns_a_toy_language_and_is_repeatable() -> None:
    corpus = sentences()
    config = TrainConfig(epochs=20, batch_words=80, learning_rate=1e-2, average=0.9, rarest_role=5, model=SMALL)
    torch.manual_seed(123)  # of no consequence
    tagger = train_tagger(corpus, config)
    for agreed in evaluate_annotated(tagger, corpus).values():
        assert agreed.f1 > 0.95
    short = TrainConfig(epochs=1, rarest_role=5, model=SMALL)
    one, other = train_tagger(corpus, short), train_tagger(corpus, short)
    for name, weight in one.model.state_dict().items():
        assert torch.equal(weight, other.model.state_dict()[name]), name


def test_training_refuses_what_it_cannot_learn_from() -> None:
    with pytest.raises(TrainingError, match="none of the 0 sentences"):
        train_tagger([])
    with pytest.raises(ConfigError, match="epochs must be from 1"):
        TrainConfig(epochs=0)
    with pytest.raises(ConfigError, match="average"):
        TrainConfig(average=1.0)


def test_rare_roles_become_their_plain_form_or_nothing() -> None:
    tags = ["B-R-ARG1", "I-R-ARG1", "B-ARGM-REC", "B-V", "B-C-V", "B-ARG1-DSP"]
    sentence = parse_sentence(line(preds=[[3, "write", ""]], frames=[tags]))
    assert plain(sentence, ("ARG1", "C-V")).roles[1].tags == ("B-ARG1", "I-ARG1", "O", "B-V", "B-C-V", "B-ARG1")
    assert plain(sentence, ("ARG1",)).roles[1].tags[4] == "O"
    assert common_roles([sentence], 1) == ("ARG1-DSP", "ARGM-REC", "C-V", "R-ARG1")


# --- scores ------------------------------------------------------------------------------------------------------


class Fixed:
    """A source that knows its answer."""

    name = "fixed"
    fingerprint = "fixed"

    def __init__(self, answer: list[tuple[Frame, ...]]) -> None:
        self.answer = answer

    def frames(self, sentences: Sequence[Words]) -> list[tuple[Frame, ...]]:
        return self.answer


def test_agreement_counts_spans_with_their_predicates(tmp_path: Path) -> None:
    words = ["Bo", "sees", "Al", "and", "hears", "it"]
    right = [["B-ARG0", "B-V", "B-ARG1", "O", "O", "O"], ["B-ARG0", "O", "O", "O", "B-V", "B-ARG1"]]
    path = tmp_path / "srl.txt"
    path.write_text(json.dumps([{"words": words, "verbs": [{"verb": "", "tags": tags} for tags in right]}]) + "\n")
    [[sentence]] = read_allennlp(path)
    assert sentence.words == joined_words(words)
    one = frame_of_tags(["B-ARG1", "B-V", "B-ARG1", "O", "O", "O"])
    assert one is not None
    found = evaluate_source(Fixed([(one,)]), [[sentence]])
    assert found["predicates"] == Agreement(1, 1, 2)
    assert found["labelled"] == Agreement(1, 2, 4)
    assert found["unlabelled"] == Agreement(2, 2, 4)
    assert found["boundaries inside"] == Agreement(0, 0, 1)
    assert found["boundaries"] == found["boundaries inside"]
    perfect = evaluate_source(Fixed([sentence.frames] * 2), [[sentence, sentence], []])
    assert perfect["boundaries"] == Agreement(3, 3, 3)
    assert all(agreed.f1 == 1 for agreed in perfect.values())


def test_a_file_that_is_not_allennlps_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "srl.txt"
    path.write_text('[]\n[{"words": ["a"], "verbs": [{"tags": []}]}]\n')
    with pytest.raises(CorpusError, match="line 2: not a list of AllenNLP's sentences"):
        read_allennlp(path)


# --- files -------------------------------------------------------------------------------------------------------


def test_a_saved_tagger_tags_alike_and_has_a_stable_fingerprint(tmp_path: Path) -> None:
    tagger = untrained()
    tagger.model.half().float()  # files hold 16-bit floats
    printed = save_tagger(tmp_path / "one", tagger)
    assert printed == tagger_fingerprint(tmp_path / "one") == save_tagger(tmp_path / "two", tagger)
    texts = [["Bolda", "sees", "Tanko"], ["unheard", "of"]]
    assert load_tagger(tmp_path / "one").tag(texts) == tagger.tag(texts)


@pytest.mark.parametrize("name", ["tagger.json", "weights.safetensors"])
def test_a_changed_or_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    save_tagger(tmp_path, untrained())
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BundleError, match=f"{name} is not what manifest.json says"):
        load_tagger(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(BundleError, match=f"{name} is missing"):
        load_tagger(tmp_path)


def test_a_folder_without_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json cannot be read"):
        load_tagger(tmp_path)
