"""Bundles in a store and in the local cache."""

import shutil
from pathlib import Path

import pytest

from agggen.bundle import CRITIC_FILES, FILES, check_bundle, fingerprint, write_manifest
from agggen.checks import shipped_critic
from agggen.errors import BundleError, ConfigError
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.critics import open_critic
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from tests.processes import Running
from tests.s3_faults import FaultyS3


def write_bundle(path: Path, content: str = "content") -> Path:
    """Writes a bundle with valid hashes and meaningless content; returns its path."""
    path.mkdir(parents=True)
    for name in FILES:
        (path / name).write_bytes(f"{content} of {name}".encode() * 20_000)
    write_manifest(path, FILES)
    return path


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "bundle")


@pytest.fixture(params=["local", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An unused address in a local folder or on S3."""
    return f"{tmp_path if request.param == 'local' else request.getfixturevalue('s3')}/a/folder name"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bundles"


def test_a_stored_bundle_is_fetched_unchanged(bundle: Path, address: str) -> None:
    assert put_bundle(bundle, address + "/") == address
    assert Folder(address).names() == sorted([*FILES, "manifest.json"])
    fetched = get_bundle(address)
    check_bundle(fetched)
    assert fingerprint(fetched) == fingerprint(bundle)
    assert fetched != bundle
    assert get_bundle(address) == fetched
    assert get_bundle(str(bundle)) == bundle


def test_a_stored_critic_is_opened(tmp_path: Path, address: str) -> None:
    shipped_critic().save(tmp_path / "critic")
    write_manifest(tmp_path / "critic", CRITIC_FILES)
    put_bundle(tmp_path / "critic", address)
    assert Folder(address).names() == sorted([*CRITIC_FILES, "manifest.json"])
    assert open_critic(address)[1] == open_critic("included")[1]


def test_a_stored_bundle_is_not_replaced_by_another(bundle: Path, address: str, tmp_path: Path) -> None:
    put_bundle(bundle, address)
    assert put_bundle(bundle, address) == address
    other = write_bundle(tmp_path / "other", "something else")
    with pytest.raises(BundleError, match="contains another bundle"):
        put_bundle(other, address)
    assert fingerprint(get_bundle(address)) == fingerprint(bundle)


def test_an_incomplete_bundle_is_refused_and_can_be_completed(bundle: Path, address: str) -> None:
    folder = Folder(address)
    folder.write(FILES[0], b"of a copy that was cut short")
    with pytest.raises(BundleError, match=r"manifest\.json|no bundle"):
        get_bundle(address)
    put_bundle(bundle, address)
    assert fingerprint(get_bundle(address)) == fingerprint(bundle)
    folder.delete(FILES[2])  # the next upload adds the missing file
    put_bundle(bundle, address)
    check_bundle(get_bundle(address))


def test_a_bundle_that_was_changed_is_refused(bundle: Path, address: str, cache: Path) -> None:
    put_bundle(bundle, address)
    Folder(address).write("weights.safetensors", b"x" * (bundle / "weights.safetensors").stat().st_size)
    with pytest.raises(BundleError, match=r"weights\.safetensors"):
        get_bundle(address)
    Folder(address).delete("vocabulary.json")
    Folder(address).write("weights.safetensors", (bundle / "weights.safetensors").read_bytes())
    with pytest.raises(BundleError, match=r"vocabulary\.json"):
        get_bundle(address)
    for manifest in (b"", b"[]", b"{}", b'{"weights.safetensors": 3}'):
        Folder(address).write("manifest.json", manifest)
        with pytest.raises(BundleError, match="manifest"):
            get_bundle(address)
    assert not cache.exists() or not [path for path in cache.iterdir() if path.is_dir()]


def test_the_manifest_is_written_last_after_the_files_were_verified(bundle: Path, s3: str, faulty_s3: FaultyS3) -> None:
    faulty_s3.inject("short upload", method="PUT", path="predicates")
    with pytest.raises(StorageError, match=r"predicates\.json differs from the file that was sent"):
        put_bundle(bundle, f"{s3}/b")
    assert faulty_s3.count("PUT", "manifest.json") == 0
    put_bundle(bundle, f"{s3}/b")
    puts = [path for method, path in faulty_s3.requests if method == "PUT"]
    assert puts[-1].endswith("manifest.json")
    assert faulty_s3.count("PUT", "weights") == 1  # verified files are not sent again


# --- the cache ------------------------------------------------------------------------------------------------------


def test_a_cached_bundle_downloads_only_its_manifest(bundle: Path, s3: str, faulty_s3: FaultyS3) -> None:
    put_bundle(bundle, f"{s3}/b")
    fetched = get_bundle(f"{s3}/b")
    faulty_s3.heal()
    assert get_bundle(f"{s3}/b") == fetched
    assert [path.rpartition("/")[2] for _, path in faulty_s3.requests] == ["manifest.json"]


@pytest.mark.parametrize("damage", ["changed", "missing", "another", "file"])
def test_a_damaged_copy_is_fetched_again(damage: str, bundle: Path, s3: str, cache: Path, tmp_path: Path) -> None:
    put_bundle(bundle, f"{s3}/b")
    fetched = get_bundle(f"{s3}/b")
    if damage == "changed":
        (fetched / "weights.safetensors").write_bytes(b"")
    elif damage == "missing":
        (fetched / "manifest.json").unlink()
    else:
        shutil.rmtree(fetched)
        write_bundle(fetched, "another") if damage == "another" else fetched.write_bytes(b"")
    (cache / f".{fetched.name}-killed").mkdir()
    assert get_bundle(f"{s3}/b") == fetched
    assert fingerprint(fetched) == fetched.name == fingerprint(bundle)
    check_bundle(fetched)
    assert sorted(path.name for path in cache.iterdir()) == sorted([fetched.name, f"{fetched.name}.lock"])


def test_the_error_for_an_unwritable_cache_names_its_variable(bundle: Path, s3: str, cache: Path) -> None:
    put_bundle(bundle, f"{s3}/b")
    cache.parent.write_bytes(b"a file in the way")
    with pytest.raises(StorageError, match="AGGGEN_CACHE"):
        get_bundle(f"{s3}/b")


FETCH = """
import os, sys
from agggen_platform.storage.bundles import get_bundle

for _ in range(3):
    if os.fork() == 0:
        print(get_bundle(sys.argv[1]), flush=True)
        os._exit(0)
for _ in range(3):
    assert os.wait()[1] == 0
"""


def test_concurrent_processes_download_a_bundle_once(
    bundle: Path, s3: str, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    put_bundle(bundle, f"{s3}/b")
    faulty_s3.heal()
    faulty_s3.bytes_per_second = 4e6  # the download takes over half a second
    with Running(["-c", FETCH, f"{s3}/b"], tmp_path) as processes:
        assert processes.finish() == 0, processes.output()
        (fetched,) = set(processes.output().split())
    assert len(processes.output().split()) == 3
    check_bundle(fetched)
    assert faulty_s3.count("GET", "manifest.json") == 3
    assert faulty_s3.count("GET", "weights") == 1


def test_the_cache_removes_the_least_recently_used_bundles(
    tmp_path: Path, s3: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        put_bundle(write_bundle(tmp_path / name, name), f"{s3}/{name}")
    a, b = get_bundle(f"{s3}/a"), get_bundle(f"{s3}/b")
    size = sum(file.stat().st_size for file in a.iterdir())
    monkeypatch.setenv("AGGGEN_CACHE_GB", str(2.5 * size / 1e9))
    get_bundle(f"{s3}/a")
    c = get_bundle(f"{s3}/c")
    assert (a.exists(), b.exists(), c.exists()) == (True, False, True)
    assert get_bundle(f"{s3}/b") == b and b.exists()
    assert not a.exists()
    for invalid in ("0", "many", "inf"):
        monkeypatch.setenv("AGGGEN_CACHE_GB", invalid)
        b.joinpath("manifest.json").unlink()
        with pytest.raises(ConfigError, match=f"AGGGEN_CACHE_GB must be a number above 0, not '{invalid}'"):
            get_bundle(f"{s3}/b")
