"""The script that creates the folders and secrets of compose.yaml."""

import configparser
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from agggen_platform.serving.keys import read_keys

FOLDER = Path(__file__).parents[2] / "infra" / "compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


def setup(state: Path, owner: int = os.getuid()) -> str:
    command = [sys.executable, "-I", str(FOLDER / "setup.py"), "--state", str(state), "--owner", str(owner)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def state(tmp_path: Path) -> Path:
    setup(tmp_path / "state")
    return tmp_path / "state"


def secrets_in(state: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in (state / "secrets").iterdir()}


def test_setup_creates_the_missing_secrets_and_folders_of_compose(state: Path) -> None:
    created = set(secrets_in(state))
    assert created == {*COMPOSE["secrets"], "endpoint_key"}, "the endpoint reads its hash in api_keys"
    mounts = [mount for service in COMPOSE["services"].values() for mount in service.get("volumes", ())]
    sources = [mount.get("source", "") for mount in mounts]
    folders = {Path(source).name for source in sources if source.startswith("./state/")}
    assert folders | {"secrets"} == {path.name for path in state.iterdir()}
    before, missing = secrets_in(state), state / "secrets" / "s3_credentials"
    missing.unlink()
    assert setup(state).splitlines() == [f"created {missing}"]
    assert secrets_in(state) == before
    assert "nothing is missing" in setup(state)


def test_only_the_owner_can_read_secrets_even_in_an_existing_folder(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir(mode=0o755)
    owner = 10001 if os.getuid() == 0 else os.getuid()
    setup(tmp_path, owner)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (secrets, tmp_path / "postgres")} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets.iterdir()} == {0o600}
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (secrets, *secrets.iterdir())} == {(owner, owner)}


def test_files_with_the_same_credentials_agree(state: Path) -> None:
    secrets, aws, mlflow = secrets_in(state), configparser.ConfigParser(), configparser.ConfigParser()
    aws.read_string(secrets["s3_credentials"])
    mlflow.read_string(secrets["mlflow_credentials"])
    assert aws["default"]["aws_access_key_id"] == secrets["s3_access_key_id"]
    assert aws["default"]["aws_secret_access_key"] == secrets["s3_secret_access_key"]
    assert mlflow["mlflow"]["mlflow_tracking_password"] == secrets["mlflow_password"]
    assert mlflow["mlflow"]["mlflow_tracking_username"] == secrets["mlflow_username"]
    [key] = read_keys(state / "secrets" / "api_keys")
    assert (key.name, key.sha256) == ("admin", hashlib.sha256(secrets["endpoint_key"].encode()).digest())
