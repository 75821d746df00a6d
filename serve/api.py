"""The HTTP interface over an engine.

A request is answered with 200 if any of its records has an answer, each record with its own ``status``; otherwise with
the status of `serve.errors.combined`. The deadline (``X-Deadline-Seconds``, else `limits.deadline_s`, at most
`limits.longest_deadline_s`) starts when the body has been read.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.middleware import Middleware
from starlette.responses import Response

from agggen_platform.client.answers import (
    AlignedResponse,
    CheckedResponse,
    ExamplesDict,
    ModelDict,
    PlansResponse,
    TextsResponse,
)
from agggen_platform.serving.config import ServeConfig
from serve.answering import Answer, Answering, Entry, body_of, outcome, reject_duplicates, while_connected
from serve.errors import MEDIA_TYPE as PROBLEM
from serve.errors import Problem, combined
from serve.handles import HandleEngine
from serve.limits import Admission, StreamBody, StreamBuffer, check_head, read_body
from serve.meters import Meters
from serve.observe import RequestContext, add_exception_handlers, current_request
from serve.page import add_page
from serve.reading import JSON, NDJSON, check_media_type, parsed
from serve.schemas import (
    AlignRequest,
    CheckRequest,
    GenerateOptions,
    GenerateRequest,
    NoOptions,
    Options,
    PlanOptions,
    PlanRequest,
    RequestBody,
    bounded,
    checked,
)
from serve.security import access_check
from serve.streaming import Stream

if TYPE_CHECKING:
    from serve.tracing import Traces

DEADLINE = "X-Deadline-Seconds"
MODEL = "X-Model"
_ABOUT = """\
Texts from data, by plans that can be read and changed.

**Status.** A request is 200 as soon as one of its records has an answer: each answer has its own `status`, `ok` or
`error`, in the order of the records (`index`). If none has, the request fails with the status of one of their problems,
and `errors` lists all of them; it is retryable if a retry may help any record. So a request of one record fails if that
record fails.

**Errors** are problem+json (RFC 9457); `type` is `urn:agggen:problem:CODE`. `record`, `index` and `field` say where it
went wrong; `retryable` (and Retry-After) whether the same request may succeed later.

**Ids** are returned, and must be unique in a request. A record without an id is answered under its index.

**Subjects** may be empty: the triple then has no named subject. `GET /v1/model` lists the limits of this server.
"""

Deadline = Annotated[
    float | None,
    Header(alias=DEADLINE, gt=0, allow_inf_nan=False, description="work that takes longer is cancelled (504)"),
]

v1 = APIRouter(prefix="/v1")
probes = APIRouter()


def api(
    engine: HandleEngine,
    config: ServeConfig,
    *,
    compared: HandleEngine | None = None,
    meters: Meters | None = None,
    admission: Admission | None = None,
    echo_request_id: bool = True,
    traces: Traces | None = None,
) -> FastAPI:
    """Builds the application.

    Args:
        engine: plans, writes, aligns and checks.
        config: limits, security and whether there is a page.
        compared: a second model, which answers requests whose X-Model is its fingerprint.
        meters, traces: None: requests are not counted, or not traced.
        admission: limits concurrent requests; None: a new one, which admits `limits.queue` of them.
        echo_request_id: False if the server in front already puts the request id into answers.

    Raises:
        ConfigError: other machines could reach the endpoint without keys, or the keys cannot be read.
    """
    paths = [route.path for router in (v1, probes) for route in router.routes if isinstance(route, APIRoute)]
    middleware = [Middleware(RequestContext, meters=meters, paths=[*paths, "/"], echo=echo_request_id)]
    if traces is not None:
        middleware.append(traces.middleware())
    shown: dict[str, Any] = {"title": "agggen", "version": "1", "description": _ABOUT}
    app = FastAPI(**shown, docs_url=None, redoc_url=None, redirect_slashes=False, middleware=middleware)
    app.state.engine, app.state.config = engine, config
    app.state.answerings = [Answering(model, config.limits) for model in (engine, compared) if model]
    app.state.buffer = StreamBuffer(config.limits)
    app.state.admission = admission or Admission(config.limits.queue)
    app.include_router(
        v1, dependencies=[Depends(access_check(config)), Depends(app.state.admission), Depends(_choose_model)]
    )
    app.include_router(probes)
    if config.studio:
        add_page(app)
    add_exception_handlers(app)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


async def _choose_model(
    request: Request,
    model: Annotated[
        str | None, Header(alias=MODEL, description="fingerprint of the model to use, if two are served")
    ] = None,
) -> None:
    """Sets ``request.state.answering`` to that of the model that X-Model names, else to the first."""
    for answering in request.app.state.answerings:
        if model is None or (await answering.card()).fingerprint == model:
            request.state.answering = answering
            return
    raise Problem("invalid", f"no model {model:.80} is served here; GET /v1/model names those that are", field=MODEL)


# --- the OpenAPI document ---------------------------------------------------------------------------------------------


_FAILED: dict[str, Any] = {
    "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemDict"}}},
    "headers": {"X-Request-Id": {"description": "names the request in the log", "schema": {"type": "string"}}},
}
_RETRY = {"Retry-After": {"description": "seconds after which a retry may succeed", "schema": {"type": "integer"}}}
_FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": _FAILED | {"description": "The request was refused"},
    "5XX": _FAILED | {"description": "The request was not answered", "headers": _FAILED["headers"] | _RETRY},
}


def _document(app: FastAPI) -> dict[str, Any]:
    """FastAPI's OpenAPI document plus the schemas of request bodies, which FastAPI does not parse."""
    if app.openapi_schema is None:
        models: Any = [(body, "validation") for body in (GenerateRequest, PlanRequest, AlignRequest, CheckRequest)]
        _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")
        FastAPI.openapi(app)["components"]["schemas"].update(definitions["$defs"])
    return FastAPI.openapi(app)


