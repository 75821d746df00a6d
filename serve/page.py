"""The plan studio: a page of static files at ``/``, which uses the public HTTP interface and nothing else.

Anyone who reaches the endpoint may load the page, which holds no data; what it asks for needs the key. Texts and
values are never markup: the policy forbids inline scripts, other hosts and, where browsers know trusted types, HTML
strings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "studio"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        *(f"{name} 'none'" for name in ("base-uri", "form-action", "frame-ancestors", "trusted-types")),
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page_routes() -> APIRouter:
    """``GET /`` and ``GET /studio/FILE`` for each file of the page, which are read once."""
    router = APIRouter()
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            address = "/" if path.name == "index.html" else f"/studio/{path.name}"
            router.add_api_route(address, _serves(path), include_in_schema=False)
    return router


def _serves(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    headers = HEADERS | {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=TYPES[path.suffix], headers=headers)

    return answer
