"""The HTTP interface: valid requests and their responses, invalid options."""

import math
from dataclasses import replace
from typing import Any

import pytest

from agggen.checks import check
from agggen.generation.config import InferenceConfig
from agggen.generation.generator import Generator
from agggen.records import Record
from agggen_platform.serving.config import ServeConfig
from serve.api import api
from serve.generator import GeneratorReplica
from serve.handles import HandleEngine
from serve.local import LocalHandle
from serve.planner import PlannerReplica
from tests.unit.serve.http_calls import SILICON, Ask, StubEngine, limited, problem


def test_a_record_may_be_a_row_with_a_key_for_each_predicate(ask: Ask) -> None:
    row = {"id": "Si", "name": "Silicon", "symbol": "Si", "category": "metalloid", "other": {"row": 3}, "text": "Si."}
    triples = [["Silicon", "symbol", "Si"], ["Silicon", "other_row", "3"]]
    other = row | {"id": "3", "plan": "[other_row] [symbol]"}
    first, same, planned = ask.answers("generate", row, {"id": "2", "triples": triples}, other)
    assert first["texts"] == same["texts"]
    assert planned["texts"][0]["plan"] == "[other_row] [symbol]"
    (aligned,) = ask.answers("align", row | {"text": "Silicon is Si."})
    assert "".join(fact["text"] for fact in aligned["facts"]) == "Silicon is Si."


@pytest.mark.parametrize("triple", [["", "symbol", "Si"], {"subject": "", "predicate": "symbol", "object": "Si"}])
def test_a_subject_may_be_empty(ask: Ask, triple: Any) -> None:
    (answer,) = ask.answers("generate", {"triples": [triple]})
    assert (answer["status"], answer["texts"][0]["plan"]) == ("ok", "[symbol]")


