"""Selection by consensus: the text most similar to the others; faulty texts come last."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.generation.config import InferenceConfig
from agggen.generation.consensus import MARGIN, TEMPERATURE, by_consensus, cost, ngrams, similarity
from agggen.generation.record_constraints import RecordConstraints
from agggen.generation.requests import Request
from agggen.generation.results import Generation
from agggen.records import Plan
from tests.unit.generation.test_generator import RECORDS, SHORT, generator

WORDS = st.lists(st.sampled_from(["an", "inn", "by", "the", "Cam", "Aromi"]), max_size=8).map(" ".join)


def text(words: str, score: float = -1.0, *faults: str) -> Generation:
    return Generation("a", words, Plan.parse("[b]"), None, "exact", score, score, (), faults)


@given(WORDS, WORDS)
def test_similarity_is_symmetric_and_largest_for_equal_texts(a: str, b: str) -> None:
    value = similarity(ngrams(a), ngrams(b))
    assert value == similarity(ngrams(b), ngrams(a))
    assert 0 <= value <= similarity(ngrams(a), ngrams(a)) <= 1
    assert similarity(ngrams(a), ngrams(a.upper())) == similarity(ngrams(a), ngrams(a))


def test_the_text_that_shares_most_with_the_others_is_chosen() -> None:
    texts = [text("Aromi is a pub."), text("Aromi is a pub by the Cam."), text("A place by the Cam is Aromi.")]
    assert by_consensus(texts)[0] is texts[1]
    likely = [replace(texts[0], score=-0.1), *(replace(other, score=-9.0) for other in texts[1:])]
    assert by_consensus(likely)[0] is likely[0]
    faulty = [replace(texts[1], faults=("Cam is not in the record",)), texts[0], texts[2]]
    assert by_consensus(faulty)[-1] is faulty[0]
    assert by_consensus([]) == []


@pytest.mark.parametrize("n_best", [1, 3])
def test_the_generator_orders_the_probable_texts_of_plans_and_beams(
    n_best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Request, "expected", lambda self, plan: None)  # no pruning by expectation
    untrained = generator()
    for record in RECORDS:
        (everything,) = untrained.generate([record], n_best=999, config=replace(SHORT, choice="score"))
        lowest = everything[n_best - 1].score if n_best <= len(everything) else -math.inf
        samples = [item for item in everything if item.score >= lowest - MARGIN]
        (chosen,) = untrained.generate([record], n_best=n_best, config=replace(SHORT, choice="consensus"))
        values = {
            a.text: sum(math.exp(b.score / TEMPERATURE) * similarity(ngrams(a.text), ngrams(b.text)) for b in samples)
            for a in samples
        }
        expected = sorted(samples, key=lambda item: (cost(item), -values[item.text]))[:n_best]
        assert [item.text for item in chosen] == [item.text for item in expected]


def test_constrained_texts_are_ranked_by_similarity_to_unconstrained_texts() -> None:
    untrained, record = generator(), RECORDS[0]
    source, extras = untrained.encoder.source(record)
    constraints = RecordConstraints(untrained.restricted, record, extras)
    plan = untrained.planner.candidates([record], None, False, SHORT)[0].plans[0]
    config = InferenceConfig()
    request = Request(record, record, (0, 1, 2), source, extras, constraints, [plan], "exact", config, 1)
    for words, score in (("The inn Aromi is by the Cam.", -0.5), ("The inn Aromi is near the Cam.", -0.6)):
        request.add(text(words, score, "a fault"), plan, False)
    assert request.needs_constraints
    request.restart()
    request.add(text("By the Cam, there is Aromi.", -1.0), plan, True)
    request.add(text("The inn Aromi is by Cam.", -1.2), plan, True)
    assert [item.text for item in request.best_texts()] == ["The inn Aromi is by Cam.", "By the Cam, there is Aromi."]
    request.config = replace(config, choice="score")
    assert request.best_texts()[0].text == "By the Cam, there is Aromi."
