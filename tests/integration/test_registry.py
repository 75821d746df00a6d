"""The registry with bundles in an object store and with evaluation reports."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.bundle import fingerprint, save_bundle
from agggen_platform.registry import PromotionRefused, Registry, promote, record, register, resolve, rollback
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.folder import Folder
from tests.command import Run
from tests.unit.registry.conftest import empty_store, store  # noqa: F401 (fixtures)
from tests.unit.registry.examples import save_model, small_model, write_report

pytestmark = pytest.mark.usefixtures("store")


def test_registration_promotion_and_rollback_of_bundles_in_an_object_store(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    first, second = save_model(tmp_path / "a" / "bundle", 1), save_model(tmp_path / "b" / "bundle", 2)
    assert run("models", "register", first, "--to", f"{s3}/models")[0] == 0
    assert resolve("models:/agggen/1") == f"{s3}/models/{fingerprint(first)[:16]}/bundle"
    register(put_bundle(second, f"{s3}/runs/toy-2/bundle"))
    record("agggen/2", write_report(tmp_path / "r", second))
    version = Registry().versions("agggen")[1]
    assert (version.number, version.source, version.tags["bundle.run"]) == ("2", f"{s3}/runs/toy-2/bundle", "toy-2")
    promote("agggen", "2")
    assert get_bundle("models:/agggen@champion").is_relative_to(tmp_path / "cache")
    assert fingerprint(second) in run("inspect", "models:/agggen@champion")[1]
    promote("agggen", "1", force=True)
    assert rollback("agggen").version.number == "2"


def test_promotion_checks_the_stored_bundle_and_not_a_cached_copy(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    register(put_bundle(save_model(tmp_path / "a" / "bundle", 1), f"{s3}/a"))
    folder = Folder(f"{s3}/a")
    weights = folder.read("weights.safetensors")
    assert weights is not None
    folder.write("weights.safetensors", weights[:-1] + bytes([weights[-1] ^ 1]))
    with pytest.raises(PromotionRefused, match=r"weights\.safetensors differs from the manifest"):
        promote("agggen", "1")
    folder.write("weights.safetensors", weights)
    folder.write("weights.pkl", b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(PromotionRefused, match=r"weights\.pkl is not part of a bundle"):
        promote("agggen", "1")
    folder.delete("weights.pkl")
    assert promote("agggen", "1").version.number == "1"


@pytest.mark.slow
def test_the_report_of_evaluate_decides_about_promotion(tmp_path: Path, run: Run) -> None:
    for number in (1, 2):
        model = small_model(number)
        unchecked = replace(model, inference=replace(model.inference, verify="off"))  # else only plain clauses
        save_bundle(tmp_path / f"toy-{number}" / "bundle", unchecked)
        register(str(tmp_path / f"toy-{number}" / "bundle"))
    promote("agggen", "1")
    scores = {}
    for address, out in (("models:/agggen@champion", "one"), ("models:/agggen/2", "two")):
        assert run("evaluate", address, "--corpus", "elements", "--limit", "6", "-o", out)[0] == 0
        assert run("models", "record", address, out)[0] == 0
        report = json.loads((tmp_path / out / "report.json").read_text())
        assert report["run"]["bundle"] == address
        measures = report["scores"]["plain"]["measures"]
        scores[out] = next(measure["value"] for measure in measures if measure["name"] == "chrf")
    assert scores["one"] != scores["two"]
    code, _, err = run("models", "promote", "agggen/2", "--metric", "plain/chrf")
    assert code == (0 if scores["two"] > scores["one"] else 9), err
    assert "elements dev (6 records, protocol plain)" in err
