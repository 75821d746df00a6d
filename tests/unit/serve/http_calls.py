"""HTTP and ASGI calls to applications in this process, a stub of the engine, asynchronous tests, example records."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Scope

from agggen.generation.config import InferenceConfig
from agggen.generation.results import Generation, PlannedRecord, WrittenFact
from agggen.records import Plan
from agggen_platform.serving.config import LimitsConfig, ServeConfig
from agggen_platform.serving.keys import add_key, new_key
from serve.api import api
from serve.engine import Failure, Job, Result

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
SILICON = {"id": "Si", "triples": [["Silicon", "symbol", "Si"], ["Silicon", "category", "metalloid"]]}
CONFIG = ServeConfig(bundle="toy")

LONG = 60.0  # seconds; the limit of each test


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Decorator that runs a coroutine test in a new event loop, for at most `LONG` seconds."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**fixtures), LONG))

    return run


class Ask:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def __call__(self, address: str = "/v1/generate", method: str = "POST", **request: Any) -> httpx.Response:
        async def response() -> httpx.Response:
            async with client(self.app) as http:
                return await http.request(method, address, **request)

        return asyncio.run(response())

    def answers(self, name: str, *records: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
        response = self(f"/v1/{name}", json={"records": records, "options": options})
        assert response.status_code == 200, response.text
        return response.json()["answers"]


def limited(engine: Any, **limits: float) -> Ask:
    return Ask(api(engine, ServeConfig(bundle="toy", limits=LimitsConfig(**limits))))


def issue(file: Path, name: str) -> str:
    """Creates a key and appends its line to the keys file; returns the secret."""
    key, line = new_key(name)
    add_key(file, line)
    return key


def records(*ids: str) -> list[dict[str, Any]]:
    return [SILICON | {"id": name} for name in ids]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def client(app: ASGIApp) -> httpx.AsyncClient:
    """An HTTP client of the application, which propagates its exceptions."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """A body in chunks, without Content-Length."""
    for part in parts:
        yield part


def scope(path: str = "/v1/generate", headers: Mapping[str, str | bytes] = MappingProxyType({})) -> Scope:
    """The ASGI scope of a POST request with the path's media type."""
    kind = NDJSON if path.endswith("stream") else JSON
    pairs = {"host": "localhost", **kind, **headers}.items()
    lines = [(name.lower().encode(), value if isinstance(value, bytes) else value.encode()) for name, value in pairs]
    return {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": lines}


class Server:
    """The ASGI server's side of a request: messages `sent` by and `incoming` for the application."""

    def __init__(self, *messages: Message) -> None:
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self.incoming.put_nowait(message)

    async def receive(self) -> Message:
        return await self.incoming.get()

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def status_of(self, app: ASGIApp, scope: Scope) -> int:
        asyncio.run(asyncio.wait_for(app(scope, self.receive, self.send), 20))
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def part(body: bytes, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def problem(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    members: dict[str, Any] = response.json()
    assert members["status"] == response.status_code
    return members


def always(config: InferenceConfig) -> Callable[[InferenceConfig], InferenceConfig]:
    return lambda own: config


CARD = {
    **{"fingerprint": "ab12", "address": "toy", "largest_group": 3, "inference": {"plans": 5}},
    "metrics": {"loss": 1.5, "odd": float("nan")},
}


class StubEngine:
    """Answers each record with its id. `failures`: by id; `error`: of all calls; calls wait for `hold`."""

    def __init__(self) -> None:
        self.failures: dict[str, Failure] = {}
        self.error: Exception | None = None
        self.models: dict[str, str] = {}  # fingerprints by record id, if different from the card's
        self.hold: asyncio.Event | None = None
        self.calls: list[list[Any]] = []
        self.seconds: list[float] = []  # the deadline of each call
        self.begun = self.cancelled = 0  # counts of records

    async def _called(self, work: Sequence[Any], seconds: float) -> None:
        self.calls.append(list(work))
        self.seconds.append(seconds)
        self.begun += len(work)
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += len(work)
            raise
        if self.error is not None:
            raise self.error

    def _answered(self, name: str, value: Any) -> Any:
        return self.failures.get(name) or Result(value, self.models.get(name, "ab12"))

    async def generate(self, jobs: Sequence[Job], seconds: float) -> list[Any]:
        await self._called(jobs, seconds)
        texts = []
        for job in jobs:
            plan, name = job.plan or Plan((job.record.predicates,)), job.record.id
            fact = WrittenFact(0, len(name) + 2, plan.predicates, ())
            texts.append(Generation(name, f"{name}-0", plan, -0.5, "exact", -1.5, -2.0, (fact,), ()))
        return [self._answered(text.id, [text]) for text in texts]

    async def plan(self, jobs: Sequence[Job], seconds: float, k: int) -> list[Any]:
        await self._called(jobs, seconds)
        plans = [[PlannedRecord(Plan((job.record.predicates,)), None, "exact")] * k for job in jobs]
        return [self._answered(job.record.id, best) for job, best in zip(jobs, plans, strict=True)]

    async def card(self) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return CARD

    async def records_at_once(self) -> int:
        return 64

    async def ready(self) -> dict[str, Any]:
        return await self.card()
