"""Facts that mention their values: versions that mention fewer make way, whatever the model thinks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
import torch

from agggen.generation.config import BeamConfig, InferenceConfig
from agggen.generation.words import PATIENCE
from agggen.model.lattice import IMPOSSIBLE
from agggen.records import Plan, Triple
from tests.unit.generation.search_examples import RECORDS, TASKS, histories, same, search, slow_search, writer
from tests.unit.generation.test_generator import RECORDS as NAMED
from tests.unit.generation.test_generator import SHORT, generator, plain


def wanted(record: int, triple: int) -> int:
    """A word of the record that is to be said for a triple."""
    example = RECORDS[record]
    words = zip(example.source, example.triple, example.role, strict=True)
    return next(word for word, of, role in words if (of, role) == (triple, 3))


def missing(record: int, group: frozenset[int], said: Sequence[int]) -> int:
    return sum(wanted(record, triple) not in said for triple in group)


def settings(beam: int = 3, most: int = 5) -> BeamConfig:
    return BeamConfig(beam=beam, max_fact_tokens=most, block_ngrams=2, mention_all=True)


@histories
@pytest.mark.parametrize(("seed", "end", "beam"), [(0, 1.5, 3), (1, 4.0, 2), (2, -1.0, 1), (3, 0.0, 4)])
def test_search_equals_its_slow_twin(history: str, seed: int, end: float, beam: int) -> None:
    model = writer(seed, end, history=history)
    with torch.no_grad():
        for task, found in zip(TASKS, search(model, RECORDS, TASKS, settings(beam), missing), strict=True):
            of_record = partial(missing, task.record)
            same(found, slow_search(model, RECORDS[task.record], task.groups, settings(beam), of_record))


def test_more_is_mentioned_than_without() -> None:
    model = writer(end=3.0)
    lost = []
    for config in (replace(settings(most=8), mention_all=False), settings(most=8)):
        texts = [found[0] for found in search(model, RECORDS, TASKS, config, missing)]
        lost.append(
            sum(
                missing(task.record, frozenset(group), said)
                for task, text in zip(TASKS, texts, strict=True)
                for group, said in zip(task.groups, text.facts, strict=True)
            )
        )
    assert lost[1] < lost[0] / 2


def test_what_cannot_be_mentioned_does_not_hold_the_fact_up() -> None:
    """No version can please: after a while the search is content."""
    model, asked = writer(end=3.0), list[Sequence[int]]()

    def never(record: int, group: frozenset[int], said: Sequence[int]) -> int:
        asked.append(said)
        return len(group)

    config = settings(most=PATIENCE + 40)
    found = search(model, RECORDS, TASKS, config, never)
    assert PATIENCE < max(map(len, asked)) < PATIENCE + 8, "this model's facts are short"
    for texts in found:
        assert all(text.log_probability > IMPOSSIBLE / 2 for text in texts)


def test_nothing_is_asked_where_it_is_not_wanted() -> None:
    search(writer(), RECORDS, TASKS, BeamConfig(beam=2, max_fact_tokens=3), lambda *_: pytest.fail("not wanted"))


def test_the_generator_asks_for_the_values_of_the_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    record = NAMED[0]
    plan = Plan((record.predicates[:2], record.predicates[2:]))
    config = replace(SHORT, beam=replace(SHORT.beam, mention_all=True))
    (usual,) = generator().generate([record], [plan], config=SHORT)
    assert any(fact.end - fact.start < 7 for fact in usual[0].facts)
    asked = set()

    def mentioned(triple: Triple, text: str) -> bool:
        asked.add(triple)
        return len(text) >= 7

    monkeypatch.setattr("agggen.generation.generator.mentioned", mentioned)
    (found,) = generator().generate([record], [plan], config=config)
    assert found[0].fulfilled and asked == set(record.triples)


def test_together_or_alone_the_texts_are_the_same() -> None:
    config: InferenceConfig = replace(SHORT, beam=replace(SHORT.beam, mention_all=True))
    together = generator().generate(NAMED, config=config)
    assert plain(together) == plain([generator().generate([record], config=config)[0] for record in NAMED])
