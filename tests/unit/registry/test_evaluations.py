"""Evaluations of versions from reports, and the metric gate of promotion."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import fingerprint, load_bundle
from agggen.errors import ConfigError
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.registry.evaluations import Evaluation, Gate, read_evaluation
from agggen_platform.registry.store import Version
from agggen_platform.storage.errors import StorageError
from tests.unit.registry.examples import SIGNATURE, write_report


def read(bundle: Path, folder: Path, **settings: Any) -> Evaluation:
    loaded = load_bundle(bundle)
    loaded = replace(loaded, inference=replace(loaded.inference, **settings))
    return read_evaluation(folder, fingerprint(bundle), loaded, "sqlite:///runs/mlflow.db")


def test_a_report_is_read_as_an_evaluation(trained: list[Path], tmp_path: Path) -> None:
    result = read(trained[0], write_report(tmp_path / "report", trained[0], 61.5))
    assert (result.corpus, result.split, result.protocol) == ("toy", "dev", "plain")
    assert (result.records, result.count) == ("0f0f", 12)
    assert result.scores == {"plain/bleu": (61.5, SIGNATURE), "plain/ter": (40.0, f"ter|{SIGNATURE}")}
    assert Evaluation.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("evaluated", "used", "settings", "message"),
    [
        (1, {}, {}, "is of another bundle"),
        (0, {"inference_ablation": "no-aggregation"}, {}, "ablation was no-aggregation, the bundle has none"),
        (0, {"inference_seed": 7}, {}, None),  # exact planning ignores the seed
        (0, {"inference_planner": "sample", "inference_seed": 7}, {"planner": "sample", "seed": 7}, None),
        (0, {"inference_planner": "sample", "inference_seed": 7}, {"planner": "sample", "seed": 8}, "seed was 7"),
    ],
)
def test_a_report_must_be_about_the_bundle_and_its_settings(
    trained: list[Path], tmp_path: Path, evaluated: int, used: Any, settings: Any, message: str | None
) -> None:
    folder = write_report(tmp_path / "report", trained[evaluated], **used)
    with pytest.raises(ConfigError, match=message) if message else nullcontext():
        read(trained[0], folder, **settings)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"identity": 3, "run": {}, "scores": {}}'])
def test_a_missing_or_invalid_report_is_refused(trained: list[Path], tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "report.json").write_text(content)
    with pytest.raises(ConfigError, match=r"(no|not a) report of `agggen evaluate`"):
        read(trained[0], tmp_path)


def test_s3_refuses_the_files_of_a_run(store: Path, trained: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", "http://127.0.0.1:9")
    uri = f"sqlite:///{store}"
    client = mlflow_client(uri)
    run = client.create_run(client.create_experiment("in-s3", artifact_location="s3://bucket/runs"))
    with pytest.raises(StorageError, match="cannot be read: Could not connect"):
        read_evaluation(f"runs:/{run.info.run_id}", "", load_bundle(trained[0]), uri)


ONE = Evaluation("toy", "dev", "0f", 12, False, "plain", "2026-01-01", {"plain/bleu": (50.0, "b")})


def version(number: int, *evaluations: Evaluation) -> Version:
    tags = {evaluation.key: evaluation.to_json() for evaluation in evaluations}
    return Version("agggen", str(number), "s3://x/y", tags, 0.0)


def scored(value: float, metric: str = "plain/bleu", signature: str = "b", **changes: Any) -> Evaluation:
    return replace(ONE, scores={metric: (value, signature)}, **changes)


@pytest.mark.parametrize(
    ("metric", "tolerance", "value", "passed"),
    [
        ("plain/bleu", 0.0, 50.0, True),
        ("plain/bleu", 0.0, 49.999, False),
        ("plain/bleu", 0.5, 49.5, True),
        ("plain/bleu", 0.5, 49.4, False),
        ("plain/ter", 0.0, 50.1, False),
        ("plain/ter", 0.0, 49.0, True),
        ("plain/ter", 1.0, 51.0, True),
        ("faithfulness/values_whole", 0.0, 49.0, False),
        ("faithfulness/values_lenient", 0.0, 49.0, False),
        ("faithfulness/texts_without_faults", 0.0, 49.0, False),
        ("faithfulness/invented", 0.0, 49.0, True),
        ("faithfulness/invented", 0.0, 51.0, False),
    ],
)
def test_a_candidate_must_not_be_worse(metric: str, tolerance: float, value: float, passed: bool) -> None:
    candidate, champion = (  # chrF, which is not a gate metric, is worse
        replace(ONE, scores={metric: (score, f"m|said:literal {score:g}"), "plain/chrf": (chrf, "c")})
        for score, chrf in ((value, 1.0), (50.0, 99.0))
    )
    verdict = Gate(metric, tolerance).judge(version(2, candidate), version(1, champion))
    assert verdict.passed is passed
    assert "of version 1 on toy dev (12 records, protocol plain)" in verdict.note
    assert ("worse by" in verdict.note) is not passed


def test_different_evaluations_are_not_compared() -> None:
    differences = [{"corpus": "tay"}, {"split": "test"}, {"records": "0e"}, {"protocol": "e2e"}, {"signature": "other"}]
    for changes in (*differences, {"metric": "plain/ter"}):
        verdict = Gate().judge(version(2, scored(99.0, **changes)), version(1, ONE))
        assert not verdict.passed and "no common evaluation of plain/bleu" in verdict.note, changes


def test_the_commands_for_missing_evaluations_are_named() -> None:
    note = Gate().judge(version(2), version(1, ONE)).note
    assert "it is missing for version 2." in note
    assert "agggen evaluate models:/agggen/2 --corpus toy --split dev --protocol plain -o DIR-2" in note
    assert "agggen models record agggen/2 DIR-2" in note
    assert "agggen models record agggen/1 DIR-1" in Gate().judge(version(2, ONE), version(1)).note
    part = Gate().judge(version(2), version(1, replace(ONE, partial=True))).note
    assert "--corpus toy --split dev --protocol plain --limit 12 -o DIR-2" in part
    both = Gate().judge(version(2), version(1)).note
    assert "it is missing for version 2 and version 1." in both and "models:/agggen/1 --corpus CORPUS -o" in both


def test_the_candidate_must_pass_all_shared_evaluations() -> None:
    champion = version(1, ONE, scored(50.0, split="test"))
    for on_test, passed in ((49.0, False), (50.0, True)):
        candidate = version(2, scored(60.0), scored(on_test, split="test"))
        assert Gate().judge(candidate, champion).passed is passed


@pytest.mark.parametrize(
    ("metric", "tolerance", "message"),
    [
        *((metric, 0.0, "is not a metric for the gate") for metric in ("bleu", "plain/blue", "plans/groups", "")),
        ("plain/bleu", -0.1, "tolerance"),
        ("plain/bleu", float("nan"), "tolerance"),
    ],
)
def test_an_invalid_gate_is_refused(metric: str, tolerance: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Gate(metric, tolerance)
