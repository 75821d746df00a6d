"""Small files that would cause deep recursion or large allocations are refused with an error that names them."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from agggen.bundle import load_bundle
from agggen.config import load_config
from agggen.errors import BundleError, ConfigError
from agggen_platform.serving.config import ServeConfig
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.folder import Folder
from tests.unit.registry.examples import fix_manifest, save_model

DEEP = "[" * 200_000
HEADROOM = 2 << 30  # bytes


@pytest.fixture
def memory_limit() -> Iterator[None]:
    """Limits this process to its present memory plus `HEADROOM`; larger allocations raise MemoryError."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", ["manifest.json", "bundle.json", "vocabulary.json", "predicates.json"])
def test_deep_json_in_a_bundle_is_refused(tmp_path: Path, name: str) -> None:
    bundle = save_model(tmp_path / "bundle", 1)
    (bundle / name).write_text(DEEP)
    if name != "manifest.json":
        fix_manifest(bundle, name)
    with pytest.raises(BundleError, match=rf"{name} is nested too deeply"):
        load_bundle(bundle)


def test_deep_json_in_the_manifest_of_a_stored_bundle_is_refused(
    tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    address = put_bundle(save_model(tmp_path / "bundle", 1), f"{s3}/bundle")
    Folder(address).write("manifest.json", DEEP.encode())
    with pytest.raises(BundleError, match=r"manifest\.json is nested too deeply"):
        get_bundle(address)


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 20_000, "- " * 20_000], ids=["lists", "mappings", "lines"])
def test_deep_yaml_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_config(ServeConfig, tmp_path / "x.yaml")


SIZES = {"width": 200_000, "layers": 10**7, "feed_forward": 10**10, "predicate_dim": 10**9, "max_group_size": 10**9}


@pytest.mark.parametrize(("name", "size"), SIZES.items())
@pytest.mark.usefixtures("memory_limit")
def test_sizes_that_do_not_fit_the_weights_are_refused(tmp_path: Path, name: str, size: int) -> None:
    bundle = save_model(tmp_path / "bundle", 1)
    description = json.loads((bundle / "bundle.json").read_text())
    description["model"][name] = size
    (bundle / "bundle.json").write_text(json.dumps(description))
    fix_manifest(bundle, "bundle.json")
    with pytest.raises(BundleError, match="does not fit the bundle's configuration: it has"):
        load_bundle(bundle)


@pytest.mark.parametrize("length", [1 << 62, 99_999_999, 0])
@pytest.mark.usefixtures("memory_limit")
def test_weights_whose_header_is_longer_than_the_file_are_refused(tmp_path: Path, length: int) -> None:
    bundle = save_model(tmp_path / "bundle", 1)
    (bundle / "weights.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}")
    fix_manifest(bundle, "weights.safetensors")
    with pytest.raises(BundleError, match=r"weights\.safetensors cannot be read"):
        load_bundle(bundle)
