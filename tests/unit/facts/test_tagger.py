"""The role tagger's parts: reading EWT, noise, features, decoding, training on a toy corpus, files on disk."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agggen.corpora.rejects import Reject
from agggen.errors import BundleError, ConfigError, CorpusError, TrainingError
from agggen.facts.frames import Frame, Words, frame_of_tags
from agggen.facts.tagger.augment import Noise, change, names_of
from agggen.facts.tagger.batches import IGNORED, collate_targets, collate_words, groups, shuffled_groups
from agggen.facts.tagger.data import Sentence, check_bio, parse_sentence, read_sentences, read_split
from agggen.facts.tagger.decode import best_frames, best_tags, tags_of
from agggen.facts.tagger.evaluate import Agreement, evaluate_annotated, evaluate_source, joined_words, read_allennlp
from agggen.facts.tagger.features import Features, shape, values
from agggen.facts.tagger.graft import donors, graft
from agggen.facts.tagger.model import TaggerConfig, TaggerModel
from agggen.facts.tagger.store import RoleTagger, load_tagger, save_tagger, tagger_fingerprint
from agggen.facts.tagger.train import TrainConfig, common_roles, plain, train_tagger

SMALL = TaggerConfig(features=(8, 4, 4, 4, 4), hidden=12, role=12, role_hidden=8)


def line(**changes: Any) -> dict[str, Any]:
    """A sentence as the files hold it."""
    return {
        "words": ["Ada", "Lovelace", "can", "write", "programs", "."],
        "xpos": ["NNP", "NNP", "MD", "VB", "NNS", "."],
        "upos": ["PROPN", "PROPN", "AUX", "VERB", "NOUN", "PUNCT"],
        "parse": ["(TOP(S(NP-SBJ*", "*)", "(VP*", "(VP*", "(NP*)))", "*))"],
        "preds": [[3, "write", "write.01"], [4, "program", "program.01"]],
        "frames": [
            ["B-ARG0", "I-ARG0", "B-ARGM-MOD", "B-V", "B-ARG1", "O"],
            ["O", "O", "O", "O", "B-V", "O"],
        ],
    } | changes


def sentences() -> list[Sentence]:
    """A toy corpus: subject, verb, object; twelve nouns and four verbs."""
    nouns = [f"{first}{second}" for first in ("Bol", "Tan", "Mir") for second in ("da", "ko", "ri", "su")]
    found = []
    for (subject, target), verb in itertools.product(
        itertools.islice(itertools.permutations(nouns, 2), 40), ("sees", "hears")
    ):
        found.append(
            parse_sentence(
                {
                    "words": [subject, verb, target, "."],
                    "xpos": ["NNP", "VBZ", "NNP", "."],
                    "upos": ["PROPN", "VERB", "PROPN", "PUNCT"],
                    "parse": ["(TOP(S(NP*)", "(VP*", "(NP*))", "*))"],
                    "preds": [[1, verb, ""]],
                    "frames": [["B-ARG0", "B-V", "B-ARG1", "O"]],
                }
            )
        )
    return found


def untrained(roles: tuple[str, ...] = ("ARG0", "ARG1")) -> RoleTagger:
    torch.manual_seed(0)
    features, _ = Features.count(sentence.words for sentence in sentences())
    return RoleTagger(TaggerModel(SMALL, features.sizes, len(tags_of(roles))), features, roles)


# --- reading -----------------------------------------------------------------------------------------------------


def test_a_sentence_has_frames_for_verbs_and_modals_only() -> None:
    sentence = parse_sentence(line())
    assert [role.predicate for role in sentence.roles] == [2, 3]
    assert sentence.roles[0].tags == ("O", "O", "B-V", "O", "O", "O")
    assert sentence.roles[1].tags[0] == "B-ARG0"
    assert sentence.predicates == (False, False, True, True, False, False)


def test_a_verb_in_pieces_is_a_predicate_without_frame() -> None:
    tags = ["B-ARG0", "I-ARG0", "B-V", "I-V", "B-ARG1", "O"]
    sentence = parse_sentence(line(preds=[[3, "write", ""]], frames=[tags]))
    assert [role.predicate for role in sentence.roles] == [2]
    assert sentence.predicates[3]


def test_syntax_says_where_a_word_and_the_next_meet() -> None:
    assert parse_sentence(line()).syntax == ("3|NP", "-1|S", "1|VP", "1|VP", "-2|S", "-2|END")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"xpos": ["NNP"]}, "6 words but 1 values of xpos"),
        ({"words": []}, "words must be a list"),
        ({"words": ["Ada", "", "can", "write", "programs", "."]}, "none of them empty"),
        ({"preds": [[3, "write", ""]]}, "1 predicates but 2 frames"),
        ({"preds": [[99, "write", ""], [4, "program", ""]]}, "predicate 99"),
        ({"preds": [[-3, "write", ""], [4, "program", ""]]}, "predicate -3"),
        ({"frames": [["I-ARG0", "O", "O", "B-V", "O", "O"], ["O"] * 4 + ["B-V", "O"]]}, "follows 'O'"),
        ({"frames": [["ARG0", "O", "O", "B-V", "O", "O"], ["O"] * 4 + ["B-V", "O"]]}, "no BIO tag"),
    ],
)
def test_a_malformed_sentence_says_why(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_sentence(line(**changes))


def test_bad_lines_are_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl.gz"
    without = {key: value for key, value in line().items() if key != "upos"}
    lines = [
        json.dumps(line()),
        "{cut off",
        "",
        "[]",
        json.dumps(without),
        json.dumps(line(words=7)),
        json.dumps(line()),
    ]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    items = list(read_sentences(path))
    assert [isinstance(item, Sentence) for item in items] == [True, False, False, False, False, True]
    rejects = [item for item in items if isinstance(item, Reject)]
    assert [reject.line for reject in rejects] == [2, 4, 5, 6]
    assert "upos" in rejects[2].reason


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"train\.jsonl\.gz is missing"):
        list(read_split(tmp_path, "train"))
    with pytest.raises(CorpusError, match="no split 'tset'; there are train, dev, test"):
        list(read_split(tmp_path, "tset"))
    plain_text, cut_off = tmp_path / "plain.jsonl.gz", tmp_path / "cut.jsonl.gz"
    plain_text.write_text(json.dumps(line()))
    cut_off.write_bytes(gzip.compress(json.dumps(line()).encode())[:-12])
    for path in (plain_text, cut_off):
        with pytest.raises(CorpusError, match=f"cannot read .*{path.name}"):
            list(read_sentences(path))


def test_ewt_is_read_without_rejects(data_home: Path) -> None:
    items = list(read_split(data_home, "dev"))
    assert not [item for item in items if isinstance(item, Reject)]
    assert len(items) == 1957


# --- noise -------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000))
def test_noise_leaves_verbs_and_valid_frames(seed: int) -> None:
    before = parse_sentence(line())
    rng = random.Random(seed)
    after = change(before, names_of([before, *sentences()]), Noise(names=0.8, lower=0.5, unstopped=0.5), rng)
    columns = (after.pos, after.syntax, after.predicates, *(role.tags for role in after.roles))
    assert {len(column) for column in columns} == {len(after.words)}
    assert [after.words[role.predicate] for role in after.roles] == ["can", "write"]
    for role in after.roles:
        check_bio(role.tags)
        assert role.tags[role.predicate] == "B-V"
        assert after.predicates[role.predicate]
    frame = frame_of_tags(after.roles[1].tags)
    assert frame is not None
    assert [phrase.role for phrase in frame.phrases] == ["ARG0", "ARGM-MOD", "V", "ARG1"]


def test_no_noise_changes_nothing() -> None:
    still = Noise(names=0, lower=0, unstopped=0)
    assert change(parse_sentence(line()), [("X",)], still, random.Random(0)) == parse_sentence(line())


def test_a_grafted_clause_has_its_antecedent_and_widens_the_hosts_phrase() -> None:
    host = parse_sentence(
        {
            "words": ["Bolt", "was", "drawn", "by", "Gary", "Cohn", "."],
            "xpos": ["NNP", "VBD", "VBN", "IN", "NNP", "NNP", "."],
            "upos": ["PROPN", "AUX", "VERB", "ADP", "PROPN", "PROPN", "PUNCT"],
            "parse": ["(TOP(S(NP*)", "(VP*", "(VP*", "(PP*", "(NP*", "*))))", "*))"],
            "preds": [[2, "draw", ""]],
            "frames": [["B-ARG1", "O", "B-V", "B-ARG0", "I-ARG0", "I-ARG0", "O"]],
        }
    )
    [donor] = donors([sentences()[0]])
    made = set()
    for seed in range(60):
        after = graft(host, [donor], frozenset(("ARG0", "ARG1", "R-ARG0")), random.Random(seed))
        made.add(" ".join(after.words))
        columns = (after.pos, after.syntax, after.predicates, *(role.tags for role in after.roles))
        assert {len(column) for column in columns} == {len(after.words)}
        for role in after.roles:
            check_bio(role.tags)
            assert role.tags[role.predicate] == "B-V"
            assert after.predicates[role.predicate]
        if after.words[:6] == host.words[:6]:
            inner = next(role for role in after.roles if after.words[role.predicate] == "sees")
            assert inner.tags[4:6] == ("B-ARG0", "I-ARG0")
            assert "B-R-ARG0" in inner.tags
            outer = next(role for role in after.roles if after.words[role.predicate] == "drawn")
            assert outer.tags[3 : len(after.words) - 1] == ("B-ARG0", *["I-ARG0"] * (len(after.words) - 5))
    assert "Bolt was drawn by Gary Cohn , who sees Bolko ." in made, made


def test_nothing_is_grafted_where_nothing_fits() -> None:
    host = sentences()[0]
    assert graft(host, [], frozenset(), random.Random(0)) == host
    assert graft(host, donors([host]), frozenset(("ARG0",)), random.Random(0)) == host, "R-ARG0 is not known"
    question = line(words=["Ada", "Lovelace", "can", "write", "programs", "?"])
    assert donors([parse_sentence(question)]) == []
    assert [donor.end for donor in donors([parse_sentence(line())])] == [2]


# --- features and batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "expected"), [("NASA", "X"), ("McDonald", "XxXx"), ("A-320b", "X-0x"), ("\u6771\u4eac", "X"), ("...", ".")]
)
def test_shapes(word: str, expected: str) -> None:
    assert shape(word) == expected


def test_values_do_not_depend_on_unicode_form_or_digits() -> None:
    assert values("Caf\u00e9")[0] == values("Cafe\u0301")[0]
    assert values("1963")[0] == values("2020")[0] == "0"


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
