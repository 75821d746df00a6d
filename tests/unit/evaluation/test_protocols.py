"""The protocols: metrics, raw and tokenised texts, invalid input."""

import math
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sacrebleu

from agggen.errors import AggGenError
from agggen.evaluation.protocols import PROTOCOLS, challenge_tokens, measure
from agggen.evaluation.text_metrics import bleu_statistics, mteval_tokens, multi_bleu_statistics
from tests.unit.score_files import score_texts

TEXTS = ["The Fig is a cheap pub near the river.", "It serves Thai food, doesn't it?", "Ann was born in Rome in 1990."]
RAGGED = [
    ["The Fig, near the river, is a cheap pub.", "The Fig is a pub near the river."],
    ["It serves food from Thailand."],
    ["Ann was born in 1990 in Rome.", "Ann, born 1990, is from Rome.", "In 1990 Ann was born in Rome."],
]
HAS_JAVA = shutil.which("java") is not None
LIGHT = {
    "plain": ["bleu", "chrf", "ter"],
    "e2e": ["bleu", "nist", "rouge_l", "cider"] if HAS_JAVA else ["bleu", "nist"],
    "webnlg-2017": ["bleu", "ter"],
}
"""The metrics of each protocol without METEOR, which takes seconds to start."""


def test_plain_is_sacrebleu() -> None:
    columns = [[group[0] for group in RAGGED]]
    assert {name: score.value for name, score in score_texts("plain", TEXTS, [g[:1] for g in RAGGED]).items()} == {
        "bleu": sacrebleu.corpus_bleu(TEXTS, columns).score,
        "chrf": sacrebleu.corpus_chrf(TEXTS, columns).score,
        "ter": sacrebleu.corpus_ter(TEXTS, columns, normalized=True, case_sensitive=True).score,
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_empty_texts_have_finite_scores(protocol: str) -> None:
    for texts in (["", "", ""], [TEXTS[0], "", " "]):
        result = measure(protocol, texts, RAGGED, LIGHT[protocol])
        for statistics in result.values():
            assert math.isfinite(statistics.corpus().value)
            assert statistics.segment_scores is not None
            assert np.isfinite(statistics.segment_scores).all()
    for metric, score in score_texts(protocol, ["", "", ""], RAGGED, LIGHT[protocol]).items():
        assert score.value > 90 if metric == "ter" else score.value == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_order_of_references_does_not_matter_nor_do_blank_ones(protocol: str) -> None:
    reordered = [["", *group[::-1], "  "] for group in RAGGED]
    requested = [metric for metric in LIGHT[protocol] if (protocol, metric) != ("webnlg-2017", "bleu")]
    expected = score_texts(protocol, TEXTS, RAGGED, requested)
    for metric, score in score_texts(protocol, TEXTS, reordered, requested).items():
        assert score.value == pytest.approx(expected[metric].value)


def test_webnlg_takes_three_references() -> None:
    three = [[*group, "x y", "z"][:3] for group in RAGGED]
    four = [[*group, text] for group, text in zip(three, TEXTS, strict=True)]
    for metric, score in score_texts("webnlg-2017", TEXTS, four, ["bleu", "ter"]).items():
        assert score == score_texts("webnlg-2017", TEXTS, three, [metric])[metric]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tokenised_texts_are_not_tokenised_again(protocol: str) -> None:
    """Raw texts and their tokens have the same scores; protocol e2e tokenises both."""
    metrics = [metric for metric in LIGHT[protocol] if metric in ("bleu", "nist")]
    tokenisers = {"plain": sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a(), "webnlg-2017": challenge_tokens}
    tokenise = tokenisers.get(protocol, str)
    tokens, reference_tokens = list(map(tokenise, TEXTS)), [list(map(tokenise, group)) for group in RAGGED]
    raw = score_texts(protocol, TEXTS, RAGGED, metrics)
    for metric, score in score_texts(protocol, tokens, reference_tokens, metrics, tokenised=True).items():
        assert score.value == raw[metric].value
    if protocol != "e2e":
        untokenised = score_texts(protocol, TEXTS, RAGGED, ["bleu"], tokenised=True)["bleu"]
        assert untokenised.value != raw["bleu"].value
        assert untokenised.signature != raw["bleu"].signature


@pytest.mark.parametrize(
    ("tokenise", "text", "tokens"),
    [
        (challenge_tokens, "Adolfo Suárez Madrid\u2013Barajas's 3.5", "adolfo suarez madrid - barajas ' s 3 . 5"),
        (challenge_tokens, "Løkke \u201can\u0131t\u0131\u201d Straße", 'lokke " aniti " strasse'),
        (challenge_tokens, "", ""),
        (mteval_tokens, "The Fig, near £20-25, isn't bad.", "the fig , near £20 - 25 , isn't bad ."),
        (mteval_tokens, "3.5 stars (5 out of 5)!", "3.5 stars ( 5 out of 5 ) !"),
        (mteval_tokens, "ÉCOLE &amp; Co", "École & co"),
        (mteval_tokens, "two\nlines", "two lines"),
        (mteval_tokens, "", ""),
    ],
)
def test_tokens(tokenise: Callable[[str], str], text: str, tokens: str) -> None:
    assert tokenise(text) == tokens


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_signatures_state_tool_version_and_preprocessing(protocol: str) -> None:
    for metric, score in score_texts(protocol, TEXTS, RAGGED, LIGHT[protocol]).items():
        name, *fields = score.signature.split("|")
        keys = {field.split(":")[0] for field in fields}
        assert name == metric and {"tool", "version", "nrefs", "case"} <= keys and {"tok", "space"} & keys
        assert ("texts" in keys) == (protocol != "plain")
        assert ("missing" in keys) == ((protocol, metric) == ("webnlg-2017", "bleu"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_segment_scores_equal_the_scores_of_single_texts(protocol: str) -> None:
    metrics = [metric for metric in LIGHT[protocol] if metric not in ("nist", "cider")]
    for metric, statistics in measure(protocol, TEXTS, RAGGED, metrics).items():
        assert statistics.segment_scores is not None and statistics.segment_scores.shape == (3,)
        if metric != "bleu":  # sentence BLEU uses the effective order
            single_scores = [
                score_texts(protocol, [t], [g], [metric])[metric].value for t, g in zip(TEXTS, RAGGED, strict=True)
            ]
            assert statistics.segment_scores == pytest.approx(single_scores)


def test_the_score_of_a_part_of_the_corpus() -> None:
    for metric, statistics in measure("plain", TEXTS, RAGGED).items():
        expected = score_texts("plain", TEXTS[1:], RAGGED[1:], [metric])[metric].value
        assert statistics.corpus(slice(1, None)).value == expected
        assert statistics.corpus([2, 1]).value == expected
        assert statistics.corpus([1]).signature.endswith("|texts:1of3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "bleu"}, "unknown protocol 'bleu'; known are plain, e2e, webnlg-2017"),
        ({"metrics": ["bleu", "nist"]}, "protocol plain has no metric 'nist'; it has bleu, chrf, ter"),
        ({"metrics": []}, "no metric is requested; protocol plain has bleu"),
        ({"hypotheses": [], "references": []}, "no texts to score"),
        ({"hypotheses": ["a"]}, "1 texts but references for 2; the numbers must be equal"),
        ({"references": ["a", "b"]}, "references of text 1 are a string, not a list of strings"),
        ({"references": [["a"], ["", " "]]}, r"text 2 \('b'\) has no reference"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    arguments = {"protocol": "plain", "hypotheses": ["a", "b"], "references": [["a"], ["b"]]} | change
    with pytest.raises(AggGenError, match=message):
        measure(**arguments)


def test_blank_references_favour_short_texts_in_multi_bleu() -> None:
    short, references = ["the fig is a"], [["the fig is a pub near the river and cheap", ""]]
    plain = bleu_statistics(short, references, tokenised=True).corpus()
    assert multi_bleu_statistics(short, references).corpus().value > plain.value
    assert multi_bleu_statistics(short, [references[0][:1]]).corpus().value == plain.value
