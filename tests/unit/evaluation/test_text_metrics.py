"""Moses multi-bleu with its blank references, and lower-cased BLEU, beside what `test_protocols` shows."""

from __future__ import annotations

import pytest

from agggen.evaluation import Score
from agggen.evaluation.text_metrics import bleu_statistics, multi_bleu_statistics

TEXTS = ["The Fig is a cheap pub near the river.", "It serves Thai food, doesn't it?"]
RAGGED = [["The Fig is a pub near the river.", "A cheap pub is the Fig."], ["It serves food from Thailand."]]


def test_a_text_equal_to_a_reference_scores_100() -> None:
    equal = [[text, *group] for group, text in zip(RAGGED, TEXTS, strict=True)]
    assert multi_bleu_statistics(TEXTS, equal).corpus().value == pytest.approx(100)
    assert multi_bleu_statistics(TEXTS, RAGGED).corpus().signature.endswith("|missing:blank")


def test_blank_references_flatter_short_texts_in_multi_bleu() -> None:
    short, references = ["the fig is a"], [["the fig is a pub near the river and cheap", ""]]
    plain = bleu_statistics(short, references, tokenised=True).corpus()
    assert multi_bleu_statistics(short, references).corpus().value > plain.value
    assert multi_bleu_statistics(short, [references[0][:1]]).corpus().value == plain.value


def test_case_counts_unless_it_is_lowered() -> None:
    upper = [text.upper() for text in TEXTS]
    lower = bleu_statistics(TEXTS, RAGGED, lowercase=True).corpus()
    assert bleu_statistics(upper, RAGGED, lowercase=True).corpus().value == lower.value
    assert bleu_statistics(upper, RAGGED).corpus().value < bleu_statistics(TEXTS, RAGGED).corpus().value
    assert "case:lc" in lower.signature


def test_a_score_shows_value_and_signature() -> None:
    assert str(Score(12.346, "x:1")) == "12.35 (x:1)"
    assert float(Score(0.5, "x")) == 0.5
