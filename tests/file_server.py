"""An HTTP server of one file that can cut connections, ignore or shift ranges, and be busy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

CONTENT = bytes(range(256)) * 2000


class Files(ThreadingHTTPServer):
    """Serves `content` under any path but /absent."""

    daemon_threads = True
    content = CONTENT
    cut_after: list[int]
    """Bytes after which the next connections end."""
    failures = 0
    ranges = True
    shift = 0
    """Bytes by which a range begins later than was asked for."""
    requests: list[str | None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cut_after, self.requests = [], []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: Files

    def do_GET(self) -> None:
        server, asked = self.server, self.headers.get("Range")
        server.requests.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and server.ranges else 0
        if server.failures:
            server.failures -= 1
            self.send_error(503)
            return
        if self.path.partition("?")[0] == "/absent":
            self.send_error(404)
            return
        if start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            first, size = start + server.shift, len(server.content)
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        end = start + server.cut_after.pop(0) if server.cut_after else None
        self.wfile.write(server.content[start:end])

    def log_message(self, *_: object) -> None:
        """Silent: the tests' output is not a server's log."""


@contextmanager
def serving() -> Iterator[Files]:
    files = Files()
    thread = Thread(target=files.serve_forever, args=(0.01,))
    thread.start()
    yield files
    files.shutdown()
    thread.join()
    files.server_close()
