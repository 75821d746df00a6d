"""The HTTP interface over an engine, and the page of the plan studio."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from agggen_platform.client import answers
from agggen_platform.serving.config import ServeConfig
from serve import schemas
from serve.answering import Answer, RawRecord, RecordService, answers_json, reject_duplicates, while_connected
from serve.errors import MEDIA_TYPE as PROBLEM
from serve.errors import Problem, combined_problem
from serve.handles import HandleEngine
from serve.observe import Metrics, RequestContext, add_exception_handlers
from serve.reading import (
    JSON,
    NDJSON,
    Admission,
    StreamBody,
    StreamBuffer,
    check_length,
    check_media_type,
    parsed,
    read_body,
)
from serve.security import access_check
from serve.streaming import Stream

if TYPE_CHECKING:
    from serve.tracing import Traces

MODEL = "X-Model"
_DESCRIPTION = """\
Texts from data, following plans that users can read and change.

**Status.** Answers are in the order of the records (`index`), each with its own `status`, `ok` or `error`. The request
is 200 if at least one record succeeds. If all records fail, it fails with the status of one of their problems, lists
all problems in `errors`, and is retryable if any of them is retryable.

**Errors** are problem+json (RFC 9457); `type` is `urn:agggen:problem:CODE`. `record`, `index` and `field` locate the
error; `retryable` (and Retry-After) tells whether the same request may succeed later.

**Ids** must be unique in a request. They are returned; a record without an id gets its index.

**Subjects** may be empty if a triple has no named subject. `GET /v1/model` lists the limits of this server.
"""

Deadline = Annotated[
    float | None,
    Header(alias="X-Deadline-Seconds", gt=0, allow_inf_nan=False, description="longer work is cancelled (504)"),
]

STUDIO = Path(__file__).parent / "studio"
# Texts and values are never interpreted as markup: the policy forbids inline scripts, other hosts and, in browsers that
# support trusted types, HTML strings.
_STUDIO_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; trusted-types 'none'; "
    "require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

v1 = APIRouter(prefix="/v1")
probes = APIRouter()


def api(
    engine: HandleEngine,
    config: ServeConfig,
    *,
    compared: HandleEngine | None = None,
    meters: Metrics | None = None,
    admission: Admission | None = None,
    echo_request_id: bool = True,
    traces: Traces | None = None,
) -> FastAPI:
    """Builds the application. Raises ConfigError if other machines could reach it without keys, or for invalid keys.

    `compared`: the engine of a second model, used by requests whose X-Model is its fingerprint. `admission`: None: a
    new one, which admits `limits.queue` requests. `echo_request_id`: False if the server in front already adds the id.
    """
    paths = [route.path for router in (v1, probes) for route in router.routes if isinstance(route, APIRoute)]
    middleware = [Middleware(RequestContext, meters=meters, paths=[*paths, "/"], echo=echo_request_id)]
    if traces is not None:
        middleware.append(Middleware(traces.middleware))
    metadata: dict[str, Any] = {"title": "agggen", "version": "1", "description": _DESCRIPTION}
    app = FastAPI(**metadata, docs_url=None, redoc_url=None, redirect_slashes=False, middleware=middleware)
    app.state.engine, app.state.config = engine, config
    app.state.services = [RecordService(model, config.limits) for model in (engine, compared) if model]
    app.state.buffer = StreamBuffer(config.limits)
    app.state.admission = admission or Admission(config.limits.queue)
    checks = (access_check(config), app.state.admission, _choose_model)
    app.include_router(v1, dependencies=[Depends(check) for check in checks])
    app.include_router(probes)
    if config.studio:
        _add_studio(app)
    add_exception_handlers(app)
    app.openapi = lambda: _openapi_document(app)  # type: ignore[method-assign]
    return app


async def _choose_model(
    request: Request,
    model: Annotated[
        str | None, Header(alias=MODEL, description="fingerprint of the model to use, if two are served")
    ] = None,
) -> None:
    """Sets ``request.state.service`` to the service of the model in X-Model; without the header, to the first."""
    for service in request.app.state.services:
        if model is None or (await service.card())["fingerprint"] == model:
            request.state.service = service
            return
    raise Problem("invalid", f"no model {model:.80} is served; GET /v1/model lists the served models", field=MODEL)


_PROBLEM_CONTENT = {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemDict"}}}
_HEADERS = {
    "X-Request-Id": {"description": "names the request in the log", "schema": {"type": "string"}},
    "Retry-After": {"description": "seconds after which a retry may succeed", "schema": {"type": "integer"}},
}
_PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request was refused", "content": _PROBLEM_CONTENT, "headers": _HEADERS},
    "5XX": {"description": "The request was not answered", "content": _PROBLEM_CONTENT, "headers": _HEADERS},
}


def _openapi_document(app: FastAPI) -> dict[str, Any]:
    """FastAPI's OpenAPI document plus the schemas of request bodies, which FastAPI does not parse."""
    if app.openapi_schema is None:
        models: Any = [
            (body, "validation")
            for body in (schemas.GenerateRequest, schemas.PlanRequest, schemas.AlignRequest, schemas.CheckRequest)
        ]
        _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")
        FastAPI.openapi(app)["components"]["schemas"].update(definitions["$defs"])
    return FastAPI.openapi(app)


