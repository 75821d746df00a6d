"""What the endpoint's ASGI middlewares share: what is known of a request, and how one is refused."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from starlette.types import Receive, Scope, Send

from serve.errors import Problem, request_id

_INFO = "agggen"  # of a scope


class Allowance(Protocol):
    """What a caller may still spend."""

    def take(self, amount: float) -> float:
        """Takes it and returns 0; or takes nothing and returns the seconds until it can be."""
        ...


@dataclass(slots=True)
class RequestInfo:
    """What is known of a request. Handlers reach it by ``info_of(request.scope)``."""

    caller: str = ""  # the key's name; empty: no keys are asked for
    refused: str = ""  # by which guard
    replayed: bool = False  # answered from memory
    outcomes: Counter[str] = field(default_factory=Counter)  # of its records: "ok", or a Failure's code
    allowance: Allowance | None = None  # of records; None: no limit
    gone: asyncio.Event = field(default_factory=asyncio.Event)  # a stream's client went away

    def count(self, outcome: str, records: int = 1) -> None:
        """Notes records with this outcome: ``ok`` or a Failure's code; retryable ones keep an answer from memory."""
        self.outcomes[outcome] += records

    def spend(self, records: int) -> None:
        """Takes the records off the caller's allowance; raises Problem (429) where it is used up."""
        if self.allowance is not None and (seconds := self.allowance.take(records)):
            self.refused = "records"
            raise Problem("rate", "this key's records of a minute are used up", retry_after=math.ceil(seconds))

    async def spend_in_time(self, records: int) -> None:
        """Takes the records off the caller's allowance as soon as it has any: a stream goes slower, and on."""
        while self.allowance is not None and (seconds := self.allowance.take(records)):
            await asyncio.sleep(seconds)


def info_of(scope: Scope) -> RequestInfo:
    """What is known of the scope's request; empty where nothing was noted yet."""
    info: RequestInfo = scope.setdefault(_INFO, RequestInfo())
    return info


async def refuse(problem: Problem, guard: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the problem, and notes which guard it was, unless another one did before."""
    info = info_of(scope)
    info.refused = info.refused or guard
    await problem.response(request_id(scope))(scope, receive, send)


def headers(scope: Scope, name: bytes) -> list[bytes]:
    """The values of all lines of a header; `name` in lower case."""
    return [value for key, value in scope["headers"] if key == name]


def route_path(scope: Scope) -> str:
    """The path below the prefix that the application is mounted at."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if root and (path == root or path.startswith(root + "/")):
        return path[len(root) :] or "/"
    return path
