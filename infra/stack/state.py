"""The folder of a stack: its lock, settings and passwords (``stack.json``), logs, and the file ``env`` for shells."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.stack.errors import RefusedError

UNSET = ("AWS_PROFILE", "AWS_SESSION_TOKEN")
"""Variables of other stores, which would be mixed with ours."""
PASSWORDS = ("postgres", "mlflow_database", "mlflow_admin", "mlflow_session", "s3_key_id", "s3_secret", "ray_token")


class State:
    """A folder; it must be locked before anything is written."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._file = self.path / "stack.json"

    def __str__(self) -> str:
        return str(self.path)

    @property
    def env_file(self) -> Path:
        return self.path / "env"

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Creates the folder and holds its lock.

        Raises:
            RefusedError: a stack runs in it, or it cannot be created.
        """
        try:
            # Where root starts the stack, PostgreSQL runs as another user, who must reach its own folder.
            self.path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            (self.path / "logs").mkdir(mode=0o700, exist_ok=True)
            lock = (self.path / "lock").open("a+")
        except OSError as error:
            raise RefusedError(f"{self} cannot hold a stack ({error.strerror}); --state names a folder") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RefusedError(
                    f"a stack runs in {self} already (process {self.holder()}); "
                    f"stop it with `python -m infra.stack down --state {self}`, or choose another folder with --state"
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def holder(self) -> int | None:
        """The process that holds the lock; None where no stack runs."""
        try:
            with (self.path / "lock").open() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(lock.read())
        except (FileNotFoundError, ValueError):  # no lock yet, or it is being written
            pass
        return None

    def read(self) -> dict[str, Any]:
        """The settings of the last start and the passwords, which are generated once.

        Raises:
            RefusedError: other users can read the file, or it is damaged.
        """
        if not self._file.exists():
            write_private(self._file, json.dumps({"secrets": {name: secrets.token_hex(24) for name in PASSWORDS}}))
        if self._file.stat().st_mode & 0o077:
            raise RefusedError(f"other users can read the passwords in {self._file}: chmod 600 {self._file}")
        try:
            content: dict[str, Any] = json.loads(self._file.read_text())
            missing = [name for name in PASSWORDS if name not in content["secrets"]]
        except (ValueError, TypeError, KeyError) as error:
            raise RefusedError(f"{self._file} is damaged: {error!r}") from error
        if missing:
            raise RefusedError(f"{self._file} has no password {', '.join(missing)}")
        return content

    def write(self, settings: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """Writes the settings of this start, and the file that a shell reads with ``source``."""
        write_private(self._file, json.dumps({"settings": settings, "secrets": self.read()["secrets"]}, indent=1))
        lines = [f"unset {' '.join(UNSET)}"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
        write_private(self.env_file, "\n".join(lines) + "\n")


def write_private(path: Path, text: str) -> None:
    """Writes a file of mode 0600, whole or not at all."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(beside, path)
