"""Registration of bundles as versions with their origin, lookup by address, and admission, which never runs pickles."""

import math
import shutil
import time
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from agggen.bundle import fingerprint, save_bundle
from agggen.config import config_hash
from agggen.errors import BundleError
from agggen_platform.locks import locked
from agggen_platform.registry import Registry, evaluations_of, record, register, resolve
from agggen_platform.registry import store as registry_store
from agggen_platform.registry.address import ModelAddress, RegistryError, is_model_address, parse_address
from agggen_platform.registry.admission import admit, smoke_test
from agggen_platform.storage.bundles import get_bundle
from tests.canary import Canary
from tests.processes import free_ports
from tests.unit.registry.examples import fix_manifest, small_model, write_report

pytestmark = pytest.mark.usefixtures("store")


def test_a_version_has_the_address_and_origin_of_its_bundle(trained: list[Path]) -> None:
    version = register(str(trained[0]), metrics={"test/bleu": 61.5}, tags={"bundle.run": "job-7", "owner": "ann"})
    assert (version.name, version.number, version.source) == ("agggen", "1", str(trained[0]))
    assert version.aliases == ("candidate",)
    assert version.tags == {
        "bundle.fingerprint": fingerprint(trained[0]),
        "bundle.config_hash": config_hash({"training": {"seed": 1}}),
        "bundle.run": "job-7",
        "data.toy/train": "ab12",
        "metric.joint.dev_loss": "2.25",
        "metric.test/bleu": "61.5",
        "owner": "ann",
    }


def test_the_same_bundle_is_the_same_version_unless_it_was_moved(trained: list[Path], tmp_path: Path) -> None:
    first, second, repeated = (register(str(trained[number])) for number in (0, 1, 0))
    numbers = [(version.number, version.new) for version in (first, second, repeated)]
    assert numbers == [("1", True), ("2", True), ("1", False)]
    assert Registry().aliases("agggen") == {"candidate": "2"}
    assert get_bundle("models:/agggen@candidate") == trained[1]
    place = Path(shutil.copytree(trained[2], tmp_path / "old"))
    assert register(str(place)).number == "3"
    assert register(str(shutil.copytree(place, tmp_path / "copy"))).number == "3"
    place.rename(tmp_path / "new")
    moved = register(str(tmp_path / "new"))
    assert (moved.number, moved.source) == ("4", str(tmp_path / "new"))
    assert [version.number for version in Registry().versions("agggen")] == ["1", "2", "3", "4"]


def test_evaluations_are_kept_with_their_version(trained: list[Path], tmp_path: Path) -> None:
    register(str(trained[0]))
    record("agggen/1", write_report(tmp_path / "dev", trained[0], 50.0))
    record("models:/agggen@candidate", write_report(tmp_path / "test", trained[0], 48.0, split="test"))
    record("agggen/1", write_report(tmp_path / "again", trained[0], 51.0))
    evaluations = evaluations_of(Registry().version(parse_address("agggen/1")))
    assert {e.split: e.scores["plain/bleu"][0] for e in evaluations} == {"dev": 51.0, "test": 48.0}


def test_reading_does_not_create_a_registry(store: Path) -> None:
    store.unlink()
    with pytest.raises(RegistryError, match=f"no registry at {store}"):
        resolve("models:/agggen@champion")
    assert not store.exists()
    store.write_text("something else, longer than a header")
    with pytest.raises(RegistryError, match="is not an SQLite database"):
        resolve("models:/agggen@champion")


def test_the_schema_of_a_new_file_is_created_by_one_process_at_a_time(tmp_path: Path) -> None:
    """Regression: the client created the schema before the lock was acquired."""

    def is_locked(*_: str) -> bool:
        with locked(tmp_path / "new.db.lock", wait=False) as acquired:
            return not acquired

    with patch.object(registry_store, "mlflow_client", is_locked):
        assert registry_store.connect(f"sqlite:///{tmp_path / 'new.db'}", create=True) is True


@pytest.mark.parametrize("start", ["http://ann:secret", "postgresql://ann:secret", "postgresql://ann:#secret/?"])
def test_an_unreachable_server_is_an_error_within_seconds(start: str) -> None:
    uri = f"{start}@127.0.0.1:{free_ports(1)[0]}"
    started = time.monotonic()
    with pytest.raises(RegistryError, match="cannot be") as raised:
        resolve("models:/agggen@champion", uri=uri)
    assert time.monotonic() - started < 10
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        *((uri, "is not a registry: use http") for uri in ("ftp://x", "runs/mlflow.db", "mysql://", "mysql://x:y/z")),
        ("sqlite:///", "is not a registry: use sqlite:///FILE"),
        ("http://127.0.0.1:9", "accepts no folder of this machine .* --to s3://"),
    ],
)
def test_an_unusable_registry_is_refused(uri: str, message: str, trained: list[Path]) -> None:
    with pytest.raises(RegistryError, match=message):
        register(str(trained[0]), uri=uri)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("models:/agggen/3", ModelAddress("agggen", version="3")),
        ("agggen/12", ModelAddress("agggen", version="12")),
        ("models:/web.nlg-2@champion", ModelAddress("web.nlg-2", alias="champion")),
        ("agggen@shadow_1", ModelAddress("agggen", alias="shadow_1")),
    ],
)
def test_an_address_names_a_version_or_an_alias(address: str, expected: ModelAddress) -> None:
    assert parse_address(address) == expected
    assert parse_address(str(expected)) == expected
    assert is_model_address(str(expected))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        *((f"agggen{end}", "is not a version of a model") for end in ("", "/latest", "/0", "/1/bundle")),
        *((f"{name}@champion", "a model's name consists of") for name in ("", "a'b")),
        *((f"agggen@{alias}", "an alias is a lower-case word") for alias in ("Champion", "v2", "a" * 64)),
    ],
)
def test_an_invalid_address_is_refused(address: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        parse_address(f"models:/{address}")


# --- admission -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [False, True], ids=["not in the manifest", "in the manifest"])
@pytest.mark.parametrize("name", ["weights.pkl", "data/model.pkl"])
def test_a_pickle_is_refused_and_never_run(trained: list[Path], tmp_path: Path, name: str, listed: bool) -> None:
    own, canary = Path(shutil.copytree(trained[0], tmp_path / "own")), Canary(tmp_path / "canary")
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
