"""The folder of a stack: its lock, its passwords, its logs and the file that a shell reads."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil

from infra.stack.errors import RefusedError

_LOCK_PATIENCE = 60.0  # seconds that the processes of a stack whose supervisor was killed may take to end
UNSET = ("AWS_PROFILE", "AWS_SESSION_TOKEN")
"""Of an environment for another store: they would be mixed with ours."""


@dataclass(frozen=True)
class Secrets:
    """Generated once for a folder."""

    postgres: str
    mlflow_database: str
    mlflow_admin: str
    mlflow_session: str
    s3_key_id: str
    s3_secret: str
    ray_token: str

    @classmethod
    def generate(cls) -> Secrets:
        return cls(**{field.name: secrets.token_hex(24) for field in fields(cls)})


class State:
    """A folder; nothing is written before it is locked."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __str__(self) -> str:
        return str(self.path)

    @property
    def env_file(self) -> Path:
        return self.path / "env"

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Makes the folder, and holds its lock; yields the descriptor, which a guard inherits to hold it on.

        Raises:
            RefusedError: another stack runs in it, or it cannot be made.
        """
        try:
            # PostgreSQL of a stack that root starts runs as another user, who must get through to its own folder.
            self.path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            (self.path / "logs").mkdir(mode=0o700, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise RefusedError(f"{self} cannot hold a stack ({error.strerror}); --state names a folder") from error
        try:
            self._wait_for(lock)
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            yield lock
            os.ftruncate(lock, 0)
        finally:
            os.close(lock)

    def _wait_for(self, lock: int) -> None:
        deadline = time.monotonic() + _LOCK_PATIENCE
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if (pid := self.supervisor()) is not None:
                    raise RefusedError(
                        f"a stack runs in {self} already (process {pid}); "
                        f"stop it with `python -m infra.stack down --state {self}`, or name another folder by --state"
                    ) from None
            if time.monotonic() > deadline:
                raise RefusedError(
                    f"the processes of an earlier stack in {self} do not end; its guard holds {self.path / 'lock'}"
                )
            time.sleep(0.1)

    def supervisor(self) -> int | None:
        """The process whose stack runs in the folder; None where there is none, or it was killed."""
        try:
            pid = int((self.path / "lock").read_text())
            return pid if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE and self.is_held() else None
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None

    def is_held(self) -> bool:
        with (self.path / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def secrets(self) -> Secrets:
        """The passwords of this folder, made at the first call.

        Raises:
            RefusedError: others may read the file, or it holds something else.
        """
        path = self.path / "secrets.json"
        if not path.exists():
            write_private(path, json.dumps(asdict(Secrets.generate()), indent=1) + "\n")
        if path.stat().st_mode & 0o077:
            raise RefusedError(f"others may read the passwords in {path}: chmod 600 {path}")
        try:
            return Secrets(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise RefusedError(f"{path} does not hold a stack's passwords: {error}") from error

    def write_env(self, environment: Mapping[str, str]) -> None:
        """Writes the file that a shell reads with ``source``."""
        lines = [f"unset {' '.join(UNSET)}"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
        write_private(self.env_file, "\n".join(lines) + "\n")


def write_private(path: Path, text: str, owner: tuple[int, int] | None = None) -> None:
    """Writes a file of mode 0600, whole or not at all.

    Args:
        owner: user and group that it shall belong to, which only root may choose.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if owner is not None:
            os.fchown(descriptor, *owner)
        file.write(text)
    os.replace(beside, path)
