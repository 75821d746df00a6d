"""Diversity of plans and texts."""

import math

import pytest
import sacrebleu

from agggen.evaluation.diversity import distinct_n, distinct_plans, self_bleu
from agggen.records import Plan


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
