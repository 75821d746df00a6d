"""The HTTP interface: requests reach the engine, its results the client, and invalid options are named."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from agggen.generation.config import InferenceConfig
from agggen_platform.serving.config import LimitsConfig, ServeConfig
from serve.api import api
from serve.engine import Failure
from tests.unit.serve.http_calls import (
    CONFIG,
    SILICON,
    Ask,
    Server,
    asking,
    asynchronous,
    part,
    problem,
    records,
    scope,
)
from tests.unit.serve.stub_engine import StubEngine

# --- texts ----------------------------------------------------------------------------------------------------------


def test_texts_follow_their_plans_and_list_missing_values(ask: Ask) -> None:
    human = SILICON | {"id": "h", "plan": "[category] [symbol]"}
    options = {"n_best": 2, "verify": "off"}  # the untrained model finds no words that pass
    response = ask("POST", "/v1/generate", json={"records": [SILICON, human], "options": options})
    assert response.status_code == 200
    planned, by_plan = response.json()["answers"]
    assert (planned["index"], planned["id"], planned["status"]) == (0, "Si", "ok")
    assert (by_plan["index"], by_plan["id"], by_plan["status"]) == (1, "h", "ok")
    assert len(planned["texts"]) == 2
    assert planned["texts"][0]["score"] >= planned["texts"][1]["score"]
    assert {text["plan"] for text in by_plan["texts"]} == {"[category] [symbol]"}
    for text in planned["texts"] + by_plan["texts"]:
        assert "".join(fact["text"] for fact in text["facts"]) == text["text"]
        assert text["fulfilled"] == ("faults" not in text and not any("missing" in fact for fact in text["facts"]))
    assert not all(text["fulfilled"] for text in planned["texts"] + by_plan["texts"])


def test_unknown_predicates_are_listed_and_written_as_plain_clauses(ask: Ask) -> None:
    triples = [*SILICON["triples"], ["Silicon", "crystalStructure", "diamond cubic"]]
    plans = {"a": None, "b": "[symbol crystalStructure] [category]"}
    records = [{"id": name, "triples": triples} | ({"plan": plan} if plan else {}) for name, plan in plans.items()]
    for answer in ask("POST", "/v1/generate", json={"records": [*records, SILICON]}).json()["answers"]:
        (text,) = answer["texts"]
        if answer["id"] == "Si":
            assert "unknown_predicates" not in text
            continue
        assert text["unknown_predicates"] == ["crystalStructure"]
        (fact,) = (fact for fact in text["facts"] if "crystalStructure" in fact["predicates"])
        assert fact["fallback"] is True
        assert "The crystal structure of Silicon is diamond cubic." in fact["text"]
    (answer,) = ask("POST", "/v1/plan", json={"records": records[:1]}).json()["answers"]
    assert all("[crystalStructure]" in plan["plan"] for plan in answer["plans"])


def test_a_record_may_be_a_row_with_a_key_for_each_predicate(ask: Ask) -> None:
    row = {"id": "Si", "name": "Silicon", "symbol": "Si", "category": "metalloid", "other": {"row": 3}, "text": "Si."}
    triples = [["Silicon", "symbol", "Si"], ["Silicon", "other_row", "3"]]
    body = {"records": [row, {"id": "2", "triples": triples}, row | {"id": "3", "plan": "[other_row] [symbol]"}]}
    first, same, planned = ask("POST", "/v1/generate", json=body).json()["answers"]
    assert first["texts"] == same["texts"]
    assert planned["texts"][0]["plan"] == "[other_row] [symbol]"
    row["text"] = "Silicon is Si."
    (aligned,) = ask("POST", "/v1/align", json={"records": [row]}).json()["answers"]
    assert "".join(fact["text"] for fact in aligned["facts"]) == "Silicon is Si."
    long = {"id": "4", "subject": "Silicon", "predicate": "symbol", "object": "Si"}
    response = ask("POST", "/v1/plan", json={"records": [long]})
    assert response.status_code == 422 and "is one triple, not a record" in response.text


def test_a_row_that_would_grow_when_flattened_is_refused(ask: Ask) -> None:
    """Flattening repeats the outer key for each inner value: 60,000 values below a long key would fill the memory."""
    row = {"x" * 100_000: {str(number): "1" for number in range(1000)}}
    response = ask("POST", "/v1/generate", json={"records": [row]})
    assert response.status_code == 422 and "at most 16000 as a row" in response.text


@pytest.mark.parametrize("triple", [["", "symbol", "Si"], {"subject": "", "predicate": "symbol", "object": "Si"}])
def test_a_subject_may_be_empty(ask: Ask, triple: Any) -> None:
    (answer,) = ask("POST", "/v1/generate", json={"records": [{"triples": [triple]}]}).json()["answers"]
    assert (answer["status"], answer["texts"][0]["plan"]) == ("ok", "[symbol]")


def test_plans_come_with_probabilities_best_first(ask: Ask) -> None:
    response = ask("POST", "/v1/plan", json={"records": [SILICON], "options": {"k": 4}})
    (answer,) = response.json()["answers"]
    probabilities = [plan["probability"] for plan in answer["plans"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1.0)  # two triples have four plans
    assert [math.log(p) for p in probabilities] == pytest.approx([plan["log_probability"] for plan in answer["plans"]])
    body = {"records": [SILICON], "options": {"level": 1, "k": 4}}
    apart = ask("POST", "/v1/plan", json=body).json()["answers"][0]["plans"]
    assert {plan["plan"] for plan in apart} == {"[symbol] [category]", "[category] [symbol]"}


def test_facts_of_a_text_are_aligned_with_triples(ask: Ask) -> None:
    text, facts = "Silicon is a metalloid with the symbol Si.", ["Silicon is a metalloid", " with the symbol Si."]
    response = ask(
        "POST",
        "/v1/align",
        json={"records": [SILICON | {"text": text, "facts": facts}, SILICON | {"id": "2", "text": text}]},
    )
    as_sent, cut = response.json()["answers"]
    assert [fact["text"] for fact in as_sent["facts"]] == facts
    for fact in as_sent["facts"]:
        assert [triple[1] for triple in fact["triples"]] == fact["predicates"]
        assert 0 < fact["posterior"] <= 1
    assert "".join(fact["text"] for fact in cut["facts"]) == text
    wrong = ask("POST", "/v1/align", json={"records": [SILICON | {"text": text, "facts": facts[:1]}]})
    assert (wrong.status_code, problem(wrong)["field"]) == (422, "facts")


# --- options --------------------------------------------------------------------------------------------------------


def test_options_reach_the_engine(ask_stub: Ask, stub: StubEngine) -> None:
    options = {"n_best": 3, "level": 2, "plans": 7, "planner": "two-stage", "ablation": "random-order", "beam": 4}
    options |= {"seed": 9, "complete": True, "verify": "off"}
    ask_stub("POST", "/v1/generate", json={"records": [SILICON], "options": options})
    ((job,),) = stub.calls
    config = job.settings(InferenceConfig())
    assert (job.n_best, job.complete) == (3, True)
    assert (config.level, config.plans, config.planner, config.ablation) == (2, 7, "two-stage", "random-order")
    assert (config.beam.beam, config.seed, config.verify) == (4, 9, "off")


def test_settings_default_to_those_of_the_model(ask_stub: Ask, stub: StubEngine) -> None:
    ask_stub("POST", "/v1/generate", json={"records": [SILICON]})
    ((job,),) = stub.calls
    for own in (stub.served.inference, InferenceConfig(plans=2, plan_weight=0.5)):  # whichever bundle answers
        assert job.settings(own) == own
    assert (job.n_best, job.complete, job.plan) == (1, False, None)


@pytest.mark.parametrize(
    ("address", "options", "field", "says"),
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
    ask_stub: Ask, stub: StubEngine, address: str, options: dict[str, Any], field: str, says: str
) -> None:
    response = ask_stub("POST", address, json={"records": [SILICON], "options": options})
    refused = problem(response)
    assert (response.status_code, refused["field"], refused["retryable"]) == (422, field, False)
    assert says in refused["detail"]
    assert not stub.calls


def test_a_default_above_a_limit_is_lowered_to_it(stub: StubEngine) -> None:
    ask = asking(api(stub, ServeConfig(bundle="toy", limits=LimitsConfig(plans=2))))
    assert len(ask("POST", "/v1/plan", json={"records": [SILICON]}).json()["answers"][0]["plans"]) == 2
    assert ask("POST", "/v1/plan", json={"records": [SILICON], "options": {"k": 5}}).status_code == 422


# --- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", ""])
def test_a_deadline_is_a_positive_number(ask_stub: Ask, value: str) -> None:
    response = ask_stub("POST", "/v1/plan", json={"records": [SILICON]}, headers={"X-Deadline-Seconds": value})
    assert (response.status_code, problem(response)["field"]) == (422, "X-Deadline-Seconds")


@pytest.mark.parametrize(
    ("asked", "longest", "granted"),
    [(None, 600.0, 60.0), ("5", 600.0, 5.0), ("9999", 600.0, 600.0), (None, 20.0, 20.0)],
)
def test_a_deadline_is_bounded(stub: StubEngine, asked: str | None, longest: float, granted: float) -> None:
    """Regression: the default deadline could be longer than the longest deadline."""
    seen = []

    async def generate(jobs: Any, seconds: float) -> list[Failure]:
        seen.append(seconds)
        return [Failure("busy", "later")] * len(jobs)

    stub.generate = generate  # type: ignore[method-assign, assignment]
    headers = {} if asked is None else {"X-Deadline-Seconds": asked}
    config = ServeConfig(bundle="toy", limits=LimitsConfig(longest_deadline_s=longest))
    asking(api(stub, config))("POST", "/v1/generate", json={"records": [SILICON]}, headers=headers)
    assert seen == [pytest.approx(granted, rel=0.2)]


@asynchronous
async def test_the_work_for_a_disconnected_client_is_cancelled(stub: StubEngine) -> None:
    stub.hold = asyncio.Event()
    body = json.dumps({"records": records("a", "b")}).encode()
    server = Server(part(body, more=False))
    head = scope(headers=[(b"content-type", b"application/json")])
    call = asyncio.create_task(api(stub, CONFIG)(head, server.receive, server.send))
    while not stub.begun:
        await asyncio.sleep(0.001)
    assert not stub.cancelled
    server.incoming.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(call, 10)
    assert stub.cancelled == 2


# --- the model and the document -------------------------------------------------------------------------------------


def test_the_model_is_described_with_this_servers_limits(ask_stub: Ask) -> None:
    card = ask_stub("GET", "/v1/model").json()
    assert (card["fingerprint"], card["largest_group"], card["inference"]["plans"]) == ("ab12", 3, 5)
    assert (card["predicates"], card["predicate_names"]) == (2, ["category", "symbol"])
    assert card["metrics"] == {"loss": 1.5, "odd": None}
    assert card["limits"]["records"] == 256


def test_every_address_is_documented(ask_stub: Ask) -> None:
    document = ask_stub("GET", "/openapi.json").json()
    assert set(document["paths"]) == {
        *(f"/v1/{name}" for name in ("generate", "plan", "align", "check", "generate:stream")),
        *("/v1/model", "/v1/examples"),
        "/healthz",
        "/readyz",
    }
    assert {"GenerateRequest", "TextsResponse", "ProblemDict"} < set(document["components"]["schemas"])
