"""Evaluations of versions from reports, the metric gate, promotion after checks, and rollback."""

import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agggen.bundle import fingerprint, load_bundle
from agggen.errors import ConfigError
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.registry import Gate, PromotionRefused, Registry, promote, record, register, rollback
from agggen_platform.registry.address import RegistryError
from agggen_platform.registry.evaluations import Evaluation, read_evaluation
from agggen_platform.registry.registration import earlier_versions
from agggen_platform.registry.store import Move, Version, registry_uri
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import Tracker
from tests.unit.registry.examples import SIGNATURE, write_report

pytestmark = pytest.mark.usefixtures("store")


def champion() -> str | None:
    return Registry().aliases("agggen").get("champion")


def damage(bundle: Path) -> bytes:
    """Changes a byte of the weights; returns the original content."""
    content = (bundle / "weights.safetensors").read_bytes()
    (bundle / "weights.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return content


def test_a_worse_version_is_refused_and_force_skips_only_the_gate(three: list[Path]) -> None:
    promote("agggen", "2")
    with pytest.raises(PromotionRefused, match=r"metric gate: plain/bleu 50\.00 against 51\.00 .*worse by"):
        promote("agggen", "1")
    assert champion() == "2"
    assert promote("agggen", "1", force=True).forced
    move = Registry().moves("agggen", "champion")[-1]
    assert (move.from_version, move.to_version, move.forced) == ("2", "1", True)
    assert "worse by 1.00" in move.gate
    damage(three[2])
    with pytest.raises(PromotionRefused) as raised:
        promote("agggen", "3", force=True)
    assert len(raised.value.failures) == 1
    assert raised.value.failures[0].startswith("bundle: ")
    assert champion() == "1"
    assert not promote("agggen", "2", force=True).forced, "the gate passes without force"
    assert promote("agggen", "1", gate=Gate(tolerance=1.0)).version.number == "1"


def test_every_failure_is_named(three: list[Path], tmp_path: Path) -> None:
    promote("agggen", "2")
    damage(three[0])
    with pytest.raises(PromotionRefused) as raised:
        promote("agggen", "1")
    assert [failure.split(":")[0] for failure in raised.value.failures] == ["bundle", "metric gate"]
    shutil.rmtree(three[0])
    with pytest.raises(PromotionRefused, match="bundle: no bundle at"):
        promote("agggen", "1")
    Registry().add_version("agggen", str(three[2]), {})
    with pytest.raises(PromotionRefused, match="agggen/4 was not registered by agggen"):
        promote("agggen", "4")
    assert champion() == "2"


def test_the_gate_reads_evaluations_from_mlflow_and_the_store(trained: list[Path], tmp_path: Path, s3: str) -> None:
    folder = Folder(f"{s3}/reports/one")
    for file in write_report(tmp_path / "one", trained[0], 50.0).iterdir():
        folder.upload(file.name, file)
    register(str(trained[0]))
    record("agggen/1", folder.address)
    promote("agggen", "1")
    register(str(trained[1]))
    with Tracker(registry_uri(), run_name="evaluate-toy", runs_dir=tmp_path / "runs") as tracker:
        tracker.log_artifact(write_report(tmp_path / "two", trained[1], 40.0) / "report.json")
    record("agggen/2", f"runs:/{tracker.run_id}")
    with pytest.raises(PromotionRefused, match=r"plain/bleu 40\.00 against 50\.00 of version 1"):
        promote("agggen", "2")


def test_rollback_moves_the_alias_one_version_back_and_needs_its_bundle(three: list[Path]) -> None:
    for number in "1233":
        promoted = promote("agggen", number)
    assert promoted.note == "it is champion already"
    done = rollback("agggen")
    assert done.previous
    assert (done.version.number, done.previous.number, champion()) == ("2", "3", "2")
    content = damage(three[0])
    with pytest.raises(PromotionRefused, match=r"weights\.safetensors .*agggen models promote agggen/VERSION"):
        rollback("agggen")
    assert champion() == "2"
    (three[0] / "weights.safetensors").write_bytes(content)
    assert rollback("agggen").version.number == "1"
    with pytest.raises(RegistryError, match="no version of 'agggen' was champion before"):
        rollback("agggen")
    assert champion() == "1"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], []),
        ([(None, "1")], []),
        ([(None, "1"), ("1", "2"), ("2", "3")], ["1", "2"]),
        ([(None, "1"), ("1", "2"), ("2", "1", True)], []),
        ([(None, "1"), ("1", "2"), ("2", "3"), ("3", "2", True), ("2", "1", True)], []),
        ([(None, "1"), ("1", "2"), ("2", "1"), ("1", "3")], ["1", "2", "1"]),
        ([("7", "2", True), ("2", "3")], ["2"]),
    ],
)
def test_the_earlier_versions_of_an_alias(steps: list[tuple[Any, ...]], expected: list[str]) -> None:
    assert earlier_versions([Move("", *step) for step in steps]) == expected


def test_the_history_of_an_alias_fits_into_a_database_column(three: list[Path]) -> None:
    registry = Registry()
    registry.set_alias("agggen", "champion", "1")
    moves = [Move("2026-01-01T00:00:00Z", "12"[n % 2], "21"[n % 2], gate="ä " * 900) for n in range(30)]
    for move in moves:
        registry.move("agggen", "champion", move)
    model = mlflow_client(registry.uri, registry.uri).get_registered_model("agggen")
    assert len(model.tags["moves.champion"]) <= 5000
    history = registry.moves("agggen", "champion")
    assert 4 < len(history) < 30
    assert [(move.from_version, move.to_version) for move in history[-2:]] == [("1", "2"), ("2", "1")]
    assert rollback("agggen").version.number == "2"


def test_rollback_ignores_a_recorded_move_that_did_not_happen(three: list[Path]) -> None:
    promote("agggen", "1")
    promote("agggen", "2")
    with patch.object(Registry, "set_alias", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        promote("agggen", "3")
    assert champion() == "2"
    assert rollback("agggen").version.number == "1"


def test_an_alias_that_is_moved_during_the_checks_is_an_error(three: list[Path]) -> None:
    promote("agggen", "1")
    moved = patch(
        "agggen_platform.registry.registration.smoke_test",
        lambda *_: Registry().set_alias("agggen", "champion", "3") or [],
    )
    with moved, pytest.raises(RegistryError, match="agggen@champion is version 3, where version 1 was expected"):
        promote("agggen", "2")
    assert champion() == "3"


# --- evaluations and the metric gate ---------------------------------------------------------------------------------


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
