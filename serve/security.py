"""Who may ask, and how often: API keys, rate limits, and no other web page's scripts."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import math
import time
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen.errors import ConfigError
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.keys import read_keys
from serve.asgi import headers, info_of, refuse, route_path
from serve.errors import Problem

_log = logging.getLogger("agggen.serve")

_LONGEST_KEY = 512  # bytes of a credential that are looked at
_SECONDS_BETWEEN_LOOKS = 1.0  # at the file


class KeyRing:
    """The keys of a file, read again when it changes.

    A file that became unreadable or malformed keeps the last good keys, and the log says so; one without a key is good,
    and shuts everybody out.
    """

    def __init__(
        self,
        path: str | Path,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        """Raises ConfigError if the file cannot be used, or holds no key."""
        self._path, self._clock, self._today = Path(path), clock, today
        self._seen = self._state()
        self._keys = read_keys(self._path)
        if not self._keys:
            raise ConfigError(f"the keys file {path} holds no key: agggen serve-key NAME --file {path}")
        self._looked = clock()

    def name_of(self, credential: bytes) -> str | None:
        """The name of the key, None if it is not valid. Takes as long for every credential of the same length."""
        self._look()
        if len(credential) > _LONGEST_KEY:
            return None
        given, today = hashlib.sha256(credential).digest(), self._today()
        found = None
        for key in self._keys:  # all of them: the time must not tell which one was like it
            same = hmac.compare_digest(key.sha256, given)
            found = key if same else found
        if found is None or (found.last_day is not None and found.last_day < today):
            return None
        return found.name

    def _look(self) -> None:
        now = self._clock()
        if now - self._looked < _SECONDS_BETWEEN_LOOKS:
            return
        self._looked = now
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            self._keys = read_keys(self._path)
        except ConfigError as error:
            _log.error("the last good keys stay in use: %s", error)
        else:
            _log.warning("read %d keys from %s", len(self._keys), self._path)

    def _state(self) -> tuple[int, ...] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def key_ring(config: ServeConfig) -> KeyRing | None:
    """The keys that the configuration asks for; raises ConfigError for an endpoint that others reach without any."""
    if config.security.keys_file is not None:
        return KeyRing(config.security.keys_file)
    if not config.http.is_loopback:
        raise ConfigError(
            f"http.host={config.http.host} can be reached from other machines, so security.keys_file must name a file "
            "of keys: agggen serve-key NAME --file FILE makes one"
        )
    if "*" in config.security.cors_origins:
        raise ConfigError("security.cors_origins=* without keys would let every web page in: name the origins")
    return None


class Authentication:
    """ASGI middleware: asks for a key (``Authorization: Bearer KEY`` or ``X-API-Key: KEY``) but on the open paths."""

    def __init__(self, app: ASGIApp, keys: KeyRing, open_paths: Collection[str] = ()) -> None:
        self.app, self.keys, self.open_paths = app, keys, frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and route_path(scope) in self.open_paths):
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif name := self._caller(scope):
            info_of(scope).caller = name
            await self.app(scope, receive, send)
        else:
            given = bool(headers(scope, b"authorization") or headers(scope, b"x-api-key"))
            detail = "this key is not valid" if given else "send a key: Authorization: Bearer KEY, or X-API-Key: KEY"
            challenge = 'Bearer realm="agggen"' + (', error="invalid_token"' if given else "")
            problem = Problem("unauthorized", detail, headers={"WWW-Authenticate": challenge})
            await refuse(problem, "key", scope, receive, send)

    def _caller(self, scope: Scope) -> str | None:
        given = set(headers(scope, b"x-api-key"))
        for value in headers(scope, b"authorization"):
            kind, _, credential = value.partition(b" ")
            if kind.lower() != b"bearer":
                return None
            given.add(credential.strip())
        return self.keys.name_of(given.pop()) if len(given) == 1 else None


class LocalOnly:
    """ASGI middleware for an endpoint without keys, which trusts whoever reaches it: only this machine's own programs.

    A browser on this machine runs other people's scripts. Those of another site are refused (`Origin`,
    `Sec-Fetch-Site`), and so are those whose own host name was made to point here (DNS rebinding: `Host` is no name of
    this machine).
    """

    def __init__(self, app: ASGIApp, origins: Collection[str] = (), hosts: Collection[str] = ()) -> None:
        """`origins` may send scripts here (CORS); `hosts` are further names that this machine goes by."""
        self.app, self.origins, self.hosts = app, frozenset(origins), frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif reason := self._strange(scope):
            await refuse(Problem("forbidden", reason), "browser", scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _strange(self, scope: Scope) -> str | None:
        hosts = headers(scope, b"host")
        if len(hosts) != 1 or not self._is_ours(hosts[0].decode("latin-1")):
            return "an endpoint without keys answers only to this machine's names (localhost, 127.0.0.1) in Host"
        origins = [value.decode("latin-1") for value in headers(scope, b"origin")]
        if any(origin not in self.origins and not _is_same(origin, hosts[0].decode("latin-1")) for origin in origins):
            return "scripts of this origin may not ask here (security.cors_origins)"
        site = headers(scope, b"sec-fetch-site")
        navigates = scope["method"] in ("GET", "HEAD") and headers(scope, b"sec-fetch-mode") == [b"navigate"]
        if not origins and not navigates and any(value in (b"cross-site", b"same-site") for value in site):
            return "pages of other sites may not ask here (security.cors_origins)"
        return None

    def _is_ours(self, host: str) -> bool:
        name = _name_of(f"//{host}")
        if name is None or "@" in host:
            return False
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return name in {"localhost", *self.hosts}


def _name_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.port is None or parts.port else None
    except ValueError:
        return None


def _is_same(origin: str, host: str) -> bool:
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest.lower() == host.lower()


class TokenBucket:
    """An allowance that fills at `rate` a second up to `size`.

    One that is not empty grants any amount and may end below zero: so no request is too large to be granted ever, and
    over any time t no more than size + rate * t + the largest amount is granted.
    """

    __slots__ = ("_clock", "_level", "_time", "rate", "size")

    def __init__(self, rate: float, size: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.size, self._clock = rate, size, clock
        self._level, self._time = size, clock()

    @property
    def level(self) -> float:
        """What is in it now; negative: what was granted in advance."""
        now = self._clock()
        self._level = min(self.size, self._level + max(0.0, now - self._time) * self.rate)
        self._time = now
        return self._level

    def take(self, amount: float) -> float:
        """Takes the amount and returns 0; or, where less than one is there, the seconds until there is one."""
        level, least = self.level, min(1.0, self.size)
        if level < least:
            return max((least - level) / self.rate, 1e-3)
        self._level -= amount
        return 0.0


class RateLimit:
    """ASGI middleware: each key's requests and records a minute. Callers without a key are not limited.

    An endpoint without keys is reached by this machine only; what protects it is `Admission`. Each of N ingress
    replicas grants 1/N of a key's rate; a minute's worth may come at once.
    """

    def __init__(
        self,
        app: ASGIApp,
        requests: float,
        records: float,
        replicas: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`requests` and `records` a minute, 0: no limit; `replicas` is the most that there are of this one."""
        self.app, self.requests, self.records, self._clock = app, requests / replicas, records / replicas, clock
        self._buckets: dict[str, tuple[TokenBucket | None, TokenBucket | None]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (caller := info_of(scope).caller):
            await self.app(scope, receive, send)
            return
        requests, records = self._of(caller)
        info_of(scope).allowance = records
        if requests is None:
            await self.app(scope, receive, send)
            return
        seconds = requests.take(1)
        left, full_in = max(0, math.floor(requests.level)), math.ceil((requests.size - requests.level) / requests.rate)
        policy = f'"requests";q={math.floor(requests.size)};w=60'
        limits = {"RateLimit-Policy": policy, "RateLimit": f'"requests";r={left};t={full_in}'}
        if seconds:
            detail = f"this key's {self.requests:g} requests a minute (of this replica) are used up"
            problem = Problem("rate", detail, retry_after=math.ceil(seconds), headers=limits)
            await refuse(problem, "rate", scope, receive, send)
            return

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                lines = [(name.lower().encode(), value.encode()) for name, value in limits.items()]
                message = {**message, "headers": [*message.get("headers", []), *lines]}
            await send(message)

        await self.app(scope, receive, telling)

    def _of(self, caller: str) -> tuple[TokenBucket | None, TokenBucket | None]:
        if caller not in self._buckets:
            if len(self._buckets) >= 1024:  # names come and go with the file: a full bucket is as good as a new one
                self._buckets = {name: pair for name, pair in self._buckets.items() if not all(map(_is_full, pair))}
            self._buckets[caller] = (self._bucket(self.requests), self._bucket(self.records))
        return self._buckets[caller]

    def _bucket(self, a_minute: float) -> TokenBucket | None:
        return TokenBucket(a_minute / 60, max(1.0, a_minute), self._clock) if a_minute else None


def _is_full(bucket: TokenBucket | None) -> bool:
    return bucket is None or bucket.level >= bucket.size
