"""Reports as evaluations of versions, and the metric gate."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import fingerprint, load_bundle
from agggen.errors import ConfigError
from agggen.generation.config import InferenceConfig
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.registry.evaluations import Evaluation, Gate, read_evaluation
from agggen_platform.registry.store import Version
from agggen_platform.storage.errors import StorageError
from tests.unit.registry.examples import SIGNATURE, write_report


def read(bundle: Path, folder: Path) -> Evaluation:
    return read_evaluation(folder, fingerprint(bundle), load_bundle(bundle).inference, "sqlite:///runs/mlflow.db")


# --- reading ---


def test_a_report_is_read_as_an_evaluation(trained: list[Path], tmp_path: Path) -> None:
    result = read(trained[0], write_report(tmp_path / "report", trained[0], 61.5))
    assert (result.corpus, result.split, result.protocol) == ("toy", "dev", "plain")
    assert (result.records, result.count) == ("0f0f", 12)
    assert result.scores == {"plain/bleu": (61.5, SIGNATURE), "plain/ter": (40.0, f"ter|{SIGNATURE}")}
    assert Evaluation.from_json(result.to_json()) == result


def test_a_report_about_another_bundle_is_refused(trained: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is about another bundle"):
        read(trained[0], write_report(tmp_path / "report", trained[1]))


def test_a_report_about_an_ablation_is_refused(trained: list[Path], tmp_path: Path) -> None:
    folder = write_report(tmp_path / "report", trained[0], inference_ablation="no-aggregation")
    with pytest.raises(ConfigError, match="ablation was no-aggregation, the bundle has none"):
        read(trained[0], folder)


def test_the_seed_matters_where_plans_are_random(trained: list[Path], tmp_path: Path) -> None:
    folder = write_report(tmp_path / "exact", trained[0], inference_seed=7)
    inference = load_bundle(trained[0]).inference
    read_evaluation(folder, fingerprint(trained[0]), inference, "")
    sampled = write_report(tmp_path / "sampled", trained[0], inference_planner="sample", inference_seed=7)
    for seed, refused in ((7, False), (8, True)):
        with pytest.raises(ConfigError, match="seed was 7, the bundle has 8") if refused else nullcontext():
            sampling = replace(inference, planner="sample", seed=seed)
            read_evaluation(sampled, fingerprint(trained[0]), sampling, "")


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"identity": 3, "run": {}, "scores": {}}'])
def test_a_missing_or_invalid_report_is_refused(trained: list[Path], tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "report.json").write_text(content)
    with pytest.raises(ConfigError, match=r"(no|not a) report of `agggen evaluate`"):
        read(trained[0], tmp_path)


def test_files_of_a_run_that_s3_refuses_are_an_error_of_the_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", "http://127.0.0.1:9")
    uri = f"sqlite:///{store}"
    client = mlflow_client(uri)
    run = client.create_run(client.create_experiment("in-s3", artifact_location="s3://bucket/runs"))
    with pytest.raises(StorageError, match="cannot be read: Could not connect"):
        read_evaluation(f"runs:/{run.info.run_id}", "", InferenceConfig(), uri)


# --- the gate ---

ONE = Evaluation(
    "toy", "dev", "0f", 12, False, "plain", "2026-01-01", {"plain/bleu": (50.0, "b"), "plain/ter": (40.0, "t")}
)


def version(number: int, *evaluations: Evaluation) -> Version:
    tags = {evaluation.key: evaluation.to_json() for evaluation in evaluations}
    return Version("agggen", str(number), "s3://x/y", tags, 0.0)


def scored(bleu: float = 50.0, ter: float = 40.0, **changes: Any) -> Evaluation:
    return replace(ONE, scores={"plain/bleu": (bleu, "b"), "plain/ter": (ter, "t")}, **changes)


@pytest.mark.parametrize(
    ("gate", "candidate", "passed"),
    [
        (Gate(), scored(50.0), True),
        (Gate(), scored(50.1), True),
        (Gate(), scored(49.999), False),
        (Gate(tolerance=0.5), scored(49.5), True),
        (Gate(tolerance=0.5), scored(49.4), False),
        (Gate("plain/ter"), scored(ter=40.1), False),
        (Gate("plain/ter"), scored(ter=39.0), True),
        (Gate("plain/ter", tolerance=1.0), scored(ter=41.0), True),
        (Gate("plain/ter"), scored(bleu=1.0), True),
    ],
)
def test_a_candidate_must_not_be_worse(gate: Gate, candidate: Evaluation, passed: bool) -> None:
    verdict = gate.judge(version(2, candidate), version(1, ONE))
    assert verdict.passed is passed
    assert "of version 1 on toy dev (12 records, protocol plain)" in verdict.note
    assert ("worse by" in verdict.note) is not passed


@pytest.mark.parametrize(
    ("metric", "value", "passed"),
    [
        ("values_whole", 99.0, True),
        ("values_whole", 97.0, False),
        ("values_lenient", 97.0, False),
        ("texts_without_faults", 97.0, False),
        ("invented", 97.0, True),
        ("invented", 99.0, False),
    ],
)
def test_faithfulness_metrics_have_their_better_direction(metric: str, value: float, passed: bool) -> None:
    name = f"faithfulness/{metric}"
    candidate, champion = (replace(ONE, scores={name: (v, f"m|said:literal {v:g}")}) for v in (value, 98.0))
    assert Gate(name).judge(version(2, candidate), version(1, champion)).passed is passed


@pytest.mark.parametrize(
    "other",
    [
        scored(99.0, corpus="tay"),
        scored(99.0, split="test"),
        scored(99.0, records="0e"),
        scored(99.0, protocol="e2e"),
        replace(ONE, scores={"plain/bleu": (99.0, "another signature")}),
        replace(ONE, scores={"plain/ter": (1.0, "t")}),
    ],
    ids=["corpus", "split", "records", "protocol", "signature", "metric"],
)
def test_different_evaluations_are_not_compared(other: Evaluation) -> None:
    verdict = Gate().judge(version(2, other), version(1, ONE))
    assert not verdict.passed
    assert "no common evaluation of plain/bleu" in verdict.note


def test_the_commands_for_missing_evaluations_are_named() -> None:
    note = Gate().judge(version(2), version(1, ONE)).note
    assert "it is missing for version 2." in note
    assert "agggen evaluate models:/agggen/2 --corpus toy --split dev --protocol plain -o DIR-2" in note
    assert "agggen models record agggen/2 DIR-2" in note
    assert "agggen/1" not in note
    assert "agggen models record agggen/1 DIR-1" in Gate().judge(version(2, ONE), version(1)).note
    part = Gate().judge(version(2), version(1, replace(ONE, partial=True))).note
    assert "--corpus toy --split dev --protocol plain --limit 12 -o DIR-2" in part
    both = Gate().judge(version(2), version(1)).note
    assert "it is missing for version 2 and version 1." in both and "models:/agggen/1 --corpus CORPUS -o" in both


def test_every_shared_evaluation_counts() -> None:
    champion = version(1, ONE, scored(split="test"))
    assert not Gate().judge(version(2, scored(60.0), scored(49.0, split="test")), champion).passed
    assert Gate().judge(version(2, scored(60.0), scored(50.0, split="test")), champion).passed


@pytest.mark.parametrize("metric", ["bleu", "plain/blue", "plans/groups", "", "plain/"])
def test_a_metric_without_a_better_direction_is_refused(metric: str) -> None:
    with pytest.raises(ConfigError, match="is not a metric for the gate"):
        Gate(metric)


@pytest.mark.parametrize("tolerance", [-0.1, float("nan")])
def test_an_invalid_tolerance_is_refused(tolerance: float) -> None:
    with pytest.raises(ConfigError, match="tolerance"):
        Gate(tolerance=tolerance)