def _documentation(answer: Any, body: type[schemas.RequestBody]) -> dict[str, Any]:
    """Route options that document an operation whose body FastAPI does not parse and whose response is already JSON."""
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}
    return {
        "responses": _PROBLEM_RESPONSES | {200: {"model": answer}},
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


@v1.post("/generate", **_documentation(answers.TextsResponse, schemas.GenerateRequest))
async def generate(request: Request, deadline: Deadline = None) -> Response:
    """Texts for each record, ranked by the joint probability of plan and text. A record's `plan` is followed exactly;
    it must name each predicate of the record once, or with `complete` the model adds missing ones."""
    return await _answer(request, RecordService.generate, schemas.GenerateRequest, schemas.GenerateOptions, deadline)


@v1.post("/plan", **_documentation(answers.PlansResponse, schemas.PlanRequest))
async def plan(request: Request, deadline: Deadline = None) -> Response:
    """The k best plans of each record, with their probabilities among all plans that `level` allows."""
    return await _answer(request, RecordService.plan, schemas.PlanRequest, schemas.PlanOptions, deadline)


@v1.post("/align", **_documentation(answers.AlignedResponse, schemas.AlignRequest))
async def align(request: Request, deadline: Deadline = None) -> Response:
    """The most likely triples that each fact of a text expresses, with their posterior probability."""
    return await _answer(request, RecordService.align, schemas.AlignRequest, schemas.NoOptions, deadline)


@v1.post("/check", **_documentation(answers.CheckedResponse, schemas.CheckRequest))
async def check(request: Request, deadline: Deadline = None) -> Response:
    """How and where each text expresses the values of its record, and every fault that the strict check finds; with a
    critic also scores, a risk, and a verdict on each triple."""
    return await _answer(request, RecordService.check, schemas.CheckRequest, schemas.NoOptions, deadline)


async def _answer(
    request: Request,
    work: Callable[[RecordService, list[RawRecord], schemas.Options, float], Awaitable[list[Answer]]],
    body_model: type[schemas.RequestBody],
    options_model: type[schemas.Options],
    deadline: float | None,
) -> Response:
    service: RecordService = request.state.service
    config: ServeConfig = request.app.state.config
    check_media_type(request, JSON)
    for name in request.query_params:
        raise Problem("invalid", f"query.{name}: options are in the body, not in the query", field=f"query.{name}")
    data = await read_body(request, config.limits.body_bytes, config.limits.deadline_s)
    started_at, seconds = time.monotonic(), _seconds(deadline, config)
    body = schemas.validated(body_model, await parsed(data))
    if len(body.records) > config.limits.records:
        detail = f"{len(body.records)} records, at most {config.limits.records}: send several requests, or a stream"
        raise Problem("too-large", detail, field="records")
    requested = schemas.validated(options_model, body.options if "options" in body.model_fields_set else {}, "options")
    options = await _limited_options(request, requested, seconds)
    entries = [RawRecord(index, raw) for index, raw in enumerate(body.records)]
    reject_duplicates(entries, {})
    seconds_left = max(0.0, seconds - (time.monotonic() - started_at))
    results = await while_connected(request.receive, work(service, entries, options, seconds_left))
    answers_of_records = answers_json(results)
    problems = [result for result in results if isinstance(result, Problem)]
    if len(problems) == len(results):
        raise combined_problem(problems)
    return _json({"answers": answers_of_records})


@v1.post(
    "/generate:stream",
    responses=_PROBLEM_RESPONSES | {200: {"content": {NDJSON: {"schema": {"type": "string"}}}}},
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}},
)
async def stream(
    request: Request, query: Annotated[schemas.GenerateOptions, Query()], deadline: Deadline = None
) -> Response:
    """One record of `/v1/generate` per line; one answer per line in the same order, then a line with the status `end`,
    counts of `records`, `ok` and `errors`, and an `error` if the rest of the input was not read.

    Blank lines are ignored. The deadline applies to each record. The server processes only a bounded number of records
    beyond the answers that the client has read: read answers while sending.
    """
    config: ServeConfig = request.app.state.config
    check_media_type(request, NDJSON)
    check_length(request, config.limits.stream_bytes)
    seconds = _seconds(deadline, config)
    options = await _limited_options(request, query, seconds)
    body = StreamBody(request.receive, request.app.state.buffer)
    return Stream(body, request.state.service, config, options, seconds)


