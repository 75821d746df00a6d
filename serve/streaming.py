"""The NDJSON stream of `/v1/generate:stream`: a record per line in, an answer per line out, in the same order.

At most `limits.window` records are in progress or have an answer that the client has not read.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agggen_platform.serving.config import ServeConfig
from serve.answering import Answer, RawRecord, RecordService, answers_json, reject_duplicates, with_location
from serve.errors import Problem
from serve.observe import current_request
from serve.reading import NDJSON, StreamBody, parsed
from serve.schemas import GenerateOptions

_log = logging.getLogger("agggen.serve")


async def line_groups(body: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[list[bytes | Problem]]:
    """The non-blank lines of a body, grouped by chunk; in place of a line of more than `max_bytes`, a Problem."""
    unfinished = bytearray()  # the start of the last line; if it is too long, only its first bytes

    def checked(line: bytes) -> list[bytes | Problem]:
        """The line, or a Problem if it is too long; nothing if it is blank."""
        if len(line) > max_bytes:
            return [Problem("too-large", f"the line is longer than {max_bytes} bytes")]
        return [line] if line.strip() else []

    async for chunk in body:
        *line_ends, remainder = chunk.split(b"\n")
        lines: list[bytes | Problem] = []
        for line_end in line_ends:
            lines += checked(bytes(unfinished) + line_end)
            unfinished.clear()
        unfinished += remainder
        del unfinished[max_bytes + 1 :]
        if lines:
            yield lines
    if lines := checked(bytes(unfinished)):
        yield lines


class Stream(Response):
    """The response to a stream of records; the request is read while the response is sent."""

    media_type = NDJSON

    def __init__(
        self, body: StreamBody, service: RecordService, config: ServeConfig, options: GenerateOptions, seconds: float
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._body, self._service, self._options, self._seconds = body, service, options, seconds
        self._limits = config.limits
        self._wait_seconds = config.batch.wait_ms / 1000
        self._call_records = max(1, min(config.batch.records, config.limits.window // 4))  # per call
        self._window = asyncio.Semaphore(config.limits.window)
        self._pending: asyncio.Queue[asyncio.Task[list[Answer]] | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[list[Answer]]] = set()
        self._first_index: dict[str, int] = {}
        self._counts = {"records": 0, "ok": 0, "errors": 0}
        self._stop_problem: Problem | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        receiver = asyncio.create_task(self._body.receive())
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write(send))
        running = {receiver, reader, writer}
        try:
            while not writer.done():
                finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    task.result()
        except ClientDisconnect:
            answered = self._counts["ok"] + self._counts["errors"]
            _log.info("request %s: the client disconnected after %d answers", current_request().id, answered)
        finally:
            tasks: list[asyncio.Task[Any]] = [receiver, reader, writer, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._body.close()

    async def _read(self) -> None:
        """Reads and submits records until the end of the input or a Problem."""
        groups = line_groups(self._body.pieces(), self._limits.line_bytes)
        next_lines: asyncio.Future[list[bytes | Problem] | None] | None = None
        entries: list[RawRecord] = []
        try:
            while True:
                next_lines = next_lines or asyncio.ensure_future(anext(groups, None))
                if entries and not (await asyncio.wait({next_lines}, timeout=self._wait_seconds))[0]:
                    self._submit(entries)
                    entries = []
                lines, next_lines = await next_lines, None
                if lines is None:
                    break
                for line in lines:
                    if self._counts["records"] == self._limits.stream_records:
                        raise Problem("too-large", f"a stream may have at most {self._limits.stream_records} records")
                    if entries and (self._window.locked() or len(entries) == self._call_records):
                        self._submit(entries)
                        entries = []
                    await self._window.acquire()
                    entries.append(await self._entry(line))
        except Problem as problem:
            self._stop_problem = problem
        finally:
            if next_lines is not None:
                next_lines.cancel()
        if entries:
            self._submit(entries)
        self._pending.put_nowait(None)

    async def _entry(self, line: bytes | Problem) -> RawRecord:
        index = self._counts["records"]
        self._counts["records"] += 1
        try:
            return RawRecord(index, line if isinstance(line, Problem) else await parsed(line, "the line"))
        except Problem as problem:
            return RawRecord(index, problem)

    def _submit(self, entries: list[RawRecord]) -> None:
        reject_duplicates(entries, self._first_index)
        task = asyncio.create_task(self._answers(entries))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._pending.put_nowait(task)

    async def _answers(self, entries: list[RawRecord]) -> list[Answer]:
        try:
            return await self._service.generate(entries, self._options, self._seconds)
        except Exception:
            _log.exception("request %s: %d records failed with an internal error", current_request().id, len(entries))
            return [with_location(Problem("internal", "an unexpected error; see the server's log"), e) for e in entries]

    async def _write(self, send: Send) -> None:
        info = current_request()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while (task := await self._pending.get()) is not None:
            answers = await task
            body = b"".join(map(_line, answers_json(answers)))
            for answer in answers:
                self._counts["errors" if isinstance(answer, Problem) else "ok"] += 1
            await send({"type": "http.response.body", "body": body, "more_body": True})
            for _ in answers:
                self._window.release()
        end: dict[str, Any] = {"status": "end", **self._counts}
        if self._stop_problem is not None:
            info.problem = self._stop_problem.kind.code
            end["error"] = self._stop_problem.as_dict(info.id)
        await send({"type": "http.response.body", "body": _line(end)})


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode() + b"\n"
