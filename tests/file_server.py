"""An HTTP server of one file that can cut connections and be busy."""

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
    requests = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cut_after = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: Files

    def do_GET(self) -> None:
        server = self.server
        server.requests += 1
        if server.failures:
            server.failures -= 1
            self.send_error(503)
        elif self.path == "/absent":
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(server.content)))
            self.end_headers()
            self.wfile.write(server.content[: server.cut_after.pop(0) if server.cut_after else None])

    def log_message(self, *_: object) -> None:
        """Writes no log."""


@contextmanager
def serving() -> Iterator[Files]:
    files = Files()
    thread = Thread(target=files.serve_forever, args=(0.01,))
    thread.start()
    yield files
    files.shutdown()
    thread.join()
    files.server_close()
