"""The OpenAPI document: addresses, bodies, answers and errors, with examples and the limits of this server."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from agggen_platform.serving.config import LimitsConfig, ServeConfig
from serve.errors import KINDS
from serve.errors import MEDIA_TYPE as PROBLEM
from serve.options import largest_options
from serve.reading import CSV, JSON, NDJSON, TURTLE
from serve.schemas import (
    EXAMPLE_RECORD,
    AlignRequest,
    AlignResponse,
    ErrorAnswer,
    GenerateRecord,
    GenerateRequest,
    GenerateResponse,
    HealthResponse,
    ModelResponse,
    PlanRequest,
    PlanResponse,
    ProblemBody,
    RealiseRequest,
    StreamEnd,
    TextsAnswer,
)

_MODELS = (
    GenerateRequest,
    PlanRequest,
    RealiseRequest,
    AlignRequest,
    GenerateResponse,
    PlanResponse,
    AlignResponse,
    StreamEnd,
    ModelResponse,
    HealthResponse,
    ProblemBody,
)
_ABOUT = """\
Texts from data, by plans that one can read and change.

**Which status.** A request is 200 as soon as one of its records has an answer: each answer has its own `status`, `ok`
or `error`, in the order of the records (`index`). If none has, the request has the status of their problem, with all of
them in `errors`; it is retryable if a retry may bring any of them an answer. So a request of one record fails where
that record does.

**Errors** are problem+json (RFC 9457); `type` is `urn:agggen:problem:CODE`. `record`, `index` and `field` say where it
went wrong; `retryable` (and Retry-After) whether the same request may succeed later.

**Ids** are given back, and stand once in a request: a later record with the same id is an error. A record without an id
is answered under its index.

**Records** are JSON; CSV has a triple a row (columns `subject`, `predicate`, `object`, optionally `id`); in Turtle the
triples of a subject form a record, in which stand local names and literals' texts (blank nodes are errors). Options of
a body that has no place for them stand in the query; in JSON either place will do.
"""
_CSV_EXAMPLE = "id,subject,predicate,object\nSi,Silicon,symbol,Si\nSi,Silicon,category,metalloid\n"
_TURTLE_EXAMPLE = '@prefix e: <http://example.org/> .\ne:Silicon e:symbol "Si" ; e:category e:metalloid .\n'
_STATUSES = {
    "POST": (400, 401, 403, 408, 409, 413, 415, 422, 429, 500, 503, 504),
    "GET": (401, 403, 413, 429, 500, 503),
}
_HEADERS = {
    "Retry-After": {"description": "seconds after which a retry may succeed", "schema": {"type": "integer"}},
    "X-Request-Id": {"description": "under which the log has the request", "schema": {"type": "string"}},
}


def document(config: ServeConfig) -> dict[str, Any]:
    """The document, for this configuration's limits."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in _MODELS], ref_template="#/components/schemas/{model}"
    )
    schemas = definitions["$defs"]
    _bound(schemas, config.limits)
    query = schemas["GenerateOptions"]["properties"], schemas["PlanOptions"]["properties"]
    paths = {
        "/v1/generate": _post(
            "generate",
            "Writes about records",
            "Plans, writes, and chooses jointly; a record with a `plan` is written by that plan.",
            _records(GenerateRequest, {"records": [EXAMPLE_RECORD], "options": {"n_best": 2}}),
            _answer(GenerateResponse),
            query[0],
        ),
        "/v1/plan": _post(
            "plan",
            "The most likely plans of records",
            "The k best plans with their probabilities among all plans of the record at that level.",
            _records(PlanRequest, {"records": [EXAMPLE_RECORD], "options": {"k": 3}}),
            _answer(PlanResponse),
            query[1],
        ),
        "/v1/realise": _post(
            "realise",
            "Writes by given plans",
            "A plan names every predicate of its record once; with `complete` the model adds what it omits.",
            _json(RealiseRequest, {"records": [EXAMPLE_RECORD | {"plan": "[category] [symbol]"}]}),
            _answer(GenerateResponse),
            schemas["RealiseOptions"]["properties"],
        ),
        "/v1/align": _post(
            "align",
            "Finds the triples behind each fact of a text",
            "The most likely alignment, with the posterior of each fact's group.",
            _json(AlignRequest, {"records": [EXAMPLE_RECORD | {"text": "Silicon (Si) is a metalloid."}]}),
            _answer(AlignResponse),
            {},
        ),
        "/v1/generate:stream": _post(
            "stream",
            "Writes about any number of records",
            "A record a line (as in `/v1/generate`), an answer a line in the same order, then a line with the status "
            "`end`. Blank lines do not count. The deadline is that of each record. At most "
            f"{config.limits.window} records have no answer that the client has taken: read while you send.",
            {NDJSON: {"schema": {"type": "string"}, "x-line": _ref(GenerateRecord)}},
            {NDJSON: {"schema": {"type": "string"}, "x-line": {"anyOf": [_ref(m) for m in _LINES]}}},
            query[0],
            repeatable=False,
        ),
        "/v1/model": _get("model", "What is served, and its limits", _answer(ModelResponse)),
        "/healthz": _get("alive", "Whether the process answers", _answer(HealthResponse), open_=True),
        "/readyz": _get(
            "ready", "Whether the bundle is loaded and has passed its self-test", _answer(HealthResponse), open_=True
        ),
        "/metrics": _get("metrics", "Prometheus metrics", {"text/plain": {"schema": {"type": "string"}}}),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "agggen", "version": "1", "description": _ABOUT, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer KEY"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
        "security": [{"bearer": []}, {"key": []}] + ([] if config.security.keys_file else [{}]),
    }


