"""METEOR and the tokeniser of ROUGE-L and CIDEr with Java; failures of Java with a fake program."""

import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from agggen.errors import AggGenError
from agggen.evaluation.java import (
    cider_statistics,
    meteor_score,
    meteor_statistics,
    ptb_tokens,
    rouge_l_statistics,
    run_lines,
)
from tests.unit.score_files import needs_java, score_texts

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
        (
            'while read -r line; do echo "Exception in thread"; done',
            "must print 23 counts per text, but printed 'Exception",
        ),
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
    assert rouge_l_statistics([""], [["a"]]).corpus().value == 0
    assert cider_statistics(["", "a"], [["", "b"], ["a"]]).corpus().value >= 0
    assert cider_statistics(["", "a"], [[""], [""]]).corpus().value == 0
    assert not math.isnan(rouge_l_statistics(["a"], [[""]]).corpus().value)
