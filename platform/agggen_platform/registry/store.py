"""The registry in MLflow: versions of a model with their tags, aliases, and the history of each alias.

A registry that does not answer is an error within seconds, though MLflow would retry for an hour.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from agggen.errors import hint
from agggen_platform.extras import require
from agggen_platform.mlflow_client import mlflow_client, schema_lock, sqlite_file
from agggen_platform.registry.address import NAME, ModelAddress, RegistryError, check_alias, check_name
from agggen_platform.tracking.origin import masked
from agggen_platform.tracking.tracker import default_uri

FINGERPRINT = "bundle.fingerprint"
CONFIG_HASH = "bundle.config_hash"
RUN = "bundle.run"
DATA = "data."  # followed by CORPUS/SPLIT; the value is the fingerprint
METRIC = "metric."  # followed by the metric's name
EVALUATION = "evaluation."  # followed by a hash: `Evaluation.key`

_MOVES = "moves."  # followed by the alias; a tag of the model
_MOVES_LENGTH = 5000  # MLflow's limit for a model's tag, in characters
_NOTE_LENGTH = 240  # characters
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_CONNECT_SECONDS = 5.0  # timeout of a connection to a database server


@dataclass(frozen=True)
class Version:
    name: str
    number: str
    source: str  # the bundle's address
    tags: Mapping[str, str]
    registered: float  # seconds since 1970
    aliases: tuple[str, ...] = ()
    new: bool = field(default=False, compare=False)  # whether the call that returned this object created the version

    @property
    def fingerprint(self) -> str:
        """The bundle's fingerprint; empty if the version was not registered by agggen."""
        return self.tags.get(FINGERPRINT, "")

    def tagged(self, prefix: str) -> dict[str, str]:
        """The tags whose keys begin with `prefix`; the prefix is removed from the keys."""
        return {key.removeprefix(prefix): value for key, value in sorted(self.tags.items()) if key.startswith(prefix)}

    def __str__(self) -> str:
        return f"{self.name}/{self.number}"


@dataclass(frozen=True)
class Move:
    at: str  # time in UTC; empty if not agggen moved it
    from_version: str | None
    to_version: str | None
    back: bool = False  # whether it is a rollback
    forced: bool = False  # whether the metric gate was overruled
    gate: str = ""  # the reason that the metric gate gave
    done: bool = False  # False while the move is recorded but not made yet

    def __str__(self) -> str:
        kind = " (rollback)" if self.back else " (metric gate overruled)" if self.forced else ""
        return f"{self.from_version or 'none'} -> {self.to_version or 'none'}{kind}" + (self.gate and f": {self.gate}")


class Registry:
    """The registered models at one URI. Every call may raise `RegistryError`."""

    def __init__(self, uri: str | None = None, create: bool = False) -> None:
        """`uri`: default `registry_uri`. `create`: create a missing SQLite file."""
        self.uri = registry_uri(uri)
        self._client = connect(self.uri, create)

    def names(self) -> list[str]:
        """The sorted names of models, except invalid ones that other programs registered."""
        with registry_errors(self.uri):
            models = _all_pages(self._client.search_registered_models)
        return sorted(model.name for model in models if NAME.fullmatch(model.name))

    def aliases(self, name: str) -> dict[str, str]:
        return {alias: str(version) for alias, version in sorted(self._model(name).aliases.items())}

    def versions(self, name: str, fingerprint: str | None = None) -> list[Version]:
        """The versions of a model, oldest first; with `fingerprint`, only versions of this bundle."""
        aliases = self.aliases(name)
        condition = f"name = '{name}'" + (f" and tags.`{FINGERPRINT}` = '{fingerprint}'" if fingerprint else "")
        with registry_errors(self.uri):
            versions = _all_pages(self._client.search_model_versions, filter_string=condition)
        return sorted((_version(version, aliases) for version in versions), key=lambda version: int(version.number))

    def version(self, address: ModelAddress) -> Version:
        aliases = self.aliases(address.name)
        number = address.version
        if address.alias:
            if address.alias not in aliases:
                existing = ", ".join(f"{alias} (version {version})" for alias, version in aliases.items()) or "none"
                raise RegistryError(f"the model {address.name!r} has no alias {address.alias!r}; it has {existing}")
            number = aliases[address.alias]
        get = self._client.get_model_version
        if (model_version := self._unless("RESOURCE_DOES_NOT_EXIST", get, address.name, number)) is not None:
            return _version(model_version, aliases)
        existing = ", ".join(version.number for version in self.versions(address.name)) or "none"
        raise RegistryError(f"the model {address.name!r} has no version {number}; it has {existing}")

    def aliased_version(self, name: str, alias: str) -> Version | None:
        number = self.aliases(name).get(check_alias(alias))
        return None if number is None else self.version(ModelAddress(name, version=number))

    def moves(self, name: str, alias: str) -> list[Move]:
        """The moves of an alias, oldest first; the last one ends at the current version.

        Leaves out a last move that was recorded but not made, because its process was killed. Adds a later move that
        was made on MLflow's pages.
        """
        model = self._model(name)
        moves = [Move(**move) for move in json.loads(model.tags.get(_MOVES + alias, "[]"))]
        version = model.aliases.get(alias)
        current = None if version is None else str(version)
        if moves and moves[-1].to_version != current and not moves[-1].done:
            moves.pop()
        if moves and moves[-1].to_version != current:
            moves.append(Move("", moves[-1].to_version, current, done=True))
        return moves

    def _model(self, name: str) -> Any:
        model = self._unless("RESOURCE_DOES_NOT_EXIST", self._client.get_registered_model, check_name(name))
        if model is None:
            raise RegistryError(f"the registry has no model {name!r}; {hint(name, self.names())}")
        return model

    def _unless(self, code: str, call: Callable[..., Any], *key: str) -> Any:
        """The result of ``call(*key)``; None if it raises MLflow's error `code`."""
        with registry_errors(self.uri):
            try:
                return call(*key)
            except Exception as error:
                if getattr(error, "error_code", None) != code:
                    raise
                return None

    def add_version(self, name: str, source: str, tags: Mapping[str, str]) -> Version:
        """Adds a version to a model, which is created if it does not exist."""
        self._unless("RESOURCE_ALREADY_EXISTS", self._client.create_registered_model, check_name(name))
        with registry_errors(self.uri):
            return _version(self._client.create_model_version(name, source, tags=dict(tags)), {})

    def tag(self, version: Version, key: str, value: str) -> None:
        with registry_errors(self.uri):
            self._client.set_model_version_tag(version.name, version.number, key, value)

    def set_alias(self, name: str, alias: str, number: str) -> None:
        with registry_errors(self.uri):
            self._client.set_registered_model_alias(name, check_alias(alias), number)

    def move(self, name: str, alias: str, move: Move) -> None:
        """Moves an alias if it still has the move's `from_version`; records the move first.

        MLflow has no compare-and-swap: of two concurrent moves the later one wins, the other raises RegistryError.
        """
        moves = self.moves(name, alias)
        self._check_current(name, alias, move.from_version)
        self._save_moves(name, alias, [*moves, move])
        self.set_alias(name, alias, str(move.to_version))
        self._save_moves(name, alias, [*moves, replace(move, done=True)])
        self._check_current(name, alias, move.to_version)

    def _save_moves(self, name: str, alias: str, moves: Sequence[Move]) -> None:
        """Saves the moves with shortened notes; without the oldest ones if they do not fit into a tag."""
        history = [asdict(replace(move, gate=shorten(move.gate, _NOTE_LENGTH, placeholder=" ..."))) for move in moves]
        while len(serialised := json.dumps(history, separators=(",", ":"))) > _MOVES_LENGTH:
            del history[0]
        with registry_errors(self.uri):
            self._client.set_registered_model_tag(name, _MOVES + alias, serialised)

    def _check_current(self, name: str, alias: str, number: str | None) -> None:
        if (actual := self.aliases(name).get(alias)) != number:
            raise RegistryError(
                f"{name}@{alias} is version {actual or 'none'}, where version {number or 'none'} was expected: another "
                "process moved it; check `agggen models list` and try again"
            )


