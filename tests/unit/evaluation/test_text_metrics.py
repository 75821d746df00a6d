"""Text metrics, compared with scores computed by hand; metrics with Java or a fake program; diversity."""

import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import AggGenError
from agggen.evaluation.java import (
    cider_statistics,
    meteor_score,
    meteor_statistics,
    ptb_tokens,
    rouge_l_statistics,
    run_lines,
)
from agggen.evaluation.plans import distinct_plans
from agggen.evaluation.ter import BEAM, count_edits, edit_distance
from agggen.evaluation.text_metrics import distinct_n, nist_statistics, self_bleu, tercom_statistics
from agggen.records import Plan
from tests.unit.score_files import needs_java, score_texts


def test_nist_computed_by_hand() -> None:
    result = nist_statistics(["a b", "a x"], [["a b", "a a c"], ["a d"]])
    # of 7 words, 4 are "a" and 1 is "b"; "b" follows 1 of 4 "a"
    unigrams = (math.log2(7 / 4) + math.log2(7 / 1) + math.log2(7 / 4)) / 4
    bigrams = math.log2(4 / 1) / 2
    ratio = 4 / (7 / (3 / 2))  # words of the texts / (words of the references / references per text)
    penalty = math.exp(math.log(0.5) / math.log(1.5) ** 2 * math.log(ratio) ** 2)
    assert result.corpus().value == pytest.approx((unigrams + bigrams) * penalty, abs=1e-12)


def test_counts_are_clipped_by_their_maximum_over_references() -> None:
    references = [["a b", "a a b"]]
    two, three = (nist_statistics([text], references) for text in ("a a", "a a a"))
    assert two.rows[0, 0] == three.rows[0, 0] == pytest.approx(2 * math.log2(5 / 3))


@pytest.mark.parametrize(("share", "penalty"), [(1.0, 1.0), (1.5, 1.0), (2 / 3, 0.5), (0.0, 0.0)])
def test_the_length_penalty(share: float, penalty: float) -> None:
    reference = " ".join(f"w{i}" for i in range(6))
    text = " ".join(f"w{i}" for i in range(round(6 * share)))
    result = nist_statistics([text], [[reference]])
    information = sum(result.rows[0, n] / max(result.rows[0, 5 + n], 1) for n in range(5))
    assert result.corpus().value == pytest.approx(information * penalty)


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)
ELEVEN, TEN, TWELVE = ([f"{letter}{i}" for i in range(size)] for letter, size in (("r", 11), ("s", 10), ("s", 12)))


def levenshtein(first: list[str], second: list[str]) -> int:
    row = list(range(len(second) + 1))
    for i, word in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("a b c", "", 3),
        ("a x c", "a b c", 1),
        ("a b c d e f", "d e f a b c", 1),  # one shift of three words
        ("b a c d", "a b c d", 1),
        ("a b c d e f g h", "g h c d e f a b", 4),  # greedy: two shifts that help only together are not found
        ("x a b c", "a b c y", 2),  # no shift reduces the edits
        ("this week the saudis denied it", "saudi arabia denied this week it", 3),
        (" ".join(TEN + ELEVEN), " ".join(ELEVEN + TEN), 1),  # a shift moves at most ten words
        (" ".join(TWELVE + ELEVEN), " ".join(ELEVEN + TWELVE), 2),
    ],
)
def test_edits_computed_by_hand(hypothesis: str, reference: str, expected: int) -> None:
    assert count_edits(hypothesis.split(), reference.split()) == expected


def test_tercoms_beam_misses_matches_after_many_deletions() -> None:
    """tercom prunes paths that are much worse than the best one of their column."""
    late, missing = ["a", "b"], [f"m{i}" for i in range(BEAM + 5)]
    assert count_edits(late, missing[:BEAM] + late) == BEAM
    assert count_edits(late, missing + late) > edit_distance(late, missing + late)


