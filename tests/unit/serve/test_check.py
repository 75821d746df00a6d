"""`POST /v1/check` with the critic, as in the library and `agggen check`, and without it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.checks import check
from agggen.generation.generator import Generator
from agggen.records import Record, Triple
from agggen_platform.serving.config import ServeConfig
from serve.api import api
from serve.generator import GeneratorReplica
from serve.handles import HandleEngine
from serve.local import LocalHandle
from serve.planner import PlannerReplica
from tests.command import Run
from tests.unit.serve.http_calls import SILICON, Ask, asking

TEXTS = [
    "Silicon (Si) is a metalloid.",
    "Silicon is not a metalloid; Bob Bob found it in 1824.",
    "Boron is a metalloid.",
]
RECORDS = [SILICON | {"id": str(number), "text": text} for number, text in enumerate(TEXTS)]


def test_library_command_and_endpoint_give_the_same_verdicts(
    ask: Ask, library: Generator, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    assert run("check", tmp_path / "texts.jsonl", "--json", tmp_path / "checks.jsonl")[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "checks.jsonl").read_text().splitlines()]
    triples = tuple(Triple(*triple) for triple in SILICON["triples"])
    checks = check([Record(record["id"], triples) for record in RECORDS], TEXTS, checker=library.checker)
    answers = ask("POST", "/v1/check", json={"records": RECORDS}).json()["answers"]
    for answer, line, checked in zip(answers, lines, checks, strict=True):
        for expected in (line, checked.as_dict()):
            assert answer["scores"] == pytest.approx(expected["scores"], abs=2e-4)
            assert answer["risk"] == pytest.approx(expected["risk"], abs=2e-4)
            assert answer["invented_spans"] == expected["invented"]
            rounded = [row | {"said": pytest.approx(row["said"], abs=2e-4)} for row in expected["triples"]]
            assert answer["triples"] == rounded
    assert min(answer["risk"] for answer in answers[1:]) > answers[0]["risk"] + 0.1


def test_without_a_critic_only_the_strict_check_is_run(
    serve_config: ServeConfig, _planner: PlannerReplica, ask: Ask
) -> None:
    config = replace(serve_config, critic=None)
    generator = GeneratorReplica(config)
    words = asking(api(HandleEngine(LocalHandle(_planner), LocalHandle(generator)), config))
    (own,) = words("POST", "/v1/check", json={"records": RECORDS[:1]}).json()["answers"]
    (both,) = ask("POST", "/v1/check", json={"records": RECORDS[:1]}).json()["answers"]
    assert own == {name: both[name] for name in own}
    assert both.keys() - own.keys() == {"scores", "risk", "triples", "invented_spans"}
