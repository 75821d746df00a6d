"""Promotion after checks, refusals with their reasons, and rollback."""

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.registry import Gate, PromotionRefused, Registry, promote, record, register, rollback
from agggen_platform.registry.address import RegistryError
from agggen_platform.registry.registration import earlier_versions
from agggen_platform.registry.store import Move, registry_uri
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import Tracker
from tests.unit.registry.examples import write_report

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
    with pytest.raises(PromotionRefused, match="bundle: there is no bundle at"):
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

    def move(*_: object) -> list[str]:
        Registry().set_alias("agggen", "champion", "3")
        return []

    expected = pytest.raises(RegistryError, match="agggen@champion is version 3, where version 1 was expected")
    with patch("agggen_platform.registry.registration.smoke_test", move), expected:
        promote("agggen", "2")
    assert champion() == "3"
