"""Creates missing folders and secrets of compose.yaml in infra/compose/state.

    sudo python3 infra/compose/setup.py
    podman unshare python3 infra/compose/setup.py      # with rootless Podman

Secrets are random, in files of mode 0600 and owner 10001, the user of every service; only root can set the owner. The
script uses only the standard library.
"""

from __future__ import annotations  # runs with the host's Python, which may be older

import argparse
import hashlib
import os
import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

USER = 10001
STATE = Path(__file__).with_name("state")
FOLDERS = {"data": 0o755, "grafana": 0o700, "postgres": 0o700, "prometheus": 0o700, "runs": 0o700, "s3": 0o700}


def _generators(read_secret: Callable[[str], str]) -> dict[str, Callable[[], str]]:
    """Maps each secret's file to a function that generates its content; `read_secret` reads another one."""
    random_password = partial(secrets.token_urlsafe, 24)
    return {
        "ray_token": lambda: secrets.token_hex(32),
        "postgres_password": random_password,
        "grafana_password": random_password,
        "s3_access_key_id": lambda: f"AG{secrets.token_hex(9).upper()}",
        "s3_secret_access_key": random_password,
        "s3_credentials": lambda: (
            "[default]\n"
            f"aws_access_key_id = {read_secret('s3_access_key_id')}\n"
            f"aws_secret_access_key = {read_secret('s3_secret_access_key')}\n"
        ),
        "mlflow_username": lambda: "admin",
        "mlflow_password": random_password,
        "mlflow_session_key": random_password,
        "mlflow_credentials": lambda: (
            "[mlflow]\n"
            f"mlflow_tracking_username = {read_secret('mlflow_username')}\n"
            f"mlflow_tracking_password = {read_secret('mlflow_password')}\n"
        ),
        "endpoint_key": lambda: f"agk_{secrets.token_urlsafe(32)}",
        "api_keys": lambda: f"admin sha256:{hashlib.sha256(read_secret('endpoint_key').encode()).hexdigest()}\n",
    }


def make(state: Path, owner: int) -> list[Path]:
    """Creates missing folders and secrets in `state` with the owner `owner`; returns the new secrets' files."""
    folder = state / "secrets"
    # Only the owner can open the folder, so the files' owner may be changed after their creation.
    for path, mode in {state: 0o755, folder: 0o700, **{state / name: mode for name, mode in FOLDERS.items()}}.items():
        path.mkdir(mode=0o700, exist_ok=True)
        os.chown(path, owner, owner)
        path.chmod(mode)
    created = []
    for name, generate in _generators(lambda file: (folder / file).read_text(encoding="utf-8")).items():
        path = folder / name
        if path.exists():
            continue
        unfinished = folder / f"{name}.part"
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            os.fchown(file.fileno(), owner, owner)
            file.write(generate())
        unfinished.rename(path)
        created.append(path)
    return created


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--state", type=Path, default=STATE, help="the folder of state; compose.yaml uses the default")
    parser.add_argument("--owner", type=int, default=USER, help=f"user and group of the files [default: {USER}]")
    options = parser.parse_args()
    try:
        created = make(options.state, options.owner)
    except PermissionError as error:
        sys.exit(f"{error.filename or options.state}: {error.strerror}. Run this as root, which can change owners.")
    for path in created:
        print(f"created {path}")
    if not created:
        print(f"nothing is missing in {options.state}")


if __name__ == "__main__":
    main()