def _described(answer: Any, body: type[RequestBody]) -> dict[str, Any]:
    """Route options that document an operation whose body FastAPI does not parse and whose response is already JSON."""
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}
    return {
        "responses": _FAILURES | {200: {"model": answer}},
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


# --- records ----------------------------------------------------------------------------------------------------------


@v1.post("/generate", **_described(TextsResponse, GenerateRequest))
async def generate(request: Request, deadline: Deadline = None) -> Response:
    """Texts for each record, ranked jointly with their plans. A record's own `plan` is followed; it must name each of
    the record's predicates once, or with `complete` the model adds the predicates that the plan omits."""
    return await _answer(request, Answering.generate, GenerateRequest, GenerateOptions, deadline)


@v1.post("/plan", **_described(PlansResponse, PlanRequest))
async def plan(request: Request, deadline: Deadline = None) -> Response:
    """The k best plans of each record, with their probabilities among all plans that `level` allows."""
    return await _answer(request, Answering.plan, PlanRequest, PlanOptions, deadline)


@v1.post("/align", **_described(AlignedResponse, AlignRequest))
async def align(request: Request, deadline: Deadline = None) -> Response:
    """The most likely triples behind each fact of a text, with the posterior of each fact's group."""
    return await _answer(request, Answering.align, AlignRequest, NoOptions, deadline)


@v1.post("/check", **_described(CheckedResponse, CheckRequest))
async def check(request: Request, deadline: Deadline = None) -> Response:
    """How and where each text says the values of its record, and every fault that the strict check finds.

    If the endpoint has a critic: also scores, a risk, and the critic's verdict on each triple.
    """
    return await _answer(request, Answering.check, CheckRequest, NoOptions, deadline)


async def _answer(
    request: Request,
    work: Callable[[Answering, list[Entry], Options, float], Awaitable[list[Answer]]],
    body_model: type[RequestBody],
    options_model: type[Options],
    deadline: float | None,
) -> Response:
    """Reads the request, asks the engine, and answers."""
    answering: Answering = request.state.answering
    config: ServeConfig = request.app.state.config
    check_media_type(request, JSON)
    for name in request.query_params:
        raise Problem("invalid", f"query.{name}: options are in the body, not in the query", field=f"query.{name}")
    data = await read_body(request, config.limits.body_bytes, config.limits.deadline_s)
    began, seconds = time.monotonic(), _seconds(deadline, config)
    body = checked(body_model, await parsed(data))
    if len(body.records) > config.limits.records:
        detail = f"there are {len(body.records)} records; a request may have {config.limits.records}, a stream more"
        raise Problem("too-large", detail, field="records")
    requested = checked(options_model, body.options if "options" in body.model_fields_set else {}, "options")
    options = await _bounded(request, requested, seconds)
    entries = [Entry(index, raw) for index, raw in enumerate(body.records)]
    reject_duplicates(entries, {})
    left = max(0.0, seconds - (time.monotonic() - began))
    answers = await while_connected(request.receive, work(answering, entries, options, left))
    info = current_request()
    info.outcomes.update(map(outcome, answers))
    problems = [answer for answer in answers if isinstance(answer, Problem)]
    if len(problems) == len(answers):
        raise combined(problems)
    return _json({"answers": [body_of(answer, info.id) for answer in answers]})


@v1.post(
    "/generate:stream",
    responses=_FAILURES | {200: {"content": {NDJSON: {"schema": {"type": "string"}}}}},
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}},
)
async def stream(request: Request, query: Annotated[GenerateOptions, Query()], deadline: Deadline = None) -> Response:
    """One record of `/v1/generate` per line; one answer per line in the same order, then a line with the status `end`,
    counts of `records`, `ok` and `errors`, and an `error` if the rest of the input was not read.

    Blank lines are ignored. The deadline applies to each record. The server processes only a bounded number of records
    beyond the answers that the client has read, so read answers while you send.
    """
    config: ServeConfig = request.app.state.config
    check_media_type(request, NDJSON)
    check_head(request, config.limits.stream_bytes)
    seconds = _seconds(deadline, config)
    options = await _bounded(request, query, seconds)
    body = StreamBody(request.receive, request.app.state.buffer)
    return Stream(body, request.state.answering, config, options, seconds)


