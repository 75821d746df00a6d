"""Planner and generator replicas: plans, texts and alignments equal the library's in any batch."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agggen.bundle import fingerprint, load_bundle, save_bundle
from agggen.corpora.elements import elements_records
from agggen.errors import BundleError
from agggen.facts.config import AllenNLPConfig, SegmenterConfig, segmenter
from agggen.generation.config import BeamConfig
from agggen.generation.generator import Candidates, Generation, Generator
from agggen.generation.planner import MAX_TRIPLES, Planner
from agggen.records import Plan, Record, Triple
from agggen_platform.serving.config import BatchConfig, ServeConfig
from serve.engine import Failure, Job, Text
from serve.generator import GeneratorReplica
from serve.planner import PlannerReplica
from tests.unit.serve.http_calls import LONG, always
from tests.unit.serve.test_parity import SETTINGS

run = asyncio.run
RECORDS = sorted((r for r in elements_records("dev") if len(r.triples) > 1), key=lambda r: len(r.triples))[:5]
TEXT = "Neon is a gas. It is colorless, and it was discovered in 1898."


def wide(triples: int) -> Record:
    return Record("wide", tuple(Triple("Neon", f"p{n}", "1") for n in range(triples)))


def assert_failures(answers: Sequence[Any], expected: Sequence[tuple[Any, str, str, str]]) -> None:
    """Compares failures with tuples (work, code, field, part of the message)."""
    for answer, (_, code, field, message) in zip(answers, expected, strict=True):
        assert isinstance(answer, Failure)
        assert (answer.code, answer.field) == (code, field) and message in answer.message


def test_each_job_is_planned_by_its_own_settings(planner: PlannerReplica, library: Generator) -> None:
    configs = [library.config, *(replace(library.config, **changed) for changed in SETTINGS.values())]
    record = RECORDS[-1]
    human_plan = Plan.parse(f"[{record.predicates[0]}]")
    jobs = [Job(record, settings=always(config)) for config in configs]

    async def together() -> Any:
        planned = planner.candidates([*jobs, Job(record), Job(record, human_plan, complete=True)], LONG)
        return await asyncio.gather(planned, planner.plan(jobs, LONG, 5))

    candidates, plans = run(together())
    library_results = [library.planner.candidates([record], config=config)[0] for config in [*configs, None]]
    library_results += library.planner.candidates([record], [human_plan], complete=True)
    for batched, expected in zip(candidates.answers, library_results, strict=True):
        assert [plan.states for plan in batched.plans] == [plan.states for plan in expected.plans]
        scores = [plan.score for plan in expected.plans]
        assert [plan.score for plan in batched.plans] == pytest.approx(scores, abs=1e-6)  # batches differ in rounding
    for best, config in zip(plans.answers, configs, strict=True):
        (expected,) = library.planner.plan([record], 5, config)
        assert [planned.plan for planned in best] == [planned.plan for planned in expected]
        logs = [planned.log_probability for planned in expected]
        assert [planned.log_probability for planned in best] == pytest.approx(logs, abs=1e-6)


def test_failures_name_the_reason_and_field(planner: PlannerReplica, library: Generator) -> None:
    record = RECORDS[0]
    bad = [
        (Job(wide(MAX_TRIPLES + 1)), "record", "triples", "at most 24"),
        (Job(record, settings=always(replace(library.config, level=4))), "plan", "level", "largest group of 3"),
        (Job(record, Plan.parse("[colour]")), "plan", "plan", "'colour'"),
        (Job(record, Plan.parse(f"[{record.predicates[0]}]")), "plan", "plan", "omits"),
    ]
    jobs = [Job(record), *(job for job, *_ in bad), Job(RECORDS[1])]
    first, *failures, last = run(planner.candidates(jobs, LONG)).answers
    assert_failures(failures, bad)
    assert [first.plans, last.plans] == [result.plans for result in library.planner.candidates(RECORDS[:2])]
    best, *failures = run(planner.plan(jobs[:3], LONG, 2)).answers
    assert_failures(failures, bad[:2])
    assert [plan.plan for plan in best] == [plan.plan for plan in library.planner.plan([record], 2)[0]]


def test_the_card_describes_the_bundle(planner: PlannerReplica, bundle: Path) -> None:
    card, loaded = run(planner.card()), load_bundle(bundle)
    predicates = {name for record in elements_records("dev") for name in record.predicates}
    assert set(card["predicate_names"]) == predicates and card["predicates"] == len(predicates)
    assert (card["fingerprint"], card["address"]) == (fingerprint(bundle), str(bundle))
    assert (card["largest_group"], card["facts"], card["metrics"]) == (3, "corpus", {"joint.dev_loss": 1.5})
    assert (card["inference"]["plans"], card["model"]["width"]) == (loaded.inference.plans, 16)


@pytest.fixture(scope="module")
def name(bundle: Path) -> str:
    return fingerprint(bundle)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    write = Generator.write

    def counted(self: Generator, records: Sequence[Record], *arguments: Any) -> Any:
        sizes.append(len(records))
        return write(self, records, *arguments)

    monkeypatch.setattr(Generator, "write", counted)
    return sizes


def assert_same_texts(answers: Sequence[Any], expected: Sequence[Sequence[Generation]]) -> None:
    """Compares texts, up to the rounding of floats, which depends on the batch."""
    for texts, library in zip(answers, expected, strict=True):
        assert [(g.id, g.text, g.plan, g.facts) for g in texts] == [(g.id, g.text, g.plan, g.facts) for g in library]
        assert [g.score for g in texts] == pytest.approx([g.score for g in library], abs=1e-4)


def test_batching_with_other_settings_does_not_change_texts(
    serve_config: ServeConfig, library: Generator, name: str, batches: list[int]
) -> None:
    generator = GeneratorReplica(replace(serve_config, batch=BatchConfig(wait_ms=50)))
    batches.clear()  # without the self-test's batches
    own, broad = library.config, replace(library.config, beam=BeamConfig(beam=3, max_fact_tokens=4))
    configs = [own, broad, replace(own, plan_weight=0.0), broad, replace(own, verify="off")]
    configs += [replace(own, **changed) for changed in SETTINGS.values()]
    records = (RECORDS * 2)[: len(configs)]
    jobs = [Job(record, settings=always(config), n_best=2) for record, config in zip(records, configs, strict=True)]
    plans = [library.planner.candidates([record], config=c)[0] for record, c in zip(records, configs, strict=True)]

    async def together() -> Any:
        return await asyncio.gather(*(generator.write([pair], LONG, name) for pair in zip(jobs, plans, strict=True)))

    results = run(together())
    assert sorted(batches) == [2, 8]  # one batch per beam size
    for result, record, config in zip(results, records, configs, strict=True):
        assert_same_texts(result.answers, library.generate([record], n_best=2, config=config))


def test_a_batch_has_at_most_the_rows_of_one_beam_search(
    generator: GeneratorReplica, library: Generator, name: str, batches: list[int]
) -> None:
    config = replace(library.config, rows=8)  # two records, two plans, two hypotheses
    records = [Record(f"{n}", RECORDS[0].triples) for n in range(5)]
    plans = library.planner.candidates(records, config=config)
    assert {len(candidates.plans) for candidates in plans} == {2}
    jobs = [Job(record, settings=always(config)) for record in records]
    run(generator.write(list(zip(jobs, plans, strict=True)), LONG, name))
    assert batches == [2, 2, 1]


def test_candidates_of_another_model_are_planned_again(
    generator: GeneratorReplica, library: Generator, name: str
) -> None:
    """During an update, plan and text must come from the same model; invalid plans are refused."""
    record, foreign = RECORDS[-1], Candidates((((0,), (1,)),), (-1.0,))
    bad, level = Job(record, Plan.parse("[colour]")), replace(library.config, level=1)
    flat = Job(record, settings=always(level))
    answered = run(generator.write([(job, foreign) for job in (Job(record), bad, flat)], LONG, "of another"))
    assert answered.model == name
    first, failure, last = answered.answers
    assert_same_texts([first, last], [library.generate([record])[0], library.generate([record], config=level)[0]])
    assert_failures([failure], [(bad, "plan", "plan", "'colour'")])


def test_alignments_are_those_of_the_library(generator: GeneratorReplica, library: Generator) -> None:
    """Texts without facts are segmented like the training texts."""
    pieces, segmented = (
        ("Neon is a gas. ", TEXT.removeprefix("Neon is a gas. ")),
        segmenter("clauses").segment([TEXT])[0],
    )
    assert len(segmented) > 1 and "".join(segmented) == TEXT
    texts = [Text(RECORDS[0], TEXT, pieces), Text(RECORDS[1], "Neon.", ("Neon.",)), Text(RECORDS[0], TEXT)]
    facts = [pieces, ("Neon.",), segmented]
    library_results = [library.align([text.record], [parts])[0] for text, parts in zip(texts, facts, strict=True)]
    for aligned, expected in zip(run(generator.align(texts, LONG)).answers, library_results, strict=True):
        assert not isinstance(aligned, Failure)
        assert (aligned.id, aligned.facts, aligned.states) == (expected.id, expected.facts, expected.states)
        assert aligned.posteriors == pytest.approx(expected.posteriors, abs=1e-4)
        assert aligned.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-3)


def test_failures_say_why_a_text_cannot_be_aligned(generator: GeneratorReplica) -> None:
    """The cost is bounded in advance: 900 facts of 2 triples took 11.5 GB and 51 s; large records took minutes."""
    sentence = "Neon is a gas. "
    facts = (sentence,) * 50 + (sentence * 50,)
    bad = [
        (Text(wide(MAX_TRIPLES + 1), TEXT), "record", "triples", "at most 24"),
        (Text(RECORDS[0], TEXT, (sentence,)), "text", "facts", "do not concatenate"),
        (Text(RECORDS[0], " \n"), "text", "text", "no words"),
        (Text(RECORDS[0], "a " * 900, ("a ",) * 900), "text", "text", "the text has 900 facts; at most 64"),
        (Text(wide(MAX_TRIPLES), sentence * 100, facts), "text", "text", "send fewer triples or a shorter text"),
    ]
    texts = [Text(RECORDS[0], TEXT), *(text for text, *_ in bad), Text(RECORDS[1], "Neon.")]
    first, *failures, last = run(generator.align(texts, LONG)).answers
    assert_failures(failures, bad)
    assert not isinstance(first, Failure) and not isinstance(last, Failure)


def test_an_alignment_ends_soon_after_its_deadline(generator: GeneratorReplica) -> None:
    text = "Neon is a gas. " * 40

    def cpu(seconds: float) -> float:
        async def align() -> None:
            await generator.align([Text(wide(16), text, (text,))], seconds)
            await generator.align([Text(RECORDS[1], "Neon.")], LONG)  # the worker thread is idle again

        begin = time.process_time()
        asyncio.run(align())
        return time.process_time() - begin

    cpu(0.01)
    whole = cpu(LONG)
    assert cpu(0.01) < whole / 2


def test_the_allennlp_archive_of_a_bundle_is_not_run(serve_config: ServeConfig, bundle: Path, tmp_path: Path) -> None:
    """Loading an archive runs its author's code."""
    config = SegmenterConfig(source="allennlp", allennlp=AllenNLPConfig(str(tmp_path / "srl.tar.gz")))
    save_bundle(tmp_path / "bundle", replace(load_bundle(bundle), segmenter=config))
    generator = GeneratorReplica(replace(serve_config, bundle=str(tmp_path / "bundle")))
    refused, aligned = run(generator.align([Text(RECORDS[0], TEXT), Text(RECORDS[0], TEXT, (TEXT,))], LONG)).answers
    assert_failures([refused], [(None, "text", "facts", "send the text's `facts`")])
    assert str(tmp_path) not in refused.message
    assert not isinstance(aligned, Failure) and aligned.facts == (TEXT,)


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
    """Failed records alone are not a reason, and the self-test runs only after failures."""
    planner = PlannerReplica(serve_config)
    run(planner.check_health())
    inner, broken = Planner.distributions, [True]

    def distributions(self: Planner, records: list[Record], config: Any = None) -> Any:
        if broken[0] or records[0].id != "test":
            raise RuntimeError("the device is gone")
        return inner(self, records, config)

    monkeypatch.setattr(Planner, "distributions", distributions)
    run(planner.check_health())
    answers = run(planner.candidates([Job(record) for record in RECORDS], LONG)).answers
    assert {answer.code for answer in answers if isinstance(answer, Failure)} == {"internal"}
    with pytest.raises(RuntimeError, match=r"5 consecutive records failed, .* the self-test: .*the device is gone"):
        run(planner.check_health())
    broken[0] = False
    run(planner.check_health())
    monkeypatch.undo()
    run(planner.check_health())


@pytest.mark.parametrize(("cpus", "threads"), [(2.0, 2), (0.25, 1)])
def test_torch_uses_one_thread_per_cpu_and_a_missing_gpu_is_an_error(
    serve_config: ServeConfig, monkeypatch: pytest.MonkeyPatch, cpus: float, threads: int
) -> None:
    numbers: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(BundleError, match="1 GPUs are configured, but torch finds none"):
        GeneratorReplica(replace(serve_config, generator=replace(serve_config.generator, cpus=cpus, gpus=1.0)))
    assert numbers == [threads]
