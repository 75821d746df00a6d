"""The generator replica: texts and alignments are those of the library, whatever the batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import fingerprint, load_bundle, save_bundle
from agggen.corpora.elements import elements_records
from agggen.errors import BundleError
from agggen.facts.config import AllenNLPConfig, SegmenterConfig, segmenter
from agggen.generation.config import BeamConfig
from agggen.generation.generator import Candidates, Generation, Generator
from agggen.generation.planner import MAX_TRIPLES
from agggen.records import Plan, Record, Triple
from agggen_platform.serving.config import BatchConfig, ServeConfig
from serve.engine import Failure, Job, Text
from serve.generator import GeneratorReplica
from tests.unit.serve.stub_engine import always

run = asyncio.run
LONG = 60.0
RECORDS = sorted((r for r in elements_records("dev") if len(r.triples) > 1), key=lambda r: len(r.triples))[:5]
TEXT = "Neon is a gas. It is colorless, and it was discovered in 1898."


@pytest.fixture(scope="module")
def generator(serve_config: ServeConfig) -> GeneratorReplica:
    return GeneratorReplica(serve_config)


@pytest.fixture(scope="module")
def name(bundle: Path) -> str:
    return fingerprint(bundle)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of records in each call of `Generator.write`."""
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
    batches.clear()  # drops those of the self-test
    wide = replace(library.config, beam=BeamConfig(beam=3, max_fact_tokens=4))
    free = replace(library.config, verify="off")
    configs = [library.config, wide, replace(library.config, plan_weight=0.0), wide, free]
    jobs = [Job(record, settings=always(config), n_best=2) for record, config in zip(RECORDS, configs, strict=True)]
    plans = [library.planner.candidates([record], config=c)[0] for record, c in zip(RECORDS, configs, strict=True)]

    async def together() -> Any:
        calls = [generator.write([job], [plan], name, LONG) for job, plan in zip(jobs, plans, strict=True)]
        return await asyncio.gather(*calls)

    results = run(together())
    assert sorted(batches) == [2, 3]  # a batch for each beam size
    for result, record, config in zip(results, RECORDS, configs, strict=True):
        assert_same_texts(result.answers, library.generate([record], n_best=2, config=config))


def test_a_batch_has_at_most_the_rows_of_one_beam_search(
    generator: GeneratorReplica, library: Generator, name: str, batches: list[int]
) -> None:
    config = replace(library.config, rows=8)  # two records of two plans and two hypotheses each
    records = [Record(f"{n}", RECORDS[0].triples) for n in range(5)]
    plans = library.planner.candidates(records, config=config)
    assert {len(candidates.plans) for candidates in plans} == {2}
    run(generator.write([Job(record, settings=always(config)) for record in records], plans, name, LONG))
    assert batches == [2, 2, 1]


def test_candidates_of_another_model_are_planned_again(
    generator: GeneratorReplica, library: Generator, name: str
) -> None:
    """During an update each text is planned and written by one model, and invalid plans are still refused."""
    record, foreign = RECORDS[-1], Candidates((((0,), (1,)),), (-1.0,))
    bad = Job(record, Plan.parse("[colour]"))
    level = replace(library.config, level=1)
    flat = Job(record, settings=always(level))
    answered = run(generator.write([Job(record), bad, flat], [foreign] * 3, "of another", LONG))
    assert answered.model == name
    first, failure, last = answered.answers
    assert_same_texts([first, last], [library.generate([record])[0], library.generate([record], config=level)[0]])
    assert isinstance(failure, Failure) and (failure.code, failure.field) == ("plan", "plan")


def test_a_missing_gpu_is_an_error(serve_config: ServeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(BundleError, match="1 GPUs were asked for, but torch sees none here"):
        GeneratorReplica(replace(serve_config, generator=replace(serve_config.generator, gpus=1.0)))


# --- alignment ---


def test_alignments_are_those_of_the_library(generator: GeneratorReplica, library: Generator) -> None:
    pieces = ("Neon is a gas. ", "It is colorless, and it was discovered in 1898.")
    texts = [Text(RECORDS[0], TEXT, pieces), Text(RECORDS[1], "Neon.", ("Neon.",))]
    expected = [*library.align([RECORDS[0]], [pieces]), *library.align([RECORDS[1]], [("Neon.",)])]
    for aligned, alone in zip(run(generator.align(texts, LONG)).answers, expected, strict=True):
        assert not isinstance(aligned, Failure)
        assert (aligned.id, aligned.facts, aligned.states) == (alone.id, alone.facts, alone.states)
        assert aligned.posteriors == pytest.approx(alone.posteriors, abs=1e-4)
        assert aligned.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-3)


