"""BLEU, chrF and TER by sacreBLEU, with ragged references, and the paper's WebNLG numbers."""

from __future__ import annotations

import pytest
import sacrebleu

from agggen.errors import AggGenError
from agggen.evaluation import Score
from agggen.evaluation.text_metrics import corpus_bleu, corpus_chrf, corpus_ter, multi_bleu

TEXTS = ["The Fig is a cheap pub near the river.", "It serves Thai food, doesn't it?", "Ann was born in Rome in 1990."]
RAGGED = [
    ["The Fig, near the river, is a cheap pub.", "The Fig is a pub near the river."],
    ["It serves food from Thailand."],
    ["Ann was born in 1990 in Rome.", "Ann, born 1990, is from Rome.", "In 1990 Ann was born in Rome."],
]


@pytest.mark.parametrize("metric", [corpus_bleu, corpus_chrf, multi_bleu])
def test_a_text_equal_to_a_reference_scores_100(metric) -> None:
    assert metric(TEXTS, [[text, *group] for group, text in zip(RAGGED, TEXTS, strict=True)]).value == pytest.approx(
        100
    )


def test_ter_of_a_text_equal_to_a_reference_is_zero() -> None:
    assert corpus_ter(TEXTS, [[text, *group] for group, text in zip(RAGGED, TEXTS, strict=True)]).value == 0


def test_scores_are_sacrebleus_where_all_inputs_have_as_many_references() -> None:
    columns = [[group[0] for group in RAGGED]]
    single = [group[:1] for group in RAGGED]
    assert corpus_bleu(TEXTS, single).value == sacrebleu.corpus_bleu(TEXTS, columns).score
    assert corpus_chrf(TEXTS, single).value == sacrebleu.corpus_chrf(TEXTS, columns).score
    assert corpus_ter(TEXTS, single).value == sacrebleu.corpus_ter(TEXTS, columns, normalized=True).score


@pytest.mark.parametrize("metric", [corpus_bleu, corpus_chrf, corpus_ter])
def test_a_missing_reference_is_none_rather_than_a_blank_one(metric) -> None:
    padded = [[*group, "", "  "] for group in RAGGED]
    assert metric(TEXTS, RAGGED).value == metric(TEXTS, padded).value


def test_blank_references_flatter_short_texts_in_multi_bleu() -> None:
    short, references = ["the fig is a"], [["the fig is a pub near the river and cheap", "the fig is a pub"]]
    blank = [[references[0][0], ""]]
    assert multi_bleu(short, blank).value > multi_bleu(short, blank, pad_missing=False).value
    assert multi_bleu(short, references).value == multi_bleu(short, references, pad_missing=False).value


def test_signatures_say_what_was_computed() -> None:
    assert corpus_bleu(TEXTS, RAGGED).signature == (
        f"bleu|tool:sacrebleu|nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    assert "case:lc" in corpus_bleu(TEXTS, RAGGED, lowercase=True).signature
    assert multi_bleu(TEXTS, RAGGED).signature.endswith("|missing:blank")
    assert multi_bleu(TEXTS, RAGGED, pad_missing=False).signature.endswith("|missing:none")


def test_a_score_shows_value_and_signature() -> None:
    assert str(Score(12.346, "x:1")) == "12.35 (x:1)"
    assert float(Score(0.5, "x")) == 0.5


@pytest.mark.parametrize(
    ("texts", "references", "message"),
    [
        ([], [], "no texts to score"),
        (["a"], [], "1 texts but references for 0"),
        (["a", "b"], [["a"], [" "]], r"text 2 \('b'\) has no reference"),
    ],
)
def test_bad_input_is_refused(texts: list[str], references: list[list[str]], message: str) -> None:
    for metric in (corpus_bleu, multi_bleu):
        with pytest.raises(AggGenError, match=message):
            metric(texts, references)
