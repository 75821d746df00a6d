"""The generator follows plans, spans cover texts, results are reproducible and independent of the batch."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.encoding import Encoder
from agggen.errors import PlanError, RecordError
from agggen.generation.config import BeamConfig
from agggen.generation.generator import Generation, Generator, InferenceConfig
from agggen.generation.planner import MAX_TRIPLES
from agggen.generation.search import BeamSearch, Task
from agggen.model.batch import END, collate
from agggen.model.hmm import posterior, viterbi
from agggen.model.joint import JointModel, ModelConfig
from agggen.model.transitions import Variant
from agggen.planning import IndexPlan, ScoredPlan, named_plan
from agggen.records import Plan, Record, Reference, Triple
from agggen.text import Vocabulary
from agggen.verification.check import Checker
from tests.unit.model.enumeration import State, TransitionFormulas

ODA = Record(
    "oda",
    (Triple("Oda Lund", "birthPlace", "Bergen"), Triple("Oda Lund", "age", "41"), Triple("Oda Lund", "craft", "glass")),
    (Reference("Oda Lund (41), born in Bergen, works with glass."), Reference("Oda's craft is glass. She is 41.")),
)
NILS = Record("nils", (Triple("Nils", "birthPlace", "Voss"),), (Reference("Nils is from Voss, they say."),))
VOSS = Record(
    "voss",
    (
        Triple("Voss", "isPartOf", "Vestland"),
        Triple("Voss", "isPartOf", "Norway"),
        Triple("Voss", "population", "16,000"),
        Triple("Voss", "leader", "Tone Vik"),
    ),
    (Reference("Voss, in Vestland, Norway, has 16,000 people; its leader is Tone Vik."),),
)
STRANGE = Record("strange", (Triple("Zyx", "never-seen", "Qwert 7.5"), Triple("Zyx", "age", "Plugh")))
"""A record with an unknown predicate and out-of-vocabulary words."""

TRAIN = [ODA, NILS, VOSS]
RECORDS = [*TRAIN, STRANGE]
SHORT = InferenceConfig(plans=3, verify="off", beam=BeamConfig(beam=2, max_fact_tokens=6, min_tokens_per_triple=1))


@cache
def generator(seed: int = 0, copying: float = 0.0, **sizes: Any) -> Generator:
    """A generator with an untrained float64 model and groups of at most 2 triples; `copying`: bias towards copying."""
    vocabulary = Vocabulary.build(TRAIN, min_count=1)
    encoder = Encoder(vocabulary, Encoder.predicate_table(TRAIN), max_group_size=2)
    config = ModelConfig(
        **{"width": 8, "heads": 2, "feed_forward": 8, "dropout": 0.0, "predicate_dim": 3, "max_group_size": 2} | sizes
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = JointModel(config, len(vocabulary), vocabulary.n_output, len(encoder.predicates)).double()
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
        model.output_bias[END] += 2
        model.copy_gate.bias.add_(-copying)
    return Generator(model, encoder, SHORT)


def assert_same(result: Sequence[Sequence[Generation]], expected: Sequence[Sequence[Generation]]) -> None:
    """Compares probabilities and scores up to rounding, and the rest exactly."""
    assert list(map(len, result)) == list(map(len, expected))
    for ours, second in zip(chain(*result), chain(*expected), strict=True):
        assert (ours.id, ours.text, ours.plan, ours.facts) == (second.id, second.text, second.plan, second.facts)
        for name in ("text_log_probability", "plan_log_probability", "score"):
            assert getattr(ours, name) == pytest.approx(getattr(second, name), abs=1e-8)


# --- plans ---


@pytest.mark.parametrize("variant", ["normalised", "paper"])
def test_plans_have_the_weights_of_the_transitions(variant: Variant) -> None:
    """Differences of log-probabilities equal those of unnormalised weights by the formulas."""
    untrained = generator(transition=variant)
    formulas = TransitionFormulas(untrained.model.transitions, untrained.encoder.source(ODA)[0].predicates)

    def weight(plan: Plan) -> float:
        states: list[State] = [tuple(ODA.predicates.index(name) for name in state) for state in plan.states]
        befores: list[State | None] = [None, *states[:-1]]
        return sum(formulas.log_weight(before, state) for before, state in zip(befores, states, strict=True))

    (plans,) = untrained.planner.plan([ODA], k=99)
    values = [plan.log_probability or 0.0 for plan in plans]
    assert len(plans) == 18 and math.fsum(map(math.exp, values)) == pytest.approx(1, abs=1e-9)
    for (first, second), (value, lower) in zip(pairwise(plans), pairwise(values), strict=True):
        assert value - lower == pytest.approx(weight(first.plan) - weight(second.plan)) and value >= lower


@settings(max_examples=10)
@given(st.permutations(VOSS.predicates), st.lists(st.booleans(), min_size=3, max_size=3))
def test_human_plans_are_followed_exactly(order: list[str], cuts: list[bool]) -> None:
    """Groups larger than L have no plan probability, but can be generated."""
    groups = [[order[0]]]
    for cut, name in zip(cuts, order[1:], strict=True):
        groups += [[name]] if cut else []
        groups[-1] += [] if cut else [name]
    plan = Plan(tuple(map(tuple, groups)))
    for generation in generator().generate([VOSS], plans=[plan], n_best=5)[0]:
        assert generation.plan == plan
        assert tuple(fact.predicates for fact in generation.facts) == plan.states
        assert (generation.plan_log_probability is None) == any(len(group) > 2 for group in groups)
        assert (generation.plan_log_probability or 0.0) <= 0


def test_an_incomplete_human_plan_is_refused_or_completed() -> None:
    untrained, short = generator(), Plan.parse("[craft]")
    for call in (lambda: untrained.generate([NILS, ODA], [None, short]), lambda: untrained.planner.check(ODA, short)):
        with pytest.raises(PlanError, match="plan for record 'oda' omits birthPlace, age"):
            call()
    untrained.planner.check(ODA, short, complete=True)
    ((nils,), (oda,)) = untrained.generate([NILS, ODA], plans=[None, short], complete=True)
    assert oda.plan.states[0] == ("craft",)
    assert sorted(oda.plan.predicates) == sorted(ODA.predicates)
    assert nils.plan == Plan.parse("[birthPlace]")


def test_levels_bound_the_groups_and_numbers_of_plans_are_positive() -> None:
    untrained = generator()
    for level in (1, 2):
        for result in untrained.generate(RECORDS, n_best=9, config=replace(SHORT, level=level)):
            assert all(len(state) <= level for generation in result for state in generation.plan.states)
    for call in (untrained.generate, untrained.planner.plan):
        with pytest.raises(PlanError, match="aggregation level 3 exceeds this model's largest group of 2 predicates"):
            call([ODA], config=replace(SHORT, level=3))
    with pytest.raises(PlanError, match="0 plans were requested; the number must be at least 1"):
        untrained.planner.plan([ODA], k=0)


def test_plans_of_ablations_and_of_the_two_stage_search() -> None:
    untrained = generator()
    for result in untrained.generate(RECORDS, n_best=9, config=replace(SHORT, ablation="no-aggregation")):
        assert all(len(state) == 1 for generation in result for state in generation.plan.states)
    plain = untrained.generate(RECORDS, config=replace(SHORT, ablation="plain"))
    for record, (text, *_) in zip(RECORDS, plain, strict=True):
        assert text.plan.states == (record.predicates,)
        assert (text.plan_log_probability is None) == (len(record.predicates) > 2)
    two_stage = replace(SHORT, planner="two-stage", order_beam=1, aggregations=1)
    for result in untrained.generate(RECORDS, n_best=9, config=two_stage):
        assert len({generation.plan for generation in result}) == 1


def test_random_order_depends_only_on_the_seed_and_the_record() -> None:
    untrained, config = generator(), replace(SHORT, ablation="random-order", aggregations=1)
    records = [Record(f"{n}", VOSS.triples) for n in range(6)]

    def orders(records: Sequence[Record], seed: int) -> list[tuple[str, ...]]:
        return [g[0].plan.predicates for g in untrained.generate(records, config=replace(config, seed=seed))]

    assert orders(records, 0) == orders(records[::-1], 0)[::-1]
    assert orders(records, 0) != orders(records, 1)
    assert len(set(orders(records, 0))) > 1


def test_a_record_with_too_many_triples_is_named() -> None:
    large = Record("large", tuple(Triple("Oda", f"p{n}", "1") for n in range(MAX_TRIPLES + 1)))
    fits = Record("fits", large.triples[:-1])
    untrained = generator()
    for call in (untrained.generate, untrained.planner.plan):
        with pytest.raises(RecordError, match=r"record 'large' has 25 triples; at most 24 can be planned at once"):
            call([NILS, large])
    with pytest.raises(RecordError, match=r"record 'large' has 25 triples"):
        untrained.align([large], [["Oda."]])
    (best,) = untrained.generate([fits], config=replace(SHORT, plans=1, beam=BeamConfig(beam=1, max_fact_tokens=2)))[0]
    assert sorted(best.plan.predicates) == sorted(fits.predicates)
    assert best.plan_log_probability is None


# --- texts ---


@settings(max_examples=12)
@given(st.integers(0, 20), st.sampled_from([0.0, 6.0]), st.integers(0, 3))
def test_spans_cover_the_text_and_list_missing_predicates(seed: int, copying: float, record: int) -> None:
    for generation in generator(seed, copying).generate([RECORDS[record]], n_best=9)[0]:
        facts = generation.facts
        assert tuple(fact.predicates for fact in facts) == generation.plan.states
        assert [facts[0].start, *(fact.end for fact in facts)] == [*(fact.start for fact in facts), facts[-1].end]
        assert (facts[0].start, facts[-1].end) == (0, len(generation.text))
        names = RECORDS[record].predicates
        for fact in facts:
            own = sorted(names.index(name) for name in fact.predicates)
            expected = Checker().values(RECORDS[record], generation.text[fact.start : fact.end], own)
            whole = {names[index]: value.whole for index, value in zip(own, expected, strict=True)}
            assert fact.missing == tuple(name for name in fact.predicates if not whole[name])
        assert generation.fulfilled == (not any(fact.missing for fact in facts) and not generation.faults)
        assert generation.text_log_probability < 0


def test_out_of_vocabulary_words_are_copied() -> None:
    copier = generator(copying=60.0)
    config = replace(SHORT, beam=BeamConfig(beam=4, min_tokens_per_triple=6, max_fact_tokens=6, block_ngrams=1))
    ((best,),) = copier.generate([STRANGE], plans=[Plan.parse("[never-seen] [age]")], config=config)
    first, last = (best.text[fact.start : fact.end] for fact in best.facts)
    assert "Qwert" in first and "Plugh" not in first
    assert "[UNK]" not in best.text
    assert any(word in last for word in ("Zyx", "Plugh"))


def test_the_joint_choice_is_the_best_text_of_all_plans() -> None:
    untrained, config = generator(), replace(SHORT, plan_weight=0.5, choice="score")
    for record in RECORDS:
        (together,) = untrained.generate([record], n_best=99, config=config)
        best: dict[str, Generation] = {}
        for planned in untrained.planner.plan([record], k=config.plans)[0]:
            for result in untrained.generate([record], plans=[planned.plan], n_best=99, config=config)[0]:
                assert result.plan_log_probability == pytest.approx(planned.log_probability, abs=1e-9)
                if result.text not in best or best[result.text].score < result.score - 1e-9:
                    best[result.text] = result
        assert [g.score for g in together] == sorted((g.score for g in together), reverse=True)
        assert {g.text for g in together} == set(best)
        assert len(together) == len(best)
        for generation in together:
            assert generation.score == pytest.approx(best[generation.text].score, abs=1e-8)
        for generation in untrained.generate([record], n_best=2, config=config)[0]:  # the other plans may be pruned
            assert generation.score == pytest.approx(best[generation.text].score, abs=1e-8)


@pytest.mark.parametrize(("weight", "n_best"), [(1.0, 1), (1.0, 3), (20.0, 1), (20.0, 2), (0.0, 1)])
def test_pruned_plans_do_not_change_the_best_texts(weight: float, n_best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    untrained, config = generator(), replace(SHORT, plans=12, plan_weight=weight, choice="score")
    decoded: list[IndexPlan] = []
    write = BeamSearch.write

    def counted(self: BeamSearch, tasks: Sequence[Task], *settings: Any) -> Any:
        for task, result in write(self, tasks, *settings):
            decoded.extend([tasks[task].groups] if result else [])
            yield task, result

    monkeypatch.setattr(BeamSearch, "write", counted)
    (best,) = untrained.generate([ODA], n_best=n_best, config=config)
    unpruned = len(decoded)
    (everything,) = untrained.generate([ODA], n_best=999, config=config)
    assert_same([best], [everything[:n_best]])
    assert unpruned < len(decoded) - unpruned == 12 if weight > 1 else unpruned <= 12


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_plan_weight_is_the_weight_of_the_plan_in_the_score(weight: float) -> None:
    plans, configs = [Plan.parse("[age birthPlace] [craft]")], [replace(SHORT, plan_weight=w) for w in (0.0, weight)]
    (((without,),), ((best,),)) = (generator().generate([ODA], plans, config=config) for config in configs)
    assert best.score == pytest.approx(without.score + weight * (best.plan_log_probability or math.nan))


@pytest.mark.parametrize("history", ["shared", "masked"])
def test_results_do_not_depend_on_the_batch(history: str) -> None:
    untrained = generator(history=history)
    records = [VOSS, NILS, STRANGE, ODA, replace(NILS, id="duplicate")]
    expected = untrained.generate(records, n_best=3)
    assert [result[0].id for result in expected] == ["voss", "nils", "strange", "oda", "duplicate"]
    assert_same(untrained.generate(records, n_best=3, config=replace(SHORT, rows=1)), expected)
    assert_same(untrained.generate(records, n_best=3, config=replace(SHORT, rows=1000)), expected)
    assert_same(untrained.generate(records[::-1], n_best=3)[::-1], expected)
    assert_same([untrained.generate([record], n_best=3)[0] for record in records], expected)
    assert untrained.generate([]) == []


# --- planning and generation in separate calls, as in the endpoint ---


def test_candidates_are_human_plans_or_the_best_plans() -> None:
    planner, config = generator().planner, replace(SHORT, level=1)
    for record, result in zip(RECORDS, planner.candidates(RECORDS, config=config), strict=True):
        (all_plans,) = planner.plan([record], k=1000, config=config)
        best = [(named_plan(record, plan.states), plan.log_probability) for plan in result.plans]
        assert best == [(planned.plan, planned.log_probability) for planned in all_plans[: SHORT.plans]]
    plans = [Plan.parse("[craft]"), None, Plan.parse("[leader population isPartOf_2 isPartOf]"), None]
    first, searched, third, _ = planner.candidates(RECORDS, plans, complete=True)
    assert (first.search, searched.search, first.plans[0].states[0]) == ("given", "exact", (2,))
    assert third.plans == (ScoredPlan(((3, 2, 1, 0),), 0.0),), "a human plan may have groups larger than L"
    with pytest.raises(ValueError, match="shorter"):
        planner.candidates(RECORDS, [])


def test_the_group_reward_favours_plans_of_many_groups() -> None:
    for candidates in generator().planner.candidates(RECORDS, config=replace(SHORT, group_reward=20.0)):
        assert all(len(group) == 1 for group in candidates.plans[0].states)


def test_records_of_one_call_may_have_different_settings() -> None:
    untrained = generator()
    records = [ODA, VOSS, NILS, STRANGE, Record("oda-2", ODA.triples), Record("voss-2", VOSS.triples)]
    wide_beam = BeamConfig(beam=4, max_fact_tokens=3)
    configs = [
        SHORT,
        replace(SHORT, beam=wide_beam),
        replace(SHORT, plan_weight=0.0, verify="strict"),
        replace(SHORT, level=1, plans=1),
        replace(SHORT, beam=wide_beam, ablation="random-order"),
        replace(SHORT, beam=BeamConfig(beam=2, max_fact_tokens=6, length_penalty=0.0)),
    ]
    plans, counts = [Plan.parse("[craft]"), None, None, None, None, None], [1, 5, 2, 1, 3, 9]
    items = list(zip(records, plans, configs, strict=True))
    candidates = [untrained.planner.candidates([record], [plan], True, config)[0] for record, plan, config in items]
    together = untrained.write(records, candidates, counts, configs)
    separately = [
        untrained.generate([record], [plan], True, count, config)[0]
        for (record, plan, config), count in zip(items, counts, strict=True)
    ]
    assert_same(together, separately)
    assert all(len(result) <= count for result, count in zip(together, counts, strict=True))


@pytest.mark.parametrize(("rows", "sizes"), [(320, [(3, 2, 160), (1, 3, 106)]), (4, [(2, 2, 2), (1, 2, 2), (1, 3, 1)])])
def test_records_with_the_same_beam_settings_are_searched_together(
    rows: int, sizes: list[tuple[int, int, int]], searches: list[Any]
) -> None:
    config = replace(SHORT, rows=rows)
    wide_beam = replace(config, beam=BeamConfig(3, max_fact_tokens=6))
    untrained, configs = generator(), [config, replace(config, plan_weight=0.3, seed=8), wide_beam, config]
    untrained.write(RECORDS, untrained.planner.candidates(RECORDS, config=config), [1] * 4, configs)
    first_plans = searches[::2]  # every second search has the other plans of the batch
    assert [(len(tasks), search.config.beam, max_facts) for search, tasks, max_facts in first_plans] == sizes


# --- alignment ---

TEXTS = [
    (ODA, ("Oda Lund (41)", ", born in Bergen,", " works with glass.")),
    (NILS, ("Nils is from Voss, they say.",)),
    (VOSS, ("Voss, in Vestland, Norway,", " has 16,000 people;", " its leader is Tone Vik.")),
]


def test_alignment_is_the_viterbi_path_of_the_potentials() -> None:
    untrained = generator()
    records, texts = [record for record, _ in TEXTS], [facts for _, facts in TEXTS]
    for aligned, record, facts in zip(untrained.align(records, texts), records, texts, strict=True):
        batch = collate([untrained.encoder.example(record, facts)])
        with torch.no_grad():
            potentials, states = untrained.model.potentials(batch)
            _, (path,) = viterbi(potentials, states)
            (marginals,) = posterior(potentials, states)
            likelihood = untrained.model.log_likelihood(batch).item()
        named = tuple(tuple(record.predicates[i] for i in states.states[z]) for z in path.tolist())
        assert (aligned.id, aligned.facts, aligned.states) == (record.id, facts, named)
        assert aligned.log_likelihood == pytest.approx(likelihood, abs=1e-8)
        assert aligned.posteriors == pytest.approx([marginals[t, z].item() for t, z in enumerate(path)], abs=1e-8)


@pytest.mark.parametrize(
    ("facts", "empty", "without"),
    [(TEXTS[0][1], empty, TEXTS[0][1]) for empty in (" ", "\n\t", "\uffed", "")]
    + [(("Oda Lund is from Ber", " and 41."), "gen", ("Oda Lund is from Bergen", " and 41."))],
)
def test_a_fact_in_which_no_word_begins_gets_the_empty_state(
    facts: tuple[str, ...], empty: str, without: tuple[str, ...]
) -> None:
    """Regression: the states of later facts were shifted by characters or word ends without a word."""
    untrained = generator()
    (expected,) = untrained.align([ODA], [without])
    (aligned,) = untrained.align([ODA], [(facts[0], empty, *facts[1:])])
    assert aligned.states == (expected.states[0], (), *expected.states[1:])
    assert aligned.posteriors == pytest.approx((expected.posteriors[0], 1.0, *expected.posteriors[1:]), abs=1e-8)


def test_a_text_without_words_cannot_be_aligned() -> None:
    with pytest.raises(RecordError, match="'nils'"):
        generator().align([NILS], [[" "]])
