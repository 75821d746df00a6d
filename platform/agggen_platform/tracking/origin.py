"""Tags with the origin of a run (code, command, machine, versions), and the masking of secrets in logged values."""

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

_MASK = "***"
# Matches to the last @, because a password may contain / ? # and @. Excludes file paths, which may contain an @.
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
    """`text` with recognisable secrets masked: credentials and signatures in addresses, AWS keys, and tokens."""
    return _BEARER.sub(rf"\1 {_MASK}", _TOKENS.sub(_MASK, _replace_credentials(text, f"{_MASK}@")))


def without_credentials(uri: str) -> str:
    """`uri` without user and password, and with masked secrets in its query."""
    return _replace_credentials(uri, "")


def _replace_credentials(text: str, replacement: str) -> str:
    """Replaces ``user:password@`` in all addresses in `text`, and masks the secrets in their queries."""

    def masked_setting(setting: re.Match[str]) -> str:
        return f"{setting[1]}={_MASK}" if is_secret(setting[1]) else setting[0]

    return _IN_QUERY.sub(masked_setting, _IN_ADDRESS.sub(replacement, text))


def is_secret(name: str) -> bool:
    """Whether a setting, option or variable of this name has a secret value; for example ``API_KEY``."""
    return bool(_SECRET_NAME.search(name))


def masked_value(name: str, value: object) -> object:
    """The value of the setting `name`, without secrets."""
    if is_secret(name) and value not in (None, ""):
        return _MASK
    return masked(value) if isinstance(value, str) else value


def masked_command(words: Iterable[str]) -> str:
    """A quoted command line with masked secrets: each X in ``--token X``, ``password=X`` and ``s3://X@host``."""
    masked_words, mask_next = [], False
    for word in words:
        name, separator, value = word.partition("=")
        option = name.lstrip("-")
        if mask_next:
            masked_words.append(_MASK)
        elif separator and value and is_secret(option):
            masked_words.append(f"{name}={_MASK}")
        else:
            masked_words.append(masked(word))
        mask_next = not mask_next and word.startswith("-") and not separator and is_secret(option)
    return shlex.join(masked_words)


def command_line() -> str:
    """The command line of this process, with masked secrets."""
    script = Path(sys.argv[0])
    program = ["python", f"jobs/{script.name}"] if script.parent.name == "jobs" else ["agggen"]
    return masked_command([*program, *sys.argv[1:]])


def origin() -> dict[str, str]:
    """Tags with user, command, machine, versions and commit, under MLflow's own names where it has them."""
    tags = {
        "mlflow.user": _user_name(),
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
    return tags | _commit_tags()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for the user id
        return "unknown"


@cache
def _commit_tags() -> dict[str, str]:
    """Tags with the commit of the running code; empty if the code is not in a repository."""

    def git(*arguments: str) -> str | None:
        folder = Path(__file__).parent
        try:
            result = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=2)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout.strip() if result.returncode == 0 else None

    if git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return {}  # not tracked by git: the package is installed inside another repository
    commit = git("rev-parse", "HEAD")
    changed_files = git("status", "--porcelain", "--untracked-files=no")
    tags = {"mlflow.source.git.commit": commit} if commit else {}
    return tags if changed_files is None else tags | {"git.dirty": str(bool(changed_files)).lower()}
