"""Where a run comes from: code, command, machine, versions. And how credentials are kept out of it."""

from __future__ import annotations

import getpass
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_HIDDEN = "***"
# Up to the last @: a database's password may hold / ? # and @. The path of a file may hold an @.
_IN_ADDRESS = re.compile(r"(?<=://)(?<!sqlite://)(?<!sqlite\+pysqlite://)(?<!file://)[^\s\"'`]*@")
_IN_QUERY = re.compile(r"(?<=[?&;])([\w.\-]+)=([^\s\"'`&;#]+)")
_TOKENS = re.compile(
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}"  # AWS key ids
    r"|gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|hf_\w{20,}|sk-[\w\-]{20,}|xox[abprs]-[\w\-]{10,}"
    r"|eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]+)"  # JSON web tokens
)
_SECRET_NAME = re.compile(
    r"(?:^|[._\-])(?:token|secret|password|passwd|pwd|credentials?|sig|signature|apikey|access_?key(?:_?id)?)$"
    r"|[_\-]key(?:[_\-]id)?$",
    re.I,
)
_BEARER = re.compile(r"\b(bearer|basic) [\w\-.~+/]{8,}=*", re.I)


def masked(text: str) -> str:
    """`text` without recognisable secrets: credentials and signatures in addresses, AWS keys, bearer and service
    tokens.
    """
    return _BEARER.sub(rf"\1 {_HIDDEN}", _TOKENS.sub(_HIDDEN, _address(text, f"{_HIDDEN}@")))


def without_credentials(uri: str) -> str:
    """An address as it may be written down: no user, no password, no signature."""
    return _address(uri, "")


def _address(text: str, user: str) -> str:
    """`text` with `user` where its addresses have user and password, and without the secrets in their queries."""

    def shown(setting: re.Match[str]) -> str:
        return f"{setting[1]}={_HIDDEN}" if is_secret(setting[1]) else setting[0]

    return _IN_QUERY.sub(shown, _IN_ADDRESS.sub(user, text))


def is_secret(name: str) -> bool:
    """Whether the value of a setting, option or variable of this name is a secret: ``storage.secret``, ``API_KEY``."""
    return bool(_SECRET_NAME.search(name))


def masked_value(name: str, value: object) -> object:
    """The value of the setting `name` as it may be written down."""
    if is_secret(name) and value not in (None, ""):
        return _HIDDEN
    return masked(value) if isinstance(value, str) else value


def masked_command(words: Iterable[str]) -> str:
    """A command line as one would type it, with secrets replaced: ``--token X``, ``password=X``, ``s3://key@host``."""
    shown, hide = [], False
    for word in words:
        name, equals, value = word.partition("=")
        bare = name.lstrip("-")
        if hide:
            shown.append(_HIDDEN)
        elif equals and value and is_secret(bare):
            shown.append(f"{name}={_HIDDEN}")
        else:
            shown.append(masked(word))
        hide = not hide and word.startswith("-") and not equals and is_secret(bare)
    return shlex.join(shown)


def command_line() -> str:
    """The command that is running, as one would type it, with secrets replaced."""
    script = Path(sys.argv[0])
    program = ["python", f"jobs/{script.name}"] if script.parent.name == "jobs" else ["agggen"]
    return masked_command([*program, *sys.argv[1:]])


def origin() -> dict[str, str]:
    """Tags that say where a run comes from, by MLflow's names where it has one."""
    tags = {
        "mlflow.user": _user(),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": command_line(),
        "host": socket.gethostname(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    for package in ("agggen", "torch", "ray", "mlflow"):
        try:
            tags[f"version.{package}"] = version(package)
        except PackageNotFoundError:
            continue
    return tags | _commit(Path(__file__).parent)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return "unknown"


@cache
def _commit(folder: Path) -> dict[str, str]:
    """The commit that the running code is of; nothing where it was installed without its repository."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=2)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", Path(__file__).name) is None:  # a repository around site-packages is not ours
        return {}
    commit = git("rev-parse", "HEAD")
    changes = git("status", "--porcelain", "--untracked-files=no")
    tags = {"mlflow.source.git.commit": commit} if commit else {}
    return tags if changes is None else tags | {"git.dirty": str(bool(changes)).lower()}