def _seconds(deadline: float | None, config: ServeConfig) -> float:
    limits = config.limits
    return min(limits.deadline_s if deadline is None else deadline, limits.longest_deadline_s)


async def _bounded(request: Request, options: Options, seconds: float) -> Options:
    """The options within the limits; raises Problem (504) if the engine does not return its model card in time."""
    try:
        async with asyncio.timeout(seconds):
            card = await request.state.answering.card()
    except TimeoutError:
        raise Problem("deadline", f"the engine did not answer within {seconds:g} seconds") from None
    return bounded(options, request.app.state.config.limits, card)


# --- the model, examples and probes -----------------------------------------------------------------------------------


@v1.get("/model", responses=_FAILURES | {200: {"model": ModelDict}})
async def model(request: Request) -> Response:
    """The served model, the limits of this server, and how many records a client should keep in flight."""
    card = asdict(await request.state.answering.card())
    others = [await answering.card() for answering in request.app.state.answerings[1:]]
    card["compared"] = next(({"address": other.address, "fingerprint": other.fingerprint} for other in others), None)
    card["records_at_once"] = await request.app.state.engine.records_at_once()
    card["metrics"] = {name: value if math.isfinite(value) else None for name, value in card["metrics"].items()}
    return _json(card | {"limits": asdict(request.app.state.config.limits)})


@v1.get("/examples", responses=_FAILURES | {200: {"model": ExamplesDict}})
async def examples(request: Request) -> Response:
    """Records of the test split of the served bundle's corpus, with texts by people or by the corpus's grammar; none
    if the corpus is not in the catalogue, or not on the endpoint's machine."""
    split = await request.app.state.engine.examples()
    records = [
        {"id": r.id, "triples": r.as_dict()["triples"], "texts": [reference.text for reference in r.references]}
        for r in split.records
    ]
    return _json({"corpus": split.corpus, "split": split.split, "records": records})


@probes.get("/healthz")
async def healthz() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "alive"}


@probes.get("/readyz", responses=_FAILURES)
async def readyz(request: Request) -> dict[str, str]:
    """Whether the bundle is loaded and has passed its self-test, and this replica admits requests."""
    if request.app.state.admission.closed:
        raise Problem("unavailable", "this endpoint is shutting down")
    return {"status": "ready", "model": (await request.app.state.engine.ready()).fingerprint}


def _json(data: dict[str, Any]) -> Response:
    return Response(json.dumps(data, ensure_ascii=False, allow_nan=False).encode(), media_type=JSON)