def _seconds(deadline: float | None, config: ServeConfig) -> float:
    limits = config.limits
    return min(limits.deadline_s if deadline is None else deadline, limits.longest_deadline_s)


async def _limited_options(request: Request, options: schemas.Options, seconds: float) -> schemas.Options:
    """The options within the limits; raises Problem (504) if the engine does not return its model card in time."""
    try:
        async with asyncio.timeout(seconds):
            card = await request.state.service.card()
    except TimeoutError:
        raise Problem("deadline", f"the engine did not answer within {seconds:g} seconds") from None
    return schemas.options_within_limits(options, request.app.state.config.limits, card["largest_group"])


@v1.get("/model", responses=_PROBLEM_RESPONSES | {200: {"model": answers.ModelDict}})
async def model(request: Request) -> Response:
    """The served model, the limits of this server, and how many records a client should keep in flight."""
    card, state = await request.state.service.card(), request.app.state
    compared = [await service.card() for service in state.services[1:]]
    members = {
        "metrics": {name: value if math.isfinite(value) else None for name, value in card["metrics"].items()},
        "compared": {name: compared[0][name] for name in ("address", "fingerprint")} if compared else None,
        "records_at_once": await state.engine.records_at_once(),
        "limits": asdict(state.config.limits),
    }
    return _json(card | members)


@v1.get("/examples", responses=_PROBLEM_RESPONSES | {200: {"model": answers.ExamplesDict}})
async def examples(request: Request) -> Response:
    """Records of the test split of the served bundle's corpus, with their reference texts; none if the corpus is not in
    the catalogue, or not on the endpoint's machine."""
    return _json(await request.app.state.engine.examples())


@probes.get("/healthz")
async def healthz() -> dict[str, str]:
    """Answers as long as the process runs."""
    return {"status": "alive"}


@probes.get("/readyz", responses=_PROBLEM_RESPONSES)
async def readyz(request: Request) -> dict[str, str]:
    """Succeeds once the bundle is loaded and has passed its self-test, while this replica admits requests."""
    if request.app.state.admission.closed:
        raise Problem("unavailable", "this endpoint is shutting down")
    return {"status": "ready", "model": (await request.app.state.engine.ready())["fingerprint"]}


class _Files(StaticFiles):
    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers.update(_STUDIO_HEADERS)
        return response


def _add_studio(app: FastAPI) -> None:
    """Adds the plan studio, a page without data: no key is needed, except for the requests that the page sends."""
    files = _Files(directory=STUDIO)

    async def index(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    app.add_api_route("/", index, include_in_schema=False)
    app.mount("/studio", files)


def _json(data: dict[str, Any]) -> Response:
    return Response(json.dumps(data, ensure_ascii=False, allow_nan=False).encode(), media_type=JSON)
