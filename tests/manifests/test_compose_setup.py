"""The script that makes the folders and secrets of compose.yaml."""

from __future__ import annotations

import configparser
import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from agggen_platform.serving.keys import read_keys

FOLDER = Path(__file__).parents[2] / "infra" / "compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


def setup(state: Path, owner: int | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(FOLDER / "setup.py"), "--state", str(state)]
    return subprocess.run(
        [*command, "--owner", str(os.getuid() if owner is None else owner)], capture_output=True, text=True
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    done = setup(folder)
    assert done.returncode == 0, done.stderr
    return folder


def text(state: Path, name: str) -> str:
    return (state / "secrets" / name).read_text(encoding="utf-8")


def test_it_makes_every_secret_and_folder_that_compose_names(state: Path) -> None:
    assert {path.name for path in (state / "secrets").iterdir()} == set(COMPOSE["secrets"])
    sources = [
        mount["source"]
        for service in COMPOSE["services"].values()
        for mount in service.get("volumes", ())
        if mount.get("source", "").startswith("./state/")
    ]
    assert {Path(source).name for source in sources} | {"secrets"} == {path.name for path in state.iterdir()}


def test_only_the_owner_reads_secrets(state: Path) -> None:
    assert stat.S_IMODE((state / "secrets").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (state / "secrets").iterdir()} == {0o600}
    assert stat.S_IMODE((state / "postgres").stat().st_mode) == 0o700


def test_secrets_are_long_different_and_not_printed(tmp_path: Path, state: Path) -> None:
    other = tmp_path / "other"
    printed = setup(other).stdout
    for name in ("ray_token", "postgres_password", "grafana_password", "s3_secret_access_key", "mlflow_password"):
        assert len(text(other, name)) >= 32 and text(other, name) != text(state, name)
        assert text(other, name) not in printed and name in printed


def test_files_for_the_same_account_agree(state: Path) -> None:
    aws, mlflow = configparser.ConfigParser(), configparser.ConfigParser()
    aws.read_string(text(state, "s3_credentials"))
    mlflow.read_string(text(state, "mlflow_credentials"))
    assert aws["default"]["aws_access_key_id"] == text(state, "s3_access_key_id")
    assert aws["default"]["aws_secret_access_key"] == text(state, "s3_secret_access_key")
    assert mlflow["mlflow"]["mlflow_tracking_password"] == text(state, "mlflow_password")
    assert mlflow["mlflow"]["mlflow_tracking_username"] == text(state, "mlflow_username")


def test_prometheus_has_a_key_of_the_endpoint(state: Path) -> None:
    (key,) = read_keys(state / "secrets" / "api_keys")
    assert key.name == "prometheus"
    assert key.sha256 == hashlib.sha256(text(state, "metrics_key").encode()).digest()


def test_what_is_there_stays_and_what_is_missing_is_made(state: Path) -> None:
    before = {path.name: path.read_text() for path in (state / "secrets").iterdir()}
    (state / "secrets" / "s3_credentials").unlink()
    done = setup(state)
    assert done.stdout.splitlines() == [f"made {state / 'secrets' / 's3_credentials'}"]
    assert {path.name: path.read_text() for path in (state / "secrets").iterdir()} == before
    assert "nothing was missing" in setup(state).stdout


def test_a_folder_that_another_user_made_is_put_right(tmp_path: Path) -> None:
    (tmp_path / "state" / "secrets").mkdir(parents=True, mode=0o755)
    assert setup(tmp_path / "state").returncode == 0
    assert stat.S_IMODE((tmp_path / "state" / "secrets").stat().st_mode) == 0o700


def test_files_belong_to_the_user_of_the_images(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    assert setup(tmp_path / "state", 10001).returncode == 0
    for path in ((tmp_path / "state" / "secrets"), *(tmp_path / "state" / "secrets").iterdir()):
        assert (path.stat().st_uid, path.stat().st_gid) == (10001, 10001)


def test_who_is_not_root_is_told_so() -> None:
    code = "import locale, os, runpy, shutil, sys; run = runpy.run_path(sys.argv.pop(1))['main']\n"
    code += "if os.getuid() == 0: os.setgid(10002); os.setuid(10002)\n"
    with tempfile.TemporaryDirectory() as folder:  # not pytest's own, which another user cannot enter
        Path(folder).chmod(0o777)
        command = [sys.executable, "-c", code + "run()", str(FOLDER / "setup.py"), "--state", f"{folder}/state"]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "Run this as root" in done.stderr and "Traceback" not in done.stderr
