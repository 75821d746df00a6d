"""NDJSON in, NDJSON out: an answer a line in the order of the records, however many there are.

Records that have come are worked on several at a time, so that a call of the engine costs little a record; at most
`limits.window` of them have no answer that the client took, and no further one is begun until it takes some. What the
client sends meanwhile waits in `serve.limits.BodyLimit`, which bounds it.

The last line is ``{"status": "end", "records", "ok", "errors"}``, with an ``error`` where the rest of the input was not
read: a stream without it was cut off. A client that goes away cancels the work.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agggen_platform.serving.config import ServeConfig
from serve.answering import Answer, Answering, Entry, body_of, outcome, placed, refuse_repeated
from serve.asgi import info_of
from serve.engine import EngineError
from serve.errors import Problem, problem_of, request_id
from serve.reading import NDJSON, parse_json
from serve.schemas import GenerateOptions, GenerateRecord

_log = logging.getLogger("agggen.serve")


async def line_groups(body: AsyncIterator[bytes], most: int) -> AsyncIterator[list[bytes | Problem]]:
    """The lines of a body that are not blank, as many at a time as have come; a Problem for one over `most` bytes.

    No more than a line and a chunk are held.
    """
    rest = bytearray()
    skipping = False

    def whole(line: bytes) -> bytes | Problem:
        return Problem("too-large", f"the line is longer than {most} bytes") if len(line) > most else line

    async for chunk in body:
        *ends, last = chunk.split(b"\n")
        lines: list[bytes | Problem] = []
        for end in ends:
            line = bytes(rest) + end
            rest.clear()
            if not skipping and line.strip():
                lines.append(whole(line))
            skipping = False
        if not skipping:
            rest += last
        if len(rest) > most:
            lines.append(whole(bytes(rest)))
            rest.clear()
            skipping = True
        if lines:
            yield lines
    if rest.strip():
        yield [whole(bytes(rest))]


class Stream(Response):
    """The answer to a stream of records; reads the request while it is sent."""

    media_type = NDJSON

    def __init__(
        self, request: Request, answering: Answering, config: ServeConfig, options: GenerateOptions, seconds: float
    ) -> None:
        """`options` are checked; `seconds` is the deadline of each record."""
        super().__init__()
        del self.headers["content-length"]
        self._request, self._answering, self._options, self._seconds = request, answering, options, seconds
        self._limits = config.limits
        self._wait = config.batch.wait_ms / 1000
        self._together = max(1, min(config.batch.records, config.limits.window // 4))  # records of a call
        self._room = asyncio.Semaphore(config.limits.window)
        self._ready: asyncio.Queue[asyncio.Task[list[Answer]] | None] = asyncio.Queue()
        self._work: set[asyncio.Task[list[Answer]]] = set()
        self._seen: dict[str, int] = {}
        self._counts = {"records": 0, "ok": 0, "errors": 0}
        self._stopped: Problem | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write(scope, send))
        gone = asyncio.create_task(self._gone(scope))
        waited_for = {reader, writer, gone}
        try:
            while not writer.done():
                done, waited_for = await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        except ClientDisconnect:
            _log.info("request %s: the client went away after %d answers", request_id(scope), self._answered)
        finally:
            rest: list[asyncio.Task[Any]] = [reader, writer, gone, *self._work]
            for one in rest:
                one.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    @property
    def _answered(self) -> int:
        return self._counts["ok"] + self._counts["errors"]

    async def _gone(self, scope: Scope) -> None:
        """Raises ClientDisconnect as soon as the client went away, however much of what it sent is still to be read."""
        await info_of(scope).gone.wait()
        raise ClientDisconnect

    async def _read(self) -> None:
        """Reads and begins records until there are no more, or a Problem stops it."""
        lines = line_groups(self._request.stream(), self._limits.line_bytes)
        coming: asyncio.Future[list[bytes | Problem] | None] | None = None
        entries: list[Entry] = []
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(lines, None))
                if entries and not (await asyncio.wait({coming}, timeout=self._wait))[0]:
                    await self._begin(entries)
                    entries = []
                found, coming = await coming, None
                if found is None:
                    break
                for line in found:
                    if self._counts["records"] == self._limits.stream_records:
                        raise Problem("too-large", f"a stream may have at most {self._limits.stream_records} records")
                    if entries and (self._room.locked() or len(entries) == self._together):
                        await self._begin(entries)
                        entries = []
                    await self._room.acquire()
                    entries.append(self._entry(line))
        except Problem as problem:
            self._stopped = problem
        finally:
            if coming is not None:
                coming.cancel()
        if entries:
            await self._begin(entries)
        self._ready.put_nowait(None)

    def _entry(self, line: bytes | Problem) -> Entry:
        index = self._counts["records"]
        self._counts["records"] += 1
        if isinstance(line, Problem):
            return Entry(index, line)
        try:
            return Entry(index, parse_json(line, self._limits.json_depth, "the line"))
        except Problem as problem:
            return Entry(index, problem)

    async def _begin(self, entries: list[Entry]) -> None:
        await info_of(self._request.scope).spend_in_time(len(entries))
        refuse_repeated(entries, self._seen)
        task = asyncio.create_task(self._answers(entries))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        self._ready.put_nowait(task)

    async def _answers(self, entries: list[Entry]) -> list[Answer]:
        try:
            return await self._answering.texts(entries, self._options, self._seconds, GenerateRecord)
        except EngineError as error:
            return [placed(problem_of(error), entry) for entry in entries]
        except Exception:
            _log.exception("request %s: %d records failed inside", request_id(self._request.scope), len(entries))
            return [placed(Problem("internal", "an unexpected error; the server's log has it"), e) for e in entries]

    async def _write(self, scope: Scope, send: Send) -> None:
        identifier, info = request_id(scope), info_of(scope)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while (task := await self._ready.get()) is not None:
            answers = await task
            for answer in answers:
                info.count(outcome(answer))
                self._counts["errors" if isinstance(answer, Problem) else "ok"] += 1
            body = b"".join(_line(body_of(answer, identifier)) for answer in answers)
            await send({"type": "http.response.body", "body": body, "more_body": True})
            for _ in answers:
                self._room.release()
        end: dict[str, Any] = {"status": "end", **self._counts}
        if self._stopped is not None:
            end["error"] = self._stopped.as_dict(identifier)
        await send({"type": "http.response.body", "body": _line(end)})


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode() + b"\n"
