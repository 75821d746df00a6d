"""For the same record and settings, library, commands, endpoint, bulk and evaluation return the same plans and texts.

`test_replicas.py` compares the replicas with the library, with the same settings.
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
from tests.processes import free_ports
from tests.unit.cli_write.examples import parsed

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
def tuned_generator(tuned: Path) -> Generator:
    return load_bundle(tuned).generator()


@pytest.fixture(scope="module")
def texts(tuned_generator: Generator) -> list[Generation]:
    return [best for best, *_ in tuned_generator.generate(RECORDS)]


def test_the_command_plans_and_writes_as_the_library(
    run: Run, tuned: Path, tuned_generator: Generator, texts: list[Generation]
) -> None:
    Path("in.jsonl").write_text("\n".join(json.dumps(record.as_dict()) for record in RECORDS))
    planned, written = (parsed(run(name, tuned, "-i", "in.jsonl")[1]) for name in ("plan", "generate"))
    for answer, plans in zip(planned, tuned_generator.planner.plan(RECORDS, 5), strict=True):
        expected = [(str(best.plan), best.log_probability) for best in plans]
        assert [(plan["plan"], plan["log_probability"]) for plan in answer["plans"]] == expected
        assert answer["search"] == plans[0].search
    assert written == [text.as_dict() for text in texts]


def test_bulk_writes_as_the_library(tuned: Path, tuned_generator: Generator, texts: list[Generation]) -> None:
    shard = Shard(0, "in", "in.parquet", "texts/0.parquet", (0,), 0, 0, len(RECORDS), "in/in.parquet")
    writer = RowWriter(tuned_generator, "fingerprint", BulkConfig(inference=tuned_generator.config), shard)
    rows = [{"id": r.id, "triples": [asdict(triple) for triple in r.triples]} for r in RECORDS]
    answers = writer.texts(rows, 0)
    expected = [(text.text, str(text.plan), text.plan_search) for text in texts]
    assert [(a["text"], a["plan"], a["plan_search"]) for a in answers] == expected


def test_an_evaluation_plans_and_writes_with_the_same_settings(tuned_generator: Generator, bundle: Path) -> None:
    """With the bundle's settings and with overrides."""
    plain = load_bundle(bundle).generator()
    for writer, config in ((tuned_generator, None), (plain, tuned_generator.config)):
        written = generate_outputs(writer, RECORDS, config)
        assert written.most_likely_plans == [plans[0].plan for plans in tuned_generator.planner.plan(RECORDS, 1)]


def test_sampled_plans_differ_by_seed_and_are_repeatable(library: Generator) -> None:
    planner = library.planner
    drawn = [planner.plan(RECORDS, 4, InferenceConfig(planner="sample", seed=seed, top_p=1.0)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    for plans in drawn[0]:
        assert len({planned.plan for planned in plans}) == len(plans)


@pytest.fixture
def source(run: Run) -> str:
    """A file of five records, one with an unknown predicate, an invalid line, and a record with too many triples."""
    first, *records = [record.as_dict() for record in list(elements_records("dev"))[:5]]
    first["triples"].append([first["triples"][0][0], "crystalStructure", "diamond cubic"])
    lines = [json.dumps(record) for record in (first, *records)]
    lines.insert(2, "{no json")
    lines.insert(4, json.dumps({"id": "long", "triples": [["s", f"p{i}", "o"] for i in range(99)]}))
    Path("records.jsonl").write_text("\n".join(lines))
    return "records.jsonl"


def without_numbers(line: dict[str, Any]) -> dict[str, Any]:
    """A line without log-probabilities, whose rounding depends on the batch."""
    return {name: value for name, value in line.items() if not isinstance(value, float)}


def test_ask_writes_what_generate_writes(run: Run, endpoint: str, source: str, bundle: Path) -> None:
    options = ("-i", source, "--n-best", 2)
    # No text of an untrained model passes the check.
    code, out, err = run("ask", endpoint, *options, "-o", "asked.jsonl", "--verify", "off")
    assert (code, out, "2 of 7 records rejected" in err) == (0, "", True)
    rejects = parsed(Path("asked.jsonl.rejects.jsonl").read_text())
    assert [(reject["line"], reject["id"]) for reject in rejects] == [(3, None), (None, "long")]
    assert "99 triples" in rejects[1]["reason"]
    assert run("generate", bundle, "verify=off", *options, "-o", "generated.jsonl")[0] == 0
    asked, generated = (parsed(Path(name).read_text()) for name in ("asked.jsonl", "generated.jsonl"))
    assert len(asked) == 10 and asked[0]["unknown_predicates"] == ["crystalStructure"]
    assert list(map(without_numbers, asked)) == list(map(without_numbers, generated))
    assert [line["score"] for line in asked] == pytest.approx([line["score"] for line in generated], abs=1e-3)


def test_one_plan_applies_to_all_records(run: Run, endpoint: str) -> None:
    Path("one.jsonl").write_text(json.dumps({"triples": [["Aromi", "food", "English"], ["Aromi", "area", "centre"]]}))
    code, out, _ = run("ask", endpoint, "-i", "one.jsonl", "--plan", "[area] [food]")
    assert (code, json.loads(out)["plan"]) == (0, "[area] [food]")
    code, _, err = run("ask", endpoint, "-i", "one.jsonl", "--plan", "[area]")
    assert (code, "food" in err) == (2, True)


def test_an_unreachable_endpoint_leaves_no_output(run: Run, source: str) -> None:
    address = f"http://127.0.0.1:{free_ports(1)[0]}"
    code, _, err = run("ask", address, "-i", source, "-o", "texts.jsonl", "--deadline", "0.3")
    assert (code, "refused" in err, Path("texts.jsonl").exists()) == (10, True, False)


@pytest.mark.parametrize("options", ["--complete", "--plan [a] --level 1", "--verify retry", "nowhere"])
def test_conflicting_and_invalid_options_are_refused(run: Run, source: str, options: str) -> None:
    address = [] if options == "nowhere" else ["http://127.0.0.1:1"]
    assert run("ask", *address, *options.split(), "-i", source)[0] == 2