@given(WORDS, WORDS.filter(bool))
def test_the_edit_distance_equals_the_full_table(words: list[str], reference: list[str]) -> None:
    expected = levenshtein(words, reference)
    assert edit_distance(words, reference) == expected
    assert abs(len(words) - len(reference)) <= count_edits(words, reference) <= expected


def test_the_edits_of_the_best_reference_are_divided_by_the_mean_length() -> None:
    result = tercom_statistics(["A b c d", ""], [["a b x d", "a b c d e f"], ["a b"]])
    assert result.rows.tolist() == [[1, 5], [2, 2]]
    assert result.segment_scores is not None
    assert result.segment_scores.tolist() == [20, 100]
    assert result.corpus().value == pytest.approx(100 * 3 / 7)
    assert result.signature.startswith("ter|tool:agggen|as:tercom-0.7.25|version:")
    assert result.signature.endswith("|nrefs:var|case:lc|tok:none")


def test_distinct_plans() -> None:
    first = [Plan.parse(text) for text in ("[a b] [c]", "[b a] [c]", "[c] [a b]", "[a] [b] [c]")]
    assert distinct_plans([first, first[:1]]).corpus().value == (3 + 1) / 2
    assert distinct_plans([first]).signature == "diversity|different plans|order:of groups|n-best:4|records:1"


def test_distinct_n_counts_n_grams_within_texts() -> None:
    texts = ["The pub is a pub.", "a pub"]  # tokens: the pub is a pub . | a pub
    assert distinct_n(texts, 1).value == 5 / 8
    assert distinct_n(texts, 2).value == 5 / 6
    assert "n-grams:6" in distinct_n(texts, 2).signature
    assert math.isnan(distinct_n(["a"], 2).value)


def test_self_bleu_equals_sacrebleu_of_each_text_against_the_others() -> None:
    texts = ["Aromi is a pub near the river.", "Near the river is a pub, Aromi.", "Aromi is a pub near the bridge."]
    expected = sum(
        sacrebleu.sentence_bleu(text, [second for second in texts if second is not text], lowercase=True).score
        for text in texts
    ) / len(texts)
    assert self_bleu([texts, ["alone"]]).corpus().value == pytest.approx(expected)
    assert self_bleu([texts[:1] * 3]).corpus().value == pytest.approx(100)
    assert self_bleu([texts]).signature.endswith("|texts:3")
    assert math.isnan(self_bleu([["alone"], ["alone"]]).corpus().value)


