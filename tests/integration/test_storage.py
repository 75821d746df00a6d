"""Bundles and checkpoints in a local folder and on S3: only verified ones are read; the cache of bundles."""

import shutil
from pathlib import Path

import boto3
import pytest

from agggen.bundle import CRITIC_FILES, FILES, check_bundle, fingerprint, write_manifest
from agggen.checks import shipped_critic
from agggen.errors import BundleError, ConfigError
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.critics import open_critic
from agggen_platform.storage.errors import DamagedError, StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy
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


# --- checkpoints ------------------------------------------------------------------------------------------------------


QUICK = Policy(attempts=3, pause=0.01, connect_timeout=5, read_timeout=20, part=5 << 20)


class StoredCheckpoints:
    """A checkpoint store and its messages."""

    def __init__(self, folder: Folder, scratch: Path, keep: int = 2) -> None:
        self.reports: list[str] = []
        self.folder, self.scratch = folder, scratch
        self.store = CheckpointStore(folder, keep, self.reports.append)

    def save(self, step: int, content: bytes = b"") -> None:
        path = self.scratch / "checkpoint"
        path.write_bytes(content or content_of(step))
        self.store.save("joint", step, path)

    def restored(self) -> int | None:
        """The step from which a new process would resume, None without a checkpoint; checks the content."""
        path = self.scratch / "restored"
        path.unlink(missing_ok=True)
        saved = CheckpointStore(self.folder, report=self.reports.append).restore("joint", path)
        if saved is None:
            assert not path.exists()
            return None
        assert path.read_bytes() == content_of(saved.step)
        return saved.step

    def files(self) -> list[int]:
        names = self.folder.names("joint")
        return [int(name[len("joint/step-") :][:8]) for name in names if name != "joint/latest.json"]

    def damage(self, step: int, content: bytes | None) -> str:
        (name,) = (name for name in self.folder.names() if f"step-{step:08d}" in name)
        if content is None:
            self.folder.delete(name)
        else:
            self.folder.write(name, content)
        return name


def content_of(step: int) -> bytes:
    return f"{step:08d}".encode() * 5000