def test_plans_come_with_probabilities_best_first(ask: Ask) -> None:
    (answer,) = ask.answers("plan", SILICON, k=4)
    probabilities = [plan["probability"] for plan in answer["plans"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1.0)  # all plans of two triples
    assert [math.log(p) for p in probabilities] == pytest.approx([plan["log_probability"] for plan in answer["plans"]])
    (apart,) = ask.answers("plan", SILICON, level=1, k=4)
    assert {plan["plan"] for plan in apart["plans"]} == {"[symbol] [category]", "[category] [symbol]"}


def test_facts_of_a_text_are_aligned_with_triples(ask: Ask) -> None:
    text, facts = "Silicon is a metalloid with the symbol Si.", ["Silicon is a metalloid", " with the symbol Si."]
    as_sent, cut = ask.answers("align", SILICON | {"text": text, "facts": facts}, SILICON | {"id": "2", "text": text})
    assert [fact["text"] for fact in as_sent["facts"]] == facts
    for fact in as_sent["facts"]:
        assert [triple[1] for triple in fact["triples"]] == fact["predicates"]
        assert 0 < fact["posterior"] <= 1
    assert "".join(fact["text"] for fact in cut["facts"]) == text


TEXTS = [
    "Silicon (Si) is a metalloid.",
    "Silicon is not a metalloid; Bob Bob found it in 1824.",
    "Boron is a metalloid.",
]
RECORDS = [SILICON | {"id": str(number), "text": text} for number, text in enumerate(TEXTS)]


def test_the_verdicts_are_those_of_the_library(ask: Ask, library: Generator) -> None:
    checks = check([Record.of(SILICON)] * len(TEXTS), TEXTS, checker=library.checker)
    answers = ask.answers("check", *RECORDS)
    for answer, checked in zip(answers, checks, strict=True):
        expected = checked.as_dict()
        assert answer["scores"] == pytest.approx(expected["scores"], abs=2e-4)
        assert answer["risk"] == pytest.approx(expected["risk"], abs=2e-4)
        assert answer["invented_spans"] == expected["invented"]
        rounded = [row | {"said": pytest.approx(row["said"], abs=2e-4)} for row in expected["triples"]]
        assert answer["triples"] == rounded


def test_the_details_of_the_strict_check_are_those_of_the_library(ask: Ask, library: Generator) -> None:
    text = "Silicon (Si) was found in 1824 \U0001f9ea by Bob Bob."
    (answer,) = ask.answers("check", SILICON | {"text": text})
    check = library.checker.check(Record.of(SILICON), text)
    assert answer["faults"] == list(check.faults) and answer["invented"] == ["1824", "Bob"]
    symbol, category = answer["values"]
    assert (symbol["predicate"], symbol["how"], text[symbol["start"] : symbol["end"]]) == ("symbol", "literal", "Si")
    assert (category["predicate"], category["how"], "start" in category) == ("category", "missing", False)
    assert answer["repeated"] == list(check.repeated) != []


def test_without_a_critic_only_the_strict_check_is_run(
    serve_config: ServeConfig, planner: PlannerReplica, ask: Ask
) -> None:
    config = replace(serve_config, critic=None)
    engine = HandleEngine(LocalHandle(planner), LocalHandle(GeneratorReplica(config)), config)
    (own,) = Ask(api(engine, config)).answers("check", RECORDS[0])
    (both,) = ask.answers("check", RECORDS[0])
    assert own == {name: both[name] for name in own}
    assert both.keys() - own.keys() == {"scores", "risk", "triples", "invented_spans"}


@pytest.mark.parametrize("text", [{"text": "Si " * 700}, {}], ids=["too long", "missing"])
def test_a_text_is_required_and_bounded(ask: Ask, text: dict[str, str]) -> None:
    answer = ask("/v1/check", json={"records": [SILICON | text]})
    assert (answer.status_code, answer.json()["field"]) == (422, "text")


def test_options_reach_the_engine_and_default_to_those_of_the_model(ask_stub: Ask, stub: StubEngine) -> None:
    options = {"n_best": 3, "level": 2, "plans": 7, "planner": "two-stage", "ablation": "random-order", "beam": 4}
    ask_stub.answers("generate", SILICON, **options, seed=9, complete=True, verify="off")
    ask_stub.answers("generate", SILICON)
    (job,), (default,) = stub.calls
    config = job.settings(InferenceConfig())
    assert (job.n_best, job.complete) == (3, True)
    assert (config.level, config.plans, config.planner, config.ablation) == (2, 7, "two-stage", "random-order")
    assert (config.beam.beam, config.seed, config.verify) == (4, 9, "off")
    assert (default.n_best, default.complete, default.plan) == (1, False, None)
    for own in (InferenceConfig(), InferenceConfig(plans=2, plan_weight=0.5)):  # for any bundle
        assert default.settings(own) == own


@pytest.mark.parametrize(
    ("address", "options", "field", "message"),
    [
        ("/v1/generate", {"verify": "retry"}, "options.verify", "'strict' or 'off'"),
        ("/v1/generate", {"n_best": 11}, "options.n_best", "at most 10"),
        ("/v1/generate", {"n_best": 0}, "options.n_best", "greater than or equal to 1"),
        ("/v1/generate", {"plans": 10**30}, "options.plans", "at most 50"),
        ("/v1/generate", {"level": 4}, "options.level", "at most 3"),
        ("/v1/generate", {"n_best": "2"}, "options.n_best", "integer"),
        ("/v1/generate", {"complete": 1}, "options.complete", "boolean"),
        ("/v1/generate", {"planner": "best"}, "options.planner", "'exact', 'two-stage' or 'sample'"),
        ("/v1/generate", {"levle": 1}, "options.levle", "did you mean 'level'"),
        ("/v1/plan", {"n_best": 1}, "options.n_best", "known: ['level', 'planner', 'top_p', 'seed', 'k']"),
        ("/v1/align", {"beam": 1}, "options.beam", "known: []"),
        ("/v1/generate?n_best=2", {}, "query.n_best", "options are in the body"),
    ],
)
def test_the_problem_names_an_invalid_option(
    ask_stub: Ask, stub: StubEngine, address: str, options: dict[str, Any], field: str, message: str
) -> None:
    response = ask_stub(address, json={"records": [SILICON], "options": options})
    refused = problem(response)
    assert (response.status_code, refused["field"], refused["retryable"]) == (422, field, False)
    assert message in refused["detail"]
    assert not stub.calls


def test_a_default_above_a_limit_is_lowered_to_it(stub: StubEngine) -> None:
    ask = limited(stub, plans=2)
    assert len(ask.answers("plan", SILICON)[0]["plans"]) == 2
    assert ask("/v1/plan", json={"records": [SILICON], "options": {"k": 5}}).status_code == 422


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", ""])
def test_a_deadline_is_a_positive_number(ask_stub: Ask, value: str) -> None:
    response = ask_stub("/v1/plan", json={"records": [SILICON]}, headers={"X-Deadline-Seconds": value})
    assert (response.status_code, problem(response)["field"]) == (422, "X-Deadline-Seconds")


@pytest.mark.parametrize(
    ("requested", "longest", "granted"),
    [(None, 600.0, 60.0), ("5", 600.0, 5.0), ("9999", 600.0, 600.0), (None, 20.0, 20.0)],
)
def test_a_deadline_is_bounded(stub: StubEngine, requested: str | None, longest: float, granted: float) -> None:
    """Regression: the default deadline could exceed the longest deadline."""
    headers = {} if requested is None else {"X-Deadline-Seconds": requested}
    limited(stub, longest_deadline_s=longest)(json={"records": [SILICON]}, headers=headers)
    assert stub.seconds == [pytest.approx(granted, rel=0.2)]


def test_the_model_card_has_the_limits_of_the_server(ask_stub: Ask) -> None:
    card = ask_stub("/v1/model", "GET").json()
    assert (card["fingerprint"], card["largest_group"], card["inference"]["plans"]) == ("ab12", 3, 5)
    assert card["metrics"] == {"loss": 1.5, "odd": None}
    assert card["limits"]["records"] == 256


def test_every_address_is_documented(ask_stub: Ask) -> None:
    document = ask_stub("/openapi.json", "GET").json()
    names = ("generate", "plan", "align", "check", "generate:stream", "model", "examples")
    assert set(document["paths"]) == {*(f"/v1/{name}" for name in names), "/healthz", "/readyz"}
    assert {"GenerateRequest", "TextsResponse", "ProblemDict"} < set(document["components"]["schemas"])