COUNTS = " ".join(["1.0"] * 23)


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Returns a function that replaces `java` by a shell script and returns its folder."""

    def put(script: str) -> Path:
        java = tmp_path / "java"
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return tmp_path

    return put


def test_separators_and_line_ends_in_texts_are_replaced(fake_java: Callable[[str], Path]) -> None:
    folder = fake_java(f'while read -r line; do echo "$line" >> "${{0%/*}}/read"; echo "{COUNTS}"; done')
    meteor_statistics(["a ||| b\nc\u2028d", "|"], [["r\r\ns", "t||||u"], ["v"]])
    read = (folder / "read").read_text(encoding="utf-8").splitlines()
    assert read == ["SCORE ||| r s ||| t |u ||| a   b c d", "SCORE ||| v ||| |"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'Could not reserve' >&2; exit 1", "ended with 1; .* 2 GB of memory. Its error output: Could not"),
        ("kill -9 $$", "was killed .SIGKILL.; it needs up to 2 GB"),
        (f'read -r line; echo "{COUNTS}"', "printed 1 lines for 2 texts"),
        ("while read -r line; do echo Exception; done", "must print 23 counts per text, but printed 'Exception"),
    ],
)
def test_a_failed_process_raises_an_error_with_the_cause(
    fake_java: Callable[[str], Path], script: str, message: str
) -> None:
    fake_java(script)
    with pytest.raises(AggGenError, match=f"METEOR.*{message}"):
        meteor_statistics(["a", "b"], [["a"], ["b"]])


@pytest.mark.parametrize("metric", ["meteor", "rouge_l", "cider"])
def test_without_java_or_the_package_or_the_jar_the_error_says_what_to_install(
    metric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    with pytest.raises(AggGenError, match=r"METEOR needs .*meteor-9\.jar, which pycocoevalcap .* lacks"):
        run_lines("METEOR", "meteor/meteor-9.jar", (), (), ["a"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AggGenError, match=r"no `java` is on the PATH \(on Debian: apt install default-jre-headless\)"):
        score_texts("e2e", ["a"], [["a"]], [metric])
    assert score_texts("e2e", ["a b c d"], [["a b c d"]], ["bleu", "nist"])["bleu"].value == pytest.approx(100)
    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(AggGenError, match=r"pycocoevalcap, which is not installed: pip install 'agggen\[metrics\]'"):
        score_texts("e2e", ["a"], [["a"]], [metric])


def test_an_interrupt_leaves_no_process(fake_java: Callable[[str], Path]) -> None:
    folder = fake_java(f'read -r line; echo $$ > "${{0%/*}}/pid"; kill -INT {os.getpid()}; exec /bin/sleep 60')
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            meteor_statistics(["a"], [["a"]])
    finally:
        signal.signal(signal.SIGINT, previous)
    with suppress(ChildProcessError):  # Python may have reaped the killed process
        _, status = os.waitpid(int((folder / "pid").read_text()), 0)
        assert os.WIFSIGNALED(status)


def test_meteor_computed_by_hand() -> None:
    """4 words against 5, 1 function word each: 2 content words and the function word match exactly, 1 by its stem."""
    counts = np.zeros(23)
    counts[:4] = 4, 5, 1, 1
    counts[4:8] = 2, 2, 1, 1
    counts[8:12] = 1, 1, 0, 0
    counts[20:] = 2, 4, 4
    matched = 0.75 * 2 + 0.25 * 1 + 0.6 * 0.75
    precision, recall = matched / (0.75 * 3 + 0.25), matched / (0.75 * 4 + 0.25)
    mean = precision * recall / (0.85 * precision + 0.15 * recall)
    assert meteor_score(counts) == pytest.approx(100 * mean * (1 - 0.6 * (2 / 4) ** 0.2))
    assert meteor_score(np.zeros((2, 23))).tolist() == [0, 0]


@needs_java
def test_tokens_of_the_ptb_tokeniser() -> None:
    raw = ["The Fig, near £20-25 (isn't bad).", "", "...", "Two\nlines", 'He said: "yes"', "naïve café"]
    expected = ["the fig near # 20-25 -lrb- is n't bad -rrb-", "", "", "two lines", "he said yes", "naïve café"]
    assert ptb_tokens(raw) == expected


def test_rouge_l_takes_the_best_precision_and_the_best_recall() -> None:
    result = rouge_l_statistics(["a b c d"], [["a b", "a c d e f g"]]).corpus().value
    precision, recall = 3 / 4, 2 / 2
    assert result == pytest.approx(100 * (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision))


def test_cider_of_perfect_and_wrong_texts() -> None:
    texts = ["a cheap pub by the river", "thai food is served here today"]
    references = [[text] for text in texts]
    result = cider_statistics(texts, references)
    assert result.corpus().value == pytest.approx(10)
    assert cider_statistics(texts[::-1], references).corpus().value == pytest.approx(0)
    assert cider_statistics(texts[:1], references[:1]).corpus().value == 0  # idf is 0: all documents contain all words


def test_texts_without_tokens_have_finite_scores() -> None:
    assert cider_statistics(["", "a"], [["", "b"], ["a"]]).corpus().value >= 0
    assert cider_statistics(["", "a"], [[""], [""]]).corpus().value == 0
    assert not math.isnan(rouge_l_statistics(["a"], [[""]]).corpus().value)