def test_a_text_without_facts_is_segmented_like_the_training_texts(generator: GeneratorReplica) -> None:
    (aligned,) = run(generator.align([Text(RECORDS[0], TEXT)], LONG)).answers
    assert not isinstance(aligned, Failure)
    assert aligned.facts == segmenter("clauses").segment([TEXT])[0]
    assert len(aligned.facts) > 1 and "".join(aligned.facts) == TEXT


def test_failures_say_why_a_text_cannot_be_aligned(generator: GeneratorReplica) -> None:
    large = Record("large", tuple(Triple("Neon", f"p{n}", "1") for n in range(MAX_TRIPLES + 1)))
    texts = [
        Text(RECORDS[0], TEXT),
        Text(large, TEXT),
        Text(RECORDS[0], TEXT, ("Neon is a gas.",)),
        Text(RECORDS[0], " \n"),
        Text(RECORDS[1], "Neon."),
    ]
    answers = run(generator.align(texts, LONG)).answers
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    assert [(failure.code, failure.field) for failure in failures] == [
        ("record", "triples"),
        ("text", "facts"),
        ("text", "text"),
    ]
    assert "do not concatenate" in failures[1].message and "no words" in failures[2].message
    assert not isinstance(answers[0], Failure) and not isinstance(answers[4], Failure)


def test_the_cost_of_an_alignment_is_bounded_before_any_work(generator: GeneratorReplica) -> None:
    """Without the limits, 900 facts of 2 triples took 11.5 GB and 51 s; 24 triples with 30 sentences, minutes."""
    wide = Record("wide", tuple(Triple("Neon", f"p{n}", "1") for n in range(MAX_TRIPLES)))
    texts = [
        Text(RECORDS[0], "a " * 900, ("a ",) * 900),
        Text(wide, "Neon is a gas. " * 100, ("Neon is a gas. ",) * 50 + ("Neon is a gas. " * 50,)),
        Text(RECORDS[1], "Neon."),
    ]
    many, long, good = run(generator.align(texts, LONG)).answers
    assert isinstance(many, Failure) and many.message == "the text has 900 facts; at most 64"
    assert isinstance(long, Failure) and long.message.endswith("send fewer triples or a shorter text")
    assert not isinstance(good, Failure)


def test_an_alignment_ends_soon_after_its_deadline(generator: GeneratorReplica) -> None:
    wide = Record("wide", tuple(Triple("Neon", f"p{n}", "1") for n in range(16)))
    text = "Neon is a gas. " * 40

    def cpu(seconds: float) -> float:
        async def align() -> None:
            await generator.align([Text(wide, text, (text,))], seconds)
            await generator.align([Text(RECORDS[1], "Neon.")], LONG)  # the thread is free

        begin = time.process_time()
        asyncio.run(align())
        return time.process_time() - begin

    cpu(0.01)
    whole = cpu(LONG)
    assert cpu(0.01) < whole / 2


def test_the_allennlp_archive_of_a_bundle_is_not_run(serve_config: ServeConfig, bundle: Path, tmp_path: Path) -> None:
    """Loading an archive runs code of its author, who may be anybody."""
    config = SegmenterConfig(source="allennlp", allennlp=AllenNLPConfig(str(tmp_path / "srl.tar.gz")))
    save_bundle(tmp_path / "bundle", replace(load_bundle(bundle), segmenter=config))
    generator = GeneratorReplica(replace(serve_config, bundle=str(tmp_path / "bundle")))
    refused, aligned = run(generator.align([Text(RECORDS[0], TEXT), Text(RECORDS[0], TEXT, (TEXT,))], LONG)).answers
    assert isinstance(refused, Failure) and (refused.code, refused.field) == ("text", "facts")
    assert "send the text's facts" in refused.message and str(tmp_path) not in refused.message
    assert not isinstance(aligned, Failure) and aligned.facts == (TEXT,)
