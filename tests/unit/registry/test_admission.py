"""Admission of bundles: complete, unchanged, without additional files; pickles in them are never run."""

import hashlib
import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from agggen.bundle import save_bundle
from agggen.errors import BundleError
from agggen_platform.registry.admission import admit, smoke_test
from tests.canary import Canary
from tests.unit.registry.examples import small_model


@pytest.fixture
def own(trained: list[Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained[0], tmp_path / "own"))


def fix_manifest(bundle: Path, name: str) -> None:
    """Enters the present content of a file into the manifest, as an attacker could."""
    content = (bundle / name).read_bytes()
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    text = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    (bundle / "manifest.json").write_text(text)


@pytest.mark.parametrize("listed", [False, True], ids=["not in the manifest", "in the manifest"])
@pytest.mark.parametrize("name", ["weights.pkl", "data/model.pkl"])
def test_a_pickle_is_refused_and_never_run(own: Path, tmp_path: Path, name: str, listed: bool) -> None:
    canary = Canary(tmp_path / "canary")
    (own / name).parent.mkdir(exist_ok=True)
    (own / name).write_bytes(canary.pickled())
    if listed:
        fix_manifest(own, name)
    with pytest.raises(BundleError, match=name):
        admit(str(own))
    assert not canary.was_loaded


def test_a_model_with_nan_weights_fails_the_smoke_test(tmp_path: Path) -> None:
    broken = small_model(1)
    with torch.no_grad():
        for parameter in broken.model.parameters():
            parameter.fill_(math.nan)
    save_bundle(tmp_path / "bundle", broken)
    element, own = smoke_test(admit(str(tmp_path / "bundle"))[0])
    assert "elements-dev-" in element and "'smoke'" in own
