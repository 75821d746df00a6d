"""The plan studio: a page of static files at ``/`` that uses only the public HTTP interface.

The page contains no data, so it is served without a key; the requests that it sends need the key. Texts and values
are never interpreted as markup: the content security policy forbids inline scripts, other hosts and, in browsers that
support trusted types, HTML strings.
"""

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parent / "studio"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; trusted-types 'none'; "
    "require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class _Files(StaticFiles):
    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers.update(HEADERS)
        return response


def add_page(app: FastAPI) -> None:
    """Adds ``GET /`` and ``GET /studio/FILE`` for each file of the page."""
    files = _Files(directory=FOLDER)

    async def index(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    app.add_api_route("/", index, include_in_schema=False)
    app.mount("/studio", files)
