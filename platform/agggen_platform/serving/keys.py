"""The file of the endpoint's API keys: one key per line, ``NAME sha256:HEX``.

``#`` starts a comment. A name may have several keys, for rotation. Other users may read the file, because hashes of
random keys reveal nothing; a file that group or others can write to is refused, because others could add keys.
"""

import hashlib
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agggen.errors import ConfigError
from agggen_platform.serving.config import ServeConfig

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME_RULE = "name must consist of at most 64 letters, digits, '.', '_' and '-' and start with a letter or digit"
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    sha256: bytes

    def __str__(self) -> str:
        return f"{self.name} sha256:{self.sha256.hex()}"


def new_key(name: str) -> tuple[str, Key]:
    """A random key of 256 bits, and its entry for the keys file; raises ConfigError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"a key's {_NAME_RULE}, not {name!r}")
    key = f"agk_{secrets.token_urlsafe(32)}"
    return key, Key(name, hashlib.sha256(key.encode()).digest())


def parse_keys(text: str, source: str) -> tuple[Key, ...]:
    """Parses the text of a keys file; raises ConfigError that names `source` and the invalid line."""
    keys: dict[bytes, Key] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        location = f"{source}, line {number}"
        if len(words) != 2:
            raise ConfigError(f"{location}: expected NAME sha256:HEX")
        if not _NAME.fullmatch(words[0]):
            raise ConfigError(f"{location}: a {_NAME_RULE}")
        match = _HASH.fullmatch(words[1])
        if not match:  # the message does not quote the word, which may be a key written here by mistake
            raise ConfigError(f"{location}: expected sha256: and 64 lower-case hexadecimal digits after the name")
        key = Key(words[0], bytes.fromhex(match[1]))
        if key.sha256 in keys:
            raise ConfigError(f"{location}: {keys[key.sha256].name!r} already has this key")
        keys[key.sha256] = key
    return tuple(keys.values())


def read_keys(path: Path) -> tuple[Key, ...]:
    """The keys of a file; raises ConfigError if it is missing, malformed, or others may write to it."""
    try:
        with path.open("rb") as file:
            return _keys_of(file, path)
    except OSError as error:
        raise ConfigError(f"the keys file {path} cannot be read: {error.strerror}") from None


def check_keys_required(config: ServeConfig) -> None:
    """Raises ConfigError if the endpoint is reachable from other machines and has no keys file."""
    if not config.http.is_loopback and config.security.keys_file is None:
        raise ConfigError(
            f"http.host={config.http.host} can be reached from other machines, so security.keys_file must name a file "
            "of keys: agggen serve-key NAME --file FILE creates one"
        )


def add_key(path: Path, key: Key) -> None:
    """Appends a key; creates the file with mode 0600. Raises OSError, and ConfigError for an invalid file."""
    with open(path, "a+b", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.seek(0)
        _keys_of(file, path)
        file.seek(max(file.tell() - 1, 0))
        lacks_newline = file.read() not in (b"", b"\n")
        file.write(f"{chr(10) if lacks_newline else ''}{key}\n".encode())  # one write: atomic for concurrent readers


def _keys_of(file: BinaryIO, path: Path) -> tuple[Key, ...]:
    if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o022:
        raise ConfigError(f"the keys file {path} can be written by others: chmod go-w {path}")
    try:
        return parse_keys(file.read().decode(), str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"the keys file {path} is not UTF-8") from None
