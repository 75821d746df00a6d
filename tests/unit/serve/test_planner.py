"""The planner replica: plans are those of the library, whatever the batch; self-test and health checks."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agggen.bundle import fingerprint, load_bundle, save_bundle
from agggen.corpora.elements import elements_records
from agggen.errors import BundleError
from agggen.generation.generator import Generator
from agggen.generation.planner import MAX_TRIPLES, Planner
from agggen.records import Plan, Record, Triple
from agggen_platform.serving.config import ServeConfig
from serve.engine import Failure, Job
from serve.planner import PlannerReplica
from serve.replica import ReplicaError
from tests.unit.serve.stub_engine import always

run = asyncio.run
LONG = 60.0
RECORDS = sorted((r for r in elements_records("dev") if len(r.triples) > 1), key=lambda r: len(r.triples))[:4]
LARGE = Record("large", tuple(Triple("Neon", f"p{n}", "1") for n in range(MAX_TRIPLES + 1)))


@pytest.fixture(scope="module")
def planner(serve_config: ServeConfig) -> PlannerReplica:
    return PlannerReplica(serve_config)


def test_each_job_is_planned_by_its_own_settings(planner: PlannerReplica, library: Generator) -> None:
    flat, record = replace(library.config, level=1, plans=4), RECORDS[-1]
    jobs = [
        Job(record, settings=always(flat)),
        Job(record),
        Job(record, Plan.parse(f"[{record.predicates[0]}]"), complete=True),
    ]

    async def together() -> Any:
        return await asyncio.gather(planner.candidates(jobs, LONG), planner.plan(jobs[:2], 5, LONG))

    candidates, plans = run(together())
    expected = [
        *library.planner.candidates([record], config=flat),
        *library.planner.candidates([record]),
        *library.planner.candidates([record], [jobs[2].plan], complete=True),
    ]
    for batched, alone in zip(candidates.answers, expected, strict=True):
        assert [plan.states for plan in batched.plans] == [plan.states for plan in alone.plans]
        scores = [plan.score for plan in alone.plans]
        assert [plan.score for plan in batched.plans] == pytest.approx(
            scores, abs=1e-6
        )  # other batches round otherwise
    best_alone = [*library.planner.plan([record], 5, flat), *library.planner.plan([record], 5)]
    for best, alone in zip(plans.answers, best_alone, strict=True):
        assert [planned.plan for planned in best] == [planned.plan for planned in alone]
        logs = [planned.log_probability for planned in alone]
        assert [planned.log_probability for planned in best] == pytest.approx(logs, abs=1e-6)


def test_failures_name_the_reason_and_field(planner: PlannerReplica, library: Generator) -> None:
    record = RECORDS[0]
    jobs = [
        Job(record),
        Job(LARGE),
        Job(record, settings=always(replace(library.config, level=4))),
        Job(record, Plan.parse("[colour]")),
        Job(record, Plan.parse(f"[{record.predicates[0]}]")),
        Job(RECORDS[1]),
    ]
    answers: list[Any] = run(planner.candidates(jobs, LONG)).answers
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    assert [(f.code, f.field) for f in failures] == [
        ("record", "triples"),
        ("plan", "level"),
        ("plan", "plan"),
        ("plan", "plan"),
    ]
    for failure, reason in zip(failures, ("at most 24", "largest group of 3", "'colour'", "omits"), strict=True):
        assert reason in failure.message
    assert [answers[i].plans for i in (0, 5)] == [alone.plans for alone in library.planner.candidates(RECORDS[:2])]
    plans: list[Any] = run(planner.plan(jobs[:3], 2, LONG)).answers
    assert [best.plan for best in plans[0]] == [best.plan for best in library.planner.plan([record], 2)[0]]
    assert [(f.code, f.field) for f in plans[1:] if isinstance(f, Failure)] == [
        ("record", "triples"),
        ("plan", "level"),
    ]


def test_the_card_describes_the_bundle(planner: PlannerReplica, bundle: Path) -> None:
    card, loaded = run(planner.card()), load_bundle(bundle)
    assert (card.fingerprint, card.address) == (fingerprint(bundle), str(bundle))
    assert (card.largest_group, card.facts, card.metrics) == (3, "corpus", {"joint.dev_loss": 1.5})
    assert card.inference == loaded.inference
    assert card.predicates == len(card.predicate_names) == len(loaded.encoder.predicates) - 1
    assert set(card.predicate_names) == {name for record in elements_records("dev") for name in record.predicates}
    assert card.model["width"] == 16


def test_torch_gets_a_thread_for_each_cpu(serve_config: ServeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr("serve.replica.smoke", lambda *_, **__: [])  # takes long where there are fewer
    try:
        for cpus, threads in ((2.0, 2), (0.25, 1)):
            config = replace(serve_config, planner=replace(serve_config.planner, cpus=cpus))
            PlannerReplica(config)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


# --- broken bundles and replicas ---


def test_a_bundle_that_generates_no_text_is_refused(serve_config: ServeConfig, bundle: Path, tmp_path: Path) -> None:
    broken = load_bundle(bundle)
    with torch.no_grad():
        broken.model.output_bias.fill_(float("nan"))
    save_bundle(tmp_path / "broken", broken)
    with pytest.raises(BundleError, match=r"does not pass its self-test: generation for record .* failed|gave"):
        PlannerReplica(replace(serve_config, bundle=str(tmp_path / "broken")))


def test_a_replica_is_replaced_if_records_and_the_self_test_fail(
    serve_config: ServeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed records do not suffice, and the self-test runs only after failures."""
    planner = PlannerReplica(serve_config)
    run(planner.check_health())
    inner, broken = Planner.distributions, [True]

    def distributions(self: Planner, records: list[Record], config: Any = None) -> Any:
        if broken[0] or records[0].id != "test":
            raise RuntimeError("the device is gone")
        return inner(self, records, config)

    monkeypatch.setattr(Planner, "distributions", distributions)
    logging.disable(logging.ERROR)
    try:
        run(planner.check_health())
        answers = run(planner.candidates([Job(record) for record in RECORDS], LONG)).answers
        assert {answer.code for answer in answers if isinstance(answer, Failure)} == {"internal"}
        with pytest.raises(ReplicaError, match=r"4 records in a row failed, and so does a test: .*the device is gone"):
            run(planner.check_health())
        broken[0] = False
        run(planner.check_health())
        monkeypatch.undo()
        run(planner.check_health())
    finally:
        logging.disable(logging.NOTSET)
