"""HTTP servers for tests: one that calls a function, and a file server that can fail and cut connections."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

CONTENT = bytes(range(256)) * 2000
Answer = tuple[int, bytes] | tuple[int, bytes, int | None]
"""Status, content, and optionally the number of bytes after which the connection is cut."""


@contextmanager
def http_server(answer: Callable[[BaseHTTPRequestHandler, bytes], Answer]) -> Iterator[str]:
    """Runs a server that answers by `answer(request, body)`; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content, *sent = answer(self, self.rfile.read(int(self.headers["Content-Length"] or 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: sent[0] if sent else None])

        do_POST = do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class FileServer:
    """Serves `content` under any path but /absent; the next `failures` requests get 503."""

    content = CONTENT
    failures = 0
    requests = 0
    address = ""

    def __init__(self) -> None:
        self.cut_after: list[int] = []  # lengths at which the next responses are cut

    def url(self, path: str) -> str:
        return f"{self.address}/{path}"

    def answer(self, request: BaseHTTPRequestHandler, _: bytes) -> Answer:
        self.requests += 1
        if self.failures:
            self.failures -= 1
            return 503, b""
        if request.path == "/absent":
            return 404, b""
        return 200, self.content, self.cut_after.pop(0) if self.cut_after else None
