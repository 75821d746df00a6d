"""Path traversal: untrusted names never lead to reads or writes outside the folder."""

import io
import json
import tarfile
from pathlib import Path

import boto3
import pytest

from agggen.errors import BundleError, ConfigError
from agggen_platform.registry.admission import admit
from agggen_platform.srl.worker import UserError, read_config
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.folder import Folder
from tests.command import Run
from tests.unit.cli_write.examples import json_lines, restaurant
from tests.unit.registry.examples import save_model

OUTSIDE = ["../outside", "../../outside", "/outside", "a/../../outside", "./outside", "..\\outside", "out\0side"]
outside_names = pytest.mark.parametrize("name", OUTSIDE)


def paths_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@outside_names
def test_a_manifest_that_lists_files_outside_the_bundle_is_refused(tmp_path: Path, name: str) -> None:
    bundle = save_model(tmp_path / "a" / "b" / "bundle", 1)
    (tmp_path / "a" / "outside").write_text("theirs")
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest[name] = {"bytes": 6, "sha256": "0" * 64}
    text = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    (bundle / "manifest.json").write_text(text)
    before = paths_below(tmp_path)
    with pytest.raises(BundleError, match="is not a file of a bundle"):
        put_bundle(bundle, str(tmp_path / "c" / "d" / "copy"))
    assert paths_below(tmp_path) == before
    assert (tmp_path / "a" / "outside").read_text() == "theirs"


@pytest.mark.parametrize(
    "name", [name for name in OUTSIDE if "\0" not in name and name[0] != "/"]
)  # S3 forbids the others
def test_keys_outside_a_stored_bundle_are_never_written(
    tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """S3 has no folders: ``bundle/../../x`` is a valid key."""
    cache = tmp_path / "a" / "b" / "cache"
    monkeypatch.setenv("AGGGEN_CACHE", str(cache))
    address = put_bundle(save_model(tmp_path / "bundle", 1), f"{s3}/x/bundle")
    boto3.client("s3").put_object(Bucket=s3.removeprefix("s3://"), Key=f"x/bundle/{name}", Body=b"theirs")
    copy = get_bundle(address)
    assert copy.is_relative_to(cache)
    assert {path.name for path in copy.iterdir()} == {path.name for path in (tmp_path / "bundle").iterdir()}
    assert not list(tmp_path.rglob("*outside*"))
    with pytest.raises(BundleError, match="is not part of a bundle"):
        admit(address)


@outside_names
def test_a_checkpoint_outside_the_folder_of_the_run_is_refused(tmp_path: Path, name: str) -> None:
    folder = Folder(str(tmp_path / "a" / "run"))
    files = [tmp_path / "outside", tmp_path / "a" / "outside"]
    (tmp_path / "a").mkdir()
    for outside in files:
        outside.write_text("theirs")
    entry = {"step": 1, "name": name, "bytes": 6, "sha256": "0" * 64}
    folder.write("joint/latest.json", json.dumps({"checkpoints": [entry]}).encode())
    store = CheckpointStore(folder)
    for call in (lambda: store.restore("joint", tmp_path / "restored"), lambda: store.latest("joint")):
        with pytest.raises(ConfigError, match="is not a valid file name in a folder"):
            call()
    assert not (tmp_path / "restored").exists()
    assert [outside.read_text() for outside in files] == ["theirs"] * 2


def regular_member(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def link_member(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


@pytest.mark.parametrize(
    "members",
    [
        [link_member("config.json", "SECRET")],
        [link_member("config.json", "SECRET", tarfile.LNKTYPE)],
        [link_member("folder", "OUTSIDE"), regular_member("folder/config.json", b"{}")],
        [regular_member("../config.json", b'{"model": {"type": "srl"}}')],
        [regular_member("OUTSIDE/config.json", b'{"model": {"type": "srl"}}')],
    ],
    ids=["symbolic link", "hard link", "linked folder", "above", "absolute"],
)
def test_an_archive_whose_members_lead_out_of_it_is_refused(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    """Reading an archive must not unpack or follow its members."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "config.json").write_text('{"model": {"type": "srl"}}')
    with tarfile.open(tmp_path / "srl.tar.gz", "w:gz") as archive:
        for member, content in members:
            member.linkname = member.linkname.replace("SECRET", str(outside / "config.json"))
            member.linkname = member.linkname.replace("OUTSIDE", str(outside))
            member.name = member.name.replace("OUTSIDE", str(outside))
            archive.addfile(member, io.BytesIO(content))
    before = paths_below(tmp_path)
    with pytest.raises(UserError, match="is not an AllenNLP archive"):
        read_config(str(tmp_path / "srl.tar.gz"))
    assert paths_below(tmp_path) == before


@pytest.mark.parametrize(
    "command",
    [
        "bulk BUNDLE records.jsonl --out out actors=0 max_reject_share=1",
        "generate BUNDLE -i records.jsonl -o out.jsonl",
    ],
    ids=lambda command: command.split()[0],
)
def test_ids_of_records_are_never_names_of_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    bundle = save_model(tmp_path / "bundle", 1)
    home = tmp_path / "a" / "b"
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")  # an invalid store, so that nothing is logged
    records = [restaurant(1, "Aromi", food="English") | {"id": name} for name in OUTSIDE if "\0" not in name]
    json_lines(home / "records.jsonl", [*records, {"id": "../outside", "triples": []}])
    code, _, err = run(*command.replace("BUNDLE", str(bundle)).split())
    assert code == 0, err
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith("outside") or "\\" in path.name]
    written = {"records.jsonl", "out", "out.jsonl", "out.jsonl.rejects.jsonl", "runs"}
    assert {path.name for path in home.iterdir()} <= written