_LINES = (TextsAnswer, ErrorAnswer, StreamEnd)


def _bound(schemas: dict[str, Any], limits: LimitsConfig) -> None:
    """Writes this server's limits into the schemas."""
    most = largest_options(limits)
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        if name.endswith("Options"):
            for option, largest in most.items():
                if option in properties:
                    one = properties[option]
                    if one.get("default") is not None:
                        one["default"] = min(one["default"], largest)
                    next((part for part in one.get("anyOf", []) if part["type"] == "integer"), one)["maximum"] = largest
        if name.endswith("Request"):
            properties["records"]["maxItems"] = limits.records
        if name.endswith("Record") or name == "RecordIn":
            properties["triples"]["maxItems"] = limits.triples


def _ref(model: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _json(model: type, example: dict[str, Any]) -> dict[str, Any]:
    return {JSON: {"schema": _ref(model), "example": example}}


def _records(model: type, example: dict[str, Any]) -> dict[str, Any]:
    return _json(model, example) | {
        CSV: {"schema": {"type": "string"}, "example": _CSV_EXAMPLE},
        TURTLE: {"schema": {"type": "string"}, "example": _TURTLE_EXAMPLE},
    }


def _answer(model: type) -> dict[str, Any]:
    return {JSON: {"schema": _ref(model)}}


def _errors(method: str) -> dict[str, Any]:
    found = {}
    for status in _STATUSES[method]:
        titles = "; ".join(kind.title for kind in KINDS.values() if kind.status == status)
        found[str(status)] = {
            "description": titles,
            "headers": _HEADERS,
            "content": {PROBLEM: {"schema": _ref(ProblemBody)}},
        }
    return found


def _post(
    name: str,
    summary: str,
    about: str,
    body: dict[str, Any],
    answer: dict[str, Any],
    query: dict[str, Any],
    repeatable: bool = True,
) -> dict[str, Any]:
    parameters = [
        {
            "name": "X-Deadline-Seconds",
            "in": "header",
            "description": "what takes longer is given up (504)",
            "schema": {"type": "number", "exclusiveMinimum": 0},
        }
    ]
    if repeatable:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "a request that is sent again with its key gets the same answer",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            }
        )
    for option, schema in query.items():
        parameters.append(
            {"name": option, "in": "query", "description": schema.get("description", ""), "schema": schema}
        )
    return {
        "post": {
            "operationId": name,
            "summary": summary,
            "description": about,
            "parameters": parameters,
            "requestBody": {"required": True, "content": body},
            "responses": {
                "200": {
                    "description": "Answers",
                    "headers": {"X-Request-Id": _HEADERS["X-Request-Id"]},
                    "content": answer,
                }
            }
            | _errors("POST"),
        }
    }


def _get(name: str, summary: str, answer: dict[str, Any], open_: bool = False) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": summary, "content": answer}} | _errors("GET"),
    }
    return {"get": operation | ({"security": []} if open_ else {})}
