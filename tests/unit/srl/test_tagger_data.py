"""The role tagger's lessons: reading EWT, noise, grafted clauses."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError
from agggen.facts.frames import frame_of_tags
from agggen_platform.srl.tagger.augment import Noise, change, names_of
from agggen_platform.srl.tagger.data import Sentence, check_bio, parse_sentence, read_sentences, read_split
from agggen_platform.srl.tagger.graft import donors, graft
from tests.unit.srl.toy_tagger import line, sentences

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