def _version(model_version: Any, aliases: Mapping[str, str]) -> Version:
    number = str(model_version.version)
    version_aliases = tuple(alias for alias, version in aliases.items() if version == number)
    seconds = model_version.creation_timestamp / 1000
    return Version(model_version.name, number, model_version.source, dict(model_version.tags), seconds, version_aliases)


def _all_pages(search: Any, **options: Any) -> list[Any]:
    page = search(**options)
    results = list(page)
    while page.token:
        page = search(**options, page_token=page.token)
        results += page
    return results


# --- the connection --------------------------------------------------------------------------------------------------


def registry_uri(uri: str | None = None, runs_dir: Path = Path("runs")) -> str:
    """`uri`, else ``MLFLOW_REGISTRY_URI``, else ``MLFLOW_TRACKING_URI``, else the SQLite file in `runs_dir`."""
    return uri or os.environ.get("MLFLOW_REGISTRY_URI") or default_uri(runs_dir)


def connect(uri: str, create: bool = False) -> Any:
    """An ``MlflowClient`` of the registry at `uri`; `create`: create a missing SQLite file, which takes seconds."""
    require("mlflow")
    if uri.startswith("sqlite:"):
        _check_file(uri, create)
    elif not uri.startswith(("http://", "https://")):
        _check_server(uri)
    with registry_errors(uri), schema_lock(uri) if create else nullcontext():
        return mlflow_client(uri, uri)  # creates the schema of a new file


@contextmanager
def registry_errors(uri: str) -> Iterator[None]:
    """Converts errors of MLflow to a `RegistryError` with a one-line message."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        reason = "it does not answer" if "HTTPConnectionPool" in line else masked(line)[:300]
        raise RegistryError(f"the registry {masked(uri)} cannot be used: {reason}") from error


def _check_file(uri: str, create: bool) -> None:
    """Checks that the file is an SQLite database."""
    path = sqlite_file(uri)
    if path is None:
        raise RegistryError(f"{uri!r} is not a registry: use sqlite:///FILE")
    if not path.exists():
        if create:
            return
        raise RegistryError(
            f"no registry at {path}; `agggen models register BUNDLE` creates one, and MLFLOW_TRACKING_URI "
            "selects another"
        )
    try:
        with path.open("rb") as file:
            header = file.read(16)
    except OSError as error:
        raise RegistryError(f"the registry {path} cannot be read: {error.strerror}") from error
    if header and header != b"SQLite format 3\0":
        raise RegistryError(f"the registry {path} is not an SQLite database")


def _check_server(uri: str) -> None:
    """Checks that a database server accepts connections."""
    from sqlalchemy.engine import make_url  # MLflow's parser: a password may contain / ? and #
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        url = None
    if url is None or (kind := url.get_backend_name()) not in _PORTS or not url.host:
        addresses = f"http(s)://, {'://, '.join(_PORTS)}:// or sqlite:///FILE"
        raise RegistryError(f"{masked(uri)!r} is not a registry: use {addresses}")
    try:
        socket.create_connection((url.host, url.port or _PORTS[kind]), _CONNECT_SECONDS).close()
    except OSError as error:
        raise RegistryError(f"the registry {masked(uri)} cannot be reached: {error.strerror or error}") from error
