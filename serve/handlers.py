"""Every error that a route raises is answered as a problem."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from agggen.errors import AggGenError
from serve.engine import EngineError
from serve.errors import Problem, problem_of
from serve.observe import current_request
from serve.schemas import GenerateOptions, PlanOptions, problem_at


def install(app: FastAPI) -> None:
    """Registers the handlers with the application; `serve.observe.RequestContext` answers what they leave."""
    for kind in (Problem, AggGenError, EngineError, HTTPException, RequestValidationError, ClientDisconnect):
        app.add_exception_handler(kind, _answered)


async def _answered(request: Request, error: Exception) -> Response:
    problem = _problem(request, error)
    info = current_request()
    info.problem = problem.kind.code
    return problem.response(info.id)


def _problem(request: Request, error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, AggGenError | EngineError):
        return problem_of(error)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        if first["loc"][0] == "header":
            return Problem("invalid", first["msg"], field=str(first["loc"][1]))
        return problem_at(first, [], [*GenerateOptions.model_fields, *PlanOptions.model_fields])
    if isinstance(error, ClientDisconnect):
        return Problem("gone", "the client went away")
    if isinstance(error, HTTPException) and error.status_code == 404:
        return Problem("not-found", f"there is nothing at {request.url.path}")
    if isinstance(error, HTTPException) and error.status_code == 405:
        headers = dict(error.headers or {})
        return Problem("method", f"{request.method} is not allowed here", headers=headers)
    raise error