@pytest.fixture(params=["local", "s3"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> StoredCheckpoints:
    address = str(tmp_path / "run") if request.param == "local" else request.getfixturevalue("s3") + "/run"
    return StoredCheckpoints(Folder(address, QUICK), tmp_path)


@pytest.fixture
def faulty_store(s3: str, faulty_s3: FaultyS3, tmp_path: Path) -> StoredCheckpoints:
    """Checkpoints of steps 1 and 2 on S3, behind the fault-injecting proxy."""
    stored = StoredCheckpoints(Folder(f"{s3}/run", QUICK), tmp_path)
    stored.save(1)
    stored.save(2)
    faulty_s3.heal()
    return stored


def test_the_newest_checkpoints_are_kept(stored: StoredCheckpoints) -> None:
    assert stored.store.latest("joint") is stored.restored() is None
    for step in (100, 200, 300):
        stored.save(step)
        assert stored.restored() == step
    assert stored.files() == [200, 300]
    saved = stored.store.latest("joint")
    assert saved
    assert (saved.stage, saved.step, saved.bytes) == ("joint", 300, 40_000)
    assert saved.name == f"joint/step-00000300-{saved.sha256[:8]}.safetensors"
    assert stored.folder.sha256(saved.name) == saved.sha256
    stored.save(300)  # a restarted run saves the same step again
    stored.save(250)  # the last saved one counts as newest, not the highest step
    assert stored.restored() == 250
    assert stored.files() == [250, 300]
    assert stored.reports == []


@pytest.mark.parametrize("content", [content_of(2)[:-1] + b"x", content_of(2)[:-1], b"", None])
def test_a_damaged_or_missing_checkpoint_is_reported_and_an_older_one_restored(
    content: bytes | None, stored: StoredCheckpoints
) -> None:
    stored.save(1)
    stored.save(2)
    name = stored.damage(2, content)
    saved = stored.store.latest("joint")
    assert saved
    if content is not None and len(content) == saved.bytes:  # only the content shows the damage
        target = stored.scratch / "target"
        target.write_bytes(b"old")
        with pytest.raises(DamagedError, match=f"{name} is damaged"):
            stored.store.fetch(saved, target)
        assert target.read_bytes() == b"old"
        assert not list(stored.scratch.glob(".*.tmp"))
        saved = stored.store.latest("joint")  # the store remembers the damage
    assert saved and saved.step == 1
    assert stored.restored() == 1  # a new store object detects the damage
    assert name in stored.reports[-1] and "trying an older one" in stored.reports[-1]
    stored.damage(1, None)
    with pytest.raises(
        DamagedError, match=rf"all checkpoints of joint are damaged .*{name}.*step-00000001.*--fresh starts over"
    ):
        stored.restored()  # a run must not silently start over
    stored.save(2)  # overwrites the damaged file
    assert stored.restored() == 2


def test_leftovers_of_a_killed_process_are_not_restored_and_removed_by_the_next_save(stored: StoredCheckpoints) -> None:
    stored.save(1)
    stored.folder.write("joint/step-00000009-0badcafe.safetensors", content_of(9))
    assert stored.restored() == 1
    if stored.folder.local:
        (stored.folder.local / "joint" / ".step-00000009-0badcafe.safetensors.0badcafe.tmp").write_bytes(b"half")
    else:
        bucket = stored.folder.address.split("/")[2]
        boto3.client("s3").create_multipart_upload(Bucket=bucket, Key="run/joint/step-00000009")
    StoredCheckpoints(stored.folder, stored.scratch).save(2)
    assert stored.files() == [1, 2]
    if not stored.folder.local:
        assert "Uploads" not in boto3.client("s3").list_multipart_uploads(Bucket=bucket)


@pytest.mark.parametrize("index", [b"", b"{", b"[]", b'{"checkpoints": [{"step": 1}]}'])
def test_a_damaged_latest_json_is_an_error_that_names_it(index: bytes, stored: StoredCheckpoints) -> None:
    stored.save(1)
    stored.folder.write("joint/latest.json", index)
    for call in (lambda: stored.store.latest("joint"), lambda: stored.save(2)):
        with pytest.raises(DamagedError, match=r"run/joint/latest\.json is damaged"):
            call()
    stored.folder.delete("joint/latest.json")
    assert stored.restored() is None


# --- a faulty store -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("short upload", "step-00000003", r"step-00000003-\w+\.safetensors differs from the file that was sent"),
        ("503", "step-00000003", "cannot write .*step-00000003.* failed 3 times"),
        ("503", "latest.json", "cannot write .*latest.json.* failed 3 times"),
    ],
)
def test_a_failed_save_leaves_the_latest_checkpoint_unchanged(
    kind: str, path: str, message: str, faulty_store: StoredCheckpoints, faulty_s3: FaultyS3
) -> None:
    faulty_s3.inject(kind, -1, method="PUT", path=path)
    with pytest.raises(StorageError, match=message):
        faulty_store.save(3)
    faulty_s3.heal()
    assert faulty_store.restored() == 2
    assert faulty_store.files() == ([1, 2, 3] if path == "latest.json" else [1, 2])
    faulty_store.save(4)
    assert (faulty_store.restored(), faulty_store.files()) == (4, [2, 4])


def test_a_short_download_is_retried_once(faulty_store: StoredCheckpoints, faulty_s3: FaultyS3) -> None:
    faulty_s3.inject("short answer", method="GET", path="step-")
    assert faulty_store.restored() == 2  # only the transfer was damaged
    faulty_s3.inject("short answer", 2, method="GET", path="step-00000002")
    assert faulty_store.restored() == 1
    assert "step-00000002" in faulty_store.reports[0]


def test_an_unavailable_store_is_not_a_missing_checkpoint(faulty_store: StoredCheckpoints, faulty_s3: FaultyS3) -> None:
    """Otherwise a run would start over, or resume from an older checkpoint, during an outage."""
    for kind, path in (("503", "latest.json"), ("503", "step-"), ("403", "step-"), ("reset", "")):
        faulty_s3.heal()
        faulty_s3.inject(kind, -1, path=path)
        with pytest.raises(StorageError) as caught:
            faulty_store.restored()
        assert not isinstance(caught.value, DamagedError)
