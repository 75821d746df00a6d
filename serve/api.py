"""The HTTP interface over any engine: parses, asks, answers.

Which status a request gets: 200 if any of its records has an answer, and each record its own ``status`` in it; else
that of `serve.errors.combined` (one record's fault is its request's). The deadline (``X-Deadline-Seconds``, else
`limits.deadline_s`, at most `limits.longest_deadline_s`) runs from when the body has been read.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from starlette.responses import Response

from agggen_platform.serving.config import ServeConfig
from serve.answering import Answer, Answering, Entry, body_of, outcome, refuse_repeated, while_connected
from serve.asgi import info_of
from serve.engine import Engine, EngineError, ModelCard
from serve.errors import Problem, combined, install, request_id
from serve.guards import DEADLINE, guards
from serve.idempotency import AnswerStore
from serve.observe import Metrics
from serve.openapi import document
from serve.options import bounded
from serve.reading import CSV, JSON, NDJSON, TURTLE, media_type, parse_json, records_of
from serve.reading import body_of as request_body
from serve.schemas import (
    AlignOptions,
    Envelope,
    GenerateOptions,
    GenerateRecord,
    PlanOptions,
    RealiseOptions,
    RealiseRecord,
    checked,
)
from serve.streaming import Stream

GENERATE, PLAN, REALISE, ALIGN = "/v1/generate", "/v1/plan", "/v1/realise", "/v1/align"
STREAM, MODEL = "/v1/generate:stream", "/v1/model"
HEALTH, READY, METRICS, OPENAPI = "/healthz", "/readyz", "/metrics", "/openapi.json"
ROUTES = (GENERATE, PLAN, REALISE, ALIGN, STREAM, MODEL, HEALTH, READY, METRICS, OPENAPI)

_Options = TypeVar("_Options", GenerateOptions, RealiseOptions, PlanOptions, AlignOptions)


def api(
    engine: Engine,
    config: ServeConfig,
    *,
    metrics: Metrics | None = None,
    answers: AnswerStore | None = None,
    echo_request_id: bool = True,
) -> FastAPI:
    """The application.

    Args:
        engine: plans, writes, aligns.
        config: limits, security, log.
        metrics: of this replica; by default its own.
        answers: remembers the answers to idempotency keys; None: keys are ignored.
        echo_request_id: False where the server in front already puts the request id into answers.

    Raises:
        ConfigError: the endpoint would be reached by others without keys, or they cannot be read.
    """
    metrics = metrics or Metrics()
    answering = Answering(engine, config.limits)
    stack = guards(
        config,
        metrics,
        routes=ROUTES,
        stream_paths=(STREAM,),
        repeatable_paths=(GENERATE, PLAN, REALISE, ALIGN),
        health_paths=(HEALTH, READY),
        metrics_path=METRICS,
        answers=answers,
        echo_request_id=echo_request_id,
    )
    app = FastAPI(
        title="agggen", openapi_url=OPENAPI, docs_url=None, redoc_url=None, redirect_slashes=False, middleware=stack
    )
    install(app)
    app.openapi = lambda: document(config)  # type: ignore[method-assign]

    async def records(
        request: Request,
        options_model: type[_Options],
        known: tuple[str, ...],
        work: Callable[[Sequence[Entry], _Options, float], Awaitable[list[Answer]]],
    ) -> Response:
        given = media_type(request, known)
        data = await request_body(request)
        began = time.monotonic()
        if given == JSON:
            envelope = checked(Envelope, parse_json(data, config.limits.json_depth))
            raws, options = envelope.records, _options(request, options_model, envelope.options)
        else:
            raws, options = await records_of(data, given, config.limits), _options(request, options_model, {})
        if len(raws) > config.limits.records:
            detail = f"there are {len(raws)} records; a request may have {config.limits.records}, a stream more"
            raise Problem("too-large", detail, field="records")
        seconds = _seconds(request, config)
        card = await _in_time(answering.card(), seconds)
        options = bounded(options, config.limits, card)
        info = info_of(request.scope)
        info.spend(len(raws))
        entries = [Entry(index, raw) for index, raw in enumerate(raws)]
        refuse_repeated(entries, {})
        left = max(0.0, seconds - (time.monotonic() - began))
        found = await while_connected(request.receive, work(entries, options, left))
        for answer in found:
            info.count(outcome(answer))
        problems = [answer for answer in found if isinstance(answer, Problem)]
        if len(problems) == len(found):
            raise combined(problems)
        identifier = request_id(request.scope)
        return _json({"answers": [body_of(answer, identifier) for answer in found]})

    @app.post(GENERATE)
    async def generate(request: Request) -> Response:
        async def work(entries: Sequence[Entry], options: GenerateOptions, seconds: float) -> list[Answer]:
            return await answering.texts(entries, options, seconds, GenerateRecord)

        return await records(request, GenerateOptions, (JSON, CSV, TURTLE), work)

    @app.post(PLAN)
    async def plan(request: Request) -> Response:
        return await records(request, PlanOptions, (JSON, CSV, TURTLE), answering.plans)

    @app.post(REALISE)
    async def realise(request: Request) -> Response:
        async def work(entries: Sequence[Entry], options: RealiseOptions, seconds: float) -> list[Answer]:
            return await answering.texts(entries, options, seconds, RealiseRecord)

        return await records(request, RealiseOptions, (JSON,), work)

    @app.post(ALIGN)
    async def align(request: Request) -> Response:
        async def work(entries: Sequence[Entry], options: AlignOptions, seconds: float) -> list[Answer]:
            return await answering.alignments(entries, seconds)

        return await records(request, AlignOptions, (JSON,), work)

    @app.post(STREAM)
    async def stream(request: Request) -> Response:
        media_type(request, (NDJSON,))
        options = _options(request, GenerateOptions, {})
        seconds = _seconds(request, config)
        options = bounded(options, config.limits, await _in_time(answering.card(), seconds))
        return Stream(request, answering, config, options, seconds)

    @app.get(MODEL)
    async def model() -> Response:
        card = asdict(await answering.card())
        card["metrics"] = {name: value if math.isfinite(value) else None for name, value in card["metrics"].items()}
        return _json(card | {"limits": asdict(config.limits)})

    @app.get(HEALTH)
    async def health() -> Response:
        return _json({"status": "alive"})

    @app.get(READY)
    async def ready() -> Response:
        return _json({"status": "ready", "model": (await engine.ready()).fingerprint})

    @app.get(METRICS)
    async def prometheus(request: Request) -> Response:
        with suppress(EngineError):  # metrics are there before the model is
            metrics.serving(await answering.card())
        text, kind = metrics.exposition(request.headers.get("accept"))
        return Response(text, headers={"Content-Type": kind})

    return app


def _json(data: dict[str, Any]) -> Response:
    return Response(json.dumps(data, ensure_ascii=False, allow_nan=False).encode(), media_type=JSON)


async def _in_time(card: Awaitable[ModelCard], seconds: float) -> ModelCard:
    """What is served; raises Problem (504) if the engine does not say it within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await card
    except TimeoutError:
        raise Problem("deadline", f"the engine did not answer within {seconds:g} seconds") from None


def _options(request: Request, model: type[_Options], given: dict[str, Any]) -> _Options:
    """The options of the query and of the body; raises Problem for one that is in both, or twice in the query."""
    items = request.query_params.multi_items()
    query = dict(items)
    if len(query) < len(items):
        raise Problem("invalid", "the query names an option twice", field="query")
    if both := sorted(query.keys() & given.keys()):
        raise Problem("invalid", f"{both[0]!r} is both in the query and in the body", field=f"options.{both[0]}")
    asked = checked(model, query, "query", strict=False)
    return checked(model, given, "options").model_copy(
        update={name: getattr(asked, name) for name in asked.model_fields_set}
    )


def _seconds(request: Request, config: ServeConfig) -> float:
    given = request.headers.get(DEADLINE)
    if given is None:
        return config.limits.deadline_s
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise Problem("invalid", f"{DEADLINE} must be a number of seconds above 0", field=DEADLINE)
    return min(seconds, config.limits.longest_deadline_s)
