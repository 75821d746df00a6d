"""The registry among other parts: bundles in an object store, evaluations that ran, and two that promote at once."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen_platform.cli.main import main
from agggen_platform.registry import PromotionRefused, Registry, promote, register, resolve, rollback
from agggen_platform.registry.client import registry_uri
from agggen_platform.registry.promotion import earlier_versions
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.folder import Folder
from tests.processes import Running
from tests.unit.registry.examples import empty_registry, save_model, write_report

REPO = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry of this test's own where everything looks for one."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    return Path(shutil.copy(empty_registry(tmp_path_factory.getbasetemp()), tmp_path / "runs" / "mlflow.db"))


def agggen(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(str(ended.value.code))


# --- an object store ---


@pytest.mark.usefixtures("store")
def test_a_bundle_of_an_object_store_from_registration_to_rollback(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    first, second = save_model(tmp_path / "a" / "bundle", 1), save_model(tmp_path / "b" / "bundle", 2)
    assert agggen("models", "register", first, "--to", f"{s3}/models") == 0
    assert resolve("models:/agggen/1") == f"{s3}/models/{fingerprint(first)[:16]}/bundle"
    register(put_bundle(second, f"{s3}/runs/toy-2/bundle"), evaluations=[write_report(tmp_path / "r", second)])
    version = Registry().versions("agggen")[1]
    assert (version.number, version.source, version.tags["bundle.run"]) == ("2", f"{s3}/runs/toy-2/bundle", "toy-2")
    promote("agggen", "2")
    assert get_bundle("models:/agggen@champion").is_relative_to(tmp_path / "cache")
    capsys.readouterr()
    assert agggen("inspect", "models:/agggen@champion") == 0
    assert fingerprint(second) in capsys.readouterr().out
    promote("agggen", "1", force=True)
    assert rollback("agggen").version.number == "2"


@pytest.mark.usefixtures("store")
def test_what_lies_in_the_store_counts_and_not_the_copy_of_an_earlier_day(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    register(put_bundle(save_model(tmp_path / "a" / "bundle", 1), f"{s3}/a"))
    folder = Folder(f"{s3}/a")
    whole = folder.read("weights.safetensors")
    assert whole is not None
    folder.write("weights.safetensors", whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(PromotionRefused, match=r"weights\.safetensors is not what its manifest says"):
        promote("agggen", "1")
    folder.write("weights.safetensors", whole)
    folder.write("weights.pkl", b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(PromotionRefused, match=r"weights\.pkl is no part of a bundle"):
        promote("agggen", "1")
    folder.delete("weights.pkl")
    assert promote("agggen", "1").version.number == "1"


# --- evaluations ---


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_what_evaluate_writes_decides_about_promotion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        register(str(save_model(tmp_path / f"toy-{number}" / "bundle", number)))
    promote("agggen", "1")
    scores = {}
    for address, out in (("models:/agggen@champion", "one"), ("models:/agggen/2", "two")):
        assert agggen("evaluate", address, "--corpus", "elements", "--limit", "6", "-o", out) == 0
        assert agggen("models", "record", address, out) == 0
        report = json.loads((tmp_path / out / "report.json").read_text())
        assert report["run"]["bundle"] == address
        measures = report["scores"]["plain"]["measures"]
        scores[out] = next(measure["value"] for measure in measures if measure["name"] == "chrf")
    assert scores["one"] != scores["two"]
    capsys.readouterr()
    code = agggen("models", "promote", "agggen/2", "--metric", "plain/chrf")
    assert code == (0 if scores["two"] > scores["one"] else 9), capsys.readouterr().err
    assert "elements dev (6 records, protocol plain)" in capsys.readouterr().err


# --- two at once ---

PROMOTE = """
import sys, time
from pathlib import Path
from agggen.errors import AggGenError
from agggen_platform.registry import promote
Path(f"ready-{sys.argv[1]}").touch()
while not Path("go").exists():
    time.sleep(0.005)
try:
    print("DONE", promote("agggen", sys.argv[1], force=True).before.number)
except AggGenError as error:
    print("REFUSED", error.exit_code, error)
"""


@pytest.mark.fault("registry: two promotions at once")
@pytest.mark.slow
def test_of_two_promotions_at_once_none_is_lost(store: Path, tmp_path: Path) -> None:
    """Each succeeds from what it was checked against, or says that somebody else was faster: a chain, never a fork."""
    for number in (1, 2, 3):
        register(str(save_model(tmp_path / f"toy-{number}" / "bundle", number)))
    promote("agggen", "1")
    env = {"PYTHONPATH": f"{REPO}:{REPO / 'platform'}", "OMP_NUM_THREADS": "1"}
    with ExitStack() as held:
        both = {number: held.enter_context(Running(["-c", PROMOTE, number], tmp_path, env)) for number in ("2", "3")}
        for number, process in both.items():
            process.wait_until((tmp_path / f"ready-{number}").exists, "its start")
        (tmp_path / "go").touch()
        said = {number: (process.finish(), process.output())[1] for number, process in both.items()}
    done = {number: text.split()[1] for number, text in said.items() if text.startswith("DONE")}
    for number in set(both) - set(done):
        assert said[number].startswith("REFUSED 8"), said[number]
        assert "somebody else has moved it" in said[number]
    registry = Registry(registry_uri())
    champion = registry.aliases("agggen")["champion"]
    chain = [*earlier_versions(registry.moves("agggen", "champion")), champion]
    assert len(done) >= 1, said
    assert chain[0] == "1"
    assert sorted(chain[1:]) == sorted(done)
    assert all(done[number] == before for before, number in pairwise(chain))
    leftover = registry._client.get_registered_model("agggen").tags
    assert not [tag for tag in leftover if tag.startswith("moving.")]
