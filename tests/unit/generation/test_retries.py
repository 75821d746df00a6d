"""Texts with mistakes are searched for again: more plans, more hypotheses, the best of all searches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agggen.errors import ConfigError
from agggen.generation.generator import Generation, InferenceConfig
from agggen.records import Plan, Record, Triple
from agggen.verification.lenient import invented, mentioned, misreadable
from tests.unit.generation.test_generator import NILS, ODA, RECORDS, SHORT, VOSS, generator, plain

NARROW = replace(SHORT, plans=1, missing_penalty=3.0, beam=replace(SHORT.beam, beam=1))


def mistakes(record: Record, generation: Generation) -> int:
    return sum(len(fact.missing) for fact in generation.facts) + invented(record, generation.text)


def best_of(record: Record, *configs: InferenceConfig, plan: Plan | None = None) -> list[Generation]:
    """The texts of several searches, each once, best first."""
    found = [g for config in configs for g in generator().generate([record], [plan], n_best=999, config=config)[0]]
    best: dict[str, Generation] = {}
    for generation in sorted(found, key=lambda g: -g.score):
        best.setdefault(generation.text, generation)
    return sorted(best.values(), key=lambda g: (-g.score, g.text))


def wider(config: InferenceConfig, times: int) -> InferenceConfig:
    beam = replace(config.beam, beam=config.beam.beam * 2**times, mention_all=True)
    return replace(config, plans=config.plans * 4**times, beam=beam)


@pytest.mark.parametrize("retries", [1, 2])
def test_the_best_of_all_searches_is_chosen(retries: int) -> None:
    together = generator().generate(RECORDS, n_best=3, config=replace(NARROW, retries=retries))
    searched = 0
    for record, found in zip(RECORDS, together, strict=True):
        searches = [NARROW]
        while len(searches) <= retries and mistakes(record, best_of(record, *searches)[0]):
            searches.append(wider(NARROW, len(searches)))
        searched += len(searches)
        assert plain([found]) == plain([best_of(record, *searches)[:3]])
    assert searched > len(RECORDS), "some record had a mistake"


def test_a_text_without_mistakes_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agggen.generation.generator.mentioned", lambda *_: True)
    expected = generator().generate(RECORDS, config=NARROW)
    monkeypatch.setattr("agggen.generation.generator._wider", lambda *_: pytest.fail("nothing was wrong"))
    assert plain(generator().generate(RECORDS, config=replace(NARROW, retries=3))) == plain(expected)


def test_a_human_plan_is_followed_whatever_comes_of_it() -> None:
    plan = Plan.parse("[leader population] [isPartOf_2] [isPartOf]")
    (found,) = generator().generate([VOSS], [plan], n_best=99, config=replace(NARROW, retries=2))
    assert {generation.plan for generation in found} == {plan}
    assert len(found) > 1, "more hypotheses than the one of a beam of one"


def test_each_record_has_its_own_retries() -> None:
    configs = [replace(NARROW, retries=retries) for retries in (0, 2, 1, 0)]
    machine = generator()
    together = machine.write(RECORDS, machine.candidates(RECORDS, config=configs), 2, configs)
    alone = [machine.generate([r], n_best=2, config=c)[0] for r, c in zip(RECORDS, configs, strict=True)]
    assert plain(together) == plain(alone)


def test_values_from_nowhere_cost_as_much_as_missing_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    records, config = [ODA, NILS], replace(SHORT, missing_penalty=0.5)
    (before, _) = generator().generate(records, n_best=99, config=config)
    unwanted = before[0].text
    monkeypatch.setattr("agggen.generation.generator.invented", lambda _, text: 7 * (text == unwanted))
    (after, _) = generator().generate(records, n_best=99, config=config)
    (changed,) = [generation for generation in after if generation.text == unwanted]
    assert changed.score == pytest.approx(before[0].score - 3.5)
    assert after[0].text == before[1].text


def test_values_that_a_record_of_e2e_does_not_have() -> None:
    mill = Record("mill", (Triple("Mill", "food", "Thai"), Triple("Mill", "area", "riverside")))
    assert invented(mill, "Mill serves Thai food by the river.") == 0
    assert invented(mill, "Mill serves Thai food.") == 0, "missing is not invented"
    assert invented(mill, "Mill is a pub that serves Thai food by the river.") == 1
    assert invented(mill, "Mill serves cheap Indian food by the river.") == 2
    other = Record("mill", (*mill.triples, Triple("Mill", "leader", "Ann")))
    assert invented(other, "Mill serves cheap Indian food by the river.") == 0, "what else may be said is not known"


def test_a_strict_verifier_is_as_literal_as_the_published_count(monkeypatch: pytest.MonkeyPatch) -> None:
    mill = Record("mill", (Triple("Mill", "food", "Thai"), Triple("Mill", "priceRange", "moderate")))
    clear, vague = "Mill serves Thai food at moderate prices.", "Mill is a mid-priced place with Thai food."
    assert (misreadable(mill, clear), misreadable(mill, vague)) == (0, 1)
    assert invented(mill, vague) == 0 and mentioned(mill.triples[1], vague), "people understand it"
    assert misreadable(ODA, vague) == 0
    strict, config = replace(SHORT, missing_penalty=0.5, verifier="strict"), replace(SHORT, missing_penalty=0.5)
    monkeypatch.setattr("agggen.generation.generator.misreadable", lambda *_: 4)
    (((one,),), ((other,),)) = (generator().generate([ODA], config=each) for each in (config, strict))
    assert other.score == pytest.approx(one.score - 2.0)


def test_a_verified_search_prefers_texts_without_mistakes_whatever_its_own_penalty() -> None:
    assert InferenceConfig().verified(2) == InferenceConfig(retries=2, missing_penalty=10.0)
    assert InferenceConfig(missing_penalty=0.0).verified(1) == InferenceConfig(retries=1, missing_penalty=10.0)
    assert InferenceConfig(retries=3, missing_penalty=20.0).verified(1) == InferenceConfig(
        retries=1, missing_penalty=20.0
    )


def test_retries_without_a_penalty_are_refused() -> None:
    with pytest.raises(ConfigError, match="missing_penalty must be more than 0"):
        InferenceConfig(retries=1, missing_penalty=0.0)
