"""Access control by API keys; without keys, by the Host header, against scripts of other sites."""

import hashlib
import hmac
import ipaddress
import logging
import time
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from agggen.errors import ConfigError
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.keys import check_keys_required, read_keys
from serve.errors import Problem
from serve.observe import current_request

_log = logging.getLogger("agggen.serve")

_RELOAD_SECONDS = 1.0  # between two checks whether the keys file has changed


class KeyRing:
    """The API keys of a file, which is reloaded when it changes; while it is invalid, the last keys stay in use."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises ConfigError if the file cannot be read, is malformed, or contains no key."""
        self._path, self._clock = Path(path), clock
        self._loaded_state = _file_state(self._path)
        self._keys = read_keys(self._path)
        if not self._keys:
            raise ConfigError(f"the keys file {path} has no key; add one: agggen serve-key NAME --file {path}")
        self._checked_at = clock()

    def name_of(self, credential: bytes) -> str | None:
        """The key's name; None for an invalid credential. Constant time for credentials of equal length."""
        self._reload_if_changed()
        digest = hashlib.sha256(credential).digest()
        # Compares all keys, so that the time does not reveal which one matched.
        names = [key.name for key in self._keys if hmac.compare_digest(key.sha256, digest)]
        return names[0] if names else None

    def _reload_if_changed(self) -> None:
        if self._clock() - self._checked_at < _RELOAD_SECONDS:
            return
        self._checked_at, state = self._clock(), _file_state(self._path)
        if state == self._loaded_state:
            return
        self._loaded_state = state
        try:
            self._keys = read_keys(self._path)
            _log.warning("read %d keys from %s", len(self._keys), self._path)
        except ConfigError as error:
            _log.error("the last valid keys stay in use: %s", error)


def _file_state(path: Path) -> tuple[int, ...] | None:
    """A value that differs after each change of the file; None if the file cannot be accessed."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def key_ring(config: ServeConfig) -> KeyRing | None:
    """The configured keys; raises ConfigError if they are invalid, or if other machines would need none."""
    if config.security.keys_file is not None:
        return KeyRing(config.security.keys_file)
    check_keys_required(config)
    return None


BEARER = HTTPBearer(scheme_name="bearer", description="Authorization: Bearer KEY", auto_error=False)


def access_check(config: ServeConfig) -> Callable[..., Coroutine[Any, Any, None]]:
    """The access check, a FastAPI dependency that raises Problem. Raises ConfigError as `key_ring` does.

    Without keys, the `Host` header must be localhost, a loopback address, or one of `security.hosts`. This refuses web
    pages whose host name resolves to this machine (DNS rebinding). The browser blocks scripts of other origins: no CORS
    headers allow them to read answers, and the accepted media types need a preflight request.
    """
    keys = key_ring(config)
    names = {"localhost", *(host.lower() for host in config.security.hosts)}

    async def check_key(bearer: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]) -> None:
        assert keys is not None
        if bearer is None:
            detail, challenge = "send a key: Authorization: Bearer KEY", 'Bearer realm="agggen"'
        elif name := keys.name_of(bearer.credentials.strip().encode("latin-1")):
            current_request().caller = name
            return
        else:
            detail, challenge = "the key is not valid", 'Bearer realm="agggen", error="invalid_token"'
        raise Problem("unauthorized", detail, headers={"WWW-Authenticate": challenge})

    async def check_host(request: Request) -> None:
        host_headers = request.headers.getlist("host")
        if len(host_headers) != 1 or not _is_local(host_headers[0], names):
            detail = "without keys, the Host header must be localhost, 127.0.0.1, or one of security.hosts"
            raise Problem("forbidden", detail)

    return check_host if keys is None else check_key


def _is_local(host: str, names: Collection[str]) -> bool:
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if port == 0 or "@" in host:
        return False
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name in names
