"""All that stands between a request and its handler, in its order: the only place that knows it."""

from __future__ import annotations

from collections.abc import Collection

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from agggen_platform.serving.config import ServeConfig
from serve.errors import Unexpected
from serve.idempotency import AnswerStore, Idempotency
from serve.limits import Admission, BodyLimit, Pace
from serve.observe import Metrics, RequestContext
from serve.security import Authentication, LocalOnly, RateLimit, key_ring

DEADLINE = "X-Deadline-Seconds"

_ASKED = ["Authorization", "X-API-Key", "Content-Type", "Accept", "Idempotency-Key", "X-Request-Id", DEADLINE]
_SHOWN = ["X-Request-Id", "Idempotency-Replayed", "Retry-After", "RateLimit", "RateLimit-Policy", "WWW-Authenticate"]


def guards(
    config: ServeConfig,
    metrics: Metrics,
    *,
    routes: Collection[str],
    stream_paths: Collection[str],
    repeatable_paths: Collection[str],
    health_paths: Collection[str],
    metrics_path: str = "/metrics",
    answers: AnswerStore | None = None,
    echo_request_id: bool = True,
) -> list[Middleware]:
    """The middlewares of the endpoint, outermost first, for ``FastAPI(middleware=...)``.

    `routes` are all addresses (what metrics and logs call by name), `stream_paths` those whose bodies are streams,
    `repeatable_paths` those that take an ``Idempotency-Key``, remembered in `answers` (None: keys are ignored).
    `health_paths` ask for no key, `metrics_path` does; neither waits for its turn. Raises ConfigError for an endpoint
    that others reach without keys, or if its keys cannot be read.
    """
    security, limits = config.security, config.limits
    keys = key_ring(config)
    open_paths = frozenset(health_paths)
    stack = [Middleware(RequestContext, metrics, routes=routes, texts=config.log.texts, echo=echo_request_id)]
    if security.cors_origins:
        stack.append(
            Middleware(
                CORSMiddleware,
                allow_origins=security.cors_origins,
                allow_methods=["GET", "POST"],
                allow_headers=_ASKED,
                expose_headers=_SHOWN,
            )
        )
    stack.append(Middleware(Unexpected))  # within CORS: a web page may read a 500 too
    if keys is None:
        stack.append(Middleware(LocalOnly, origins=security.cors_origins, hosts=security.hosts))
    else:
        stack.append(Middleware(Authentication, keys, open_paths=open_paths))
        stack.append(
            Middleware(
                RateLimit,
                requests=security.requests_per_minute,
                records=security.records_per_minute,
                replicas=config.ingress.max_replicas,
            )
        )
    stack.append(Middleware(Admission, limits.queue, open_paths=open_paths | {metrics_path}))
    stack.append(Middleware(BodyLimit, limits, stream_paths=stream_paths))
    stack.append(Middleware(Pace, limits))
    if answers is not None and security.idempotency_seconds and security.idempotency_bytes:
        stack.append(Middleware(Idempotency, answers, repeatable_paths))
    return stack
