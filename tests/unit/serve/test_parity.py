"""For the same record and settings, library, command, bulk and evaluation return the same plans and texts.

`test_replicas.py` compares the endpoint with the library, with the same settings.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import load_bundle, save_bundle
from agggen.corpora.elements import elements_records
from agggen.evaluation.held_out import generate_outputs
from agggen.generation.generator import Generation, Generator, InferenceConfig
from agggen_platform.bulk.model import BulkConfig
from agggen_platform.bulk.rows import RowWriter
from agggen_platform.sharded.shards import Shard
from tests.command import Run

RECORDS = sorted((r for r in elements_records("dev") if len(r.triples) > 1), key=lambda r: len(r.triples))[:3]
SETTINGS: dict[str, dict[str, Any]] = {
    "level": {"level": 1},
    "reward": {"level": 2, "group_reward": 0.5},
    "two-stage": {"planner": "two-stage"},
    "sample": {"planner": "sample", "plans": 3, "top_p": 0.8, "seed": 4},
    "random order": {"ablation": "random-order", "seed": 4},
}


@pytest.fixture(scope="module", params=SETTINGS)
def tuned(request: pytest.FixtureRequest, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "bundle"
    loaded = load_bundle(bundle)
    save_bundle(path, replace(loaded, inference=replace(loaded.inference, **SETTINGS[request.param])))
    return path


@pytest.fixture(scope="module")
def generator(tuned: Path) -> Generator:
    return load_bundle(tuned).generator()


@pytest.fixture(scope="module")
def texts(generator: Generator) -> list[Generation]:
    return [best for best, *_ in generator.generate(RECORDS)]


def plans_of(answers: list[dict[str, Any]]) -> list[list[tuple[str, float]]]:
    return [[(plan["plan"], plan["log_probability"]) for plan in answer["plans"]] for answer in answers]


def test_the_command_plans_and_writes_as_the_library(
    run: Run, tuned: Path, generator: Generator, texts: list[Generation]
) -> None:
    Path("in.jsonl").write_text("\n".join(json.dumps(record.as_dict()) for record in RECORDS))
    outputs = [run(name, tuned, "-i", "in.jsonl")[1] for name in ("plan", "generate")]
    planned, written = ([json.loads(line) for line in output.splitlines()] for output in outputs)
    library = generator.planner.plan(RECORDS, 5)
    assert plans_of(planned) == [[(str(best.plan), best.log_probability) for best in plans] for plans in library]
    assert [answer["search"] for answer in planned] == [plans[0].search for plans in library]
    assert written == [text.as_dict() for text in texts]


def test_bulk_writes_as_the_library(tuned: Path, generator: Generator, texts: list[Generation]) -> None:
    shard = Shard(0, "in", "in.parquet", "texts/0.parquet", (0,), 0, 0, len(RECORDS), "in/in.parquet")
    writer = RowWriter(generator, "fingerprint", BulkConfig(inference=generator.config), shard)
    rows = [{"id": r.id, "triples": [asdict(triple) for triple in r.triples]} for r in RECORDS]
    answers = writer.texts(rows, 0)
    expected = [(text.text, str(text.plan), text.plan_search) for text in texts]
    assert [(a["text"], a["plan"], a["plan_search"]) for a in answers] == expected


def test_an_evaluation_plans_and_writes_with_the_same_settings(generator: Generator, bundle: Path) -> None:
    """With the bundle's settings and with overrides."""
    plain = load_bundle(bundle).generator()
    for writer, config in ((generator, None), (plain, generator.config)):
        written = generate_outputs(writer, RECORDS, config)
        assert written.most_likely_plans == [plans[0].plan for plans in generator.planner.plan(RECORDS, 1)]


def test_sampled_plans_differ_by_seed_and_are_repeatable(library: Generator) -> None:
    planner = library.planner
    drawn = [planner.plan(RECORDS, 4, InferenceConfig(planner="sample", seed=seed, top_p=1.0)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    for plans in drawn[0]:
        assert len({planned.plan for planned in plans}) == len(plans)
