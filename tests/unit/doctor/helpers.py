"""An HTTP server with fixed answers, and shortcuts for findings."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agggen_platform.doctor.findings import Finding

Answer = tuple[int, str]


@contextmanager
def stub_server(answers: Mapping[str, Answer], otherwise: Answer = (404, "no such page")) -> Iterator[str]:
    """The address of a server with these answers by path, and one answer for all other paths."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answers.get(self.path.partition("?")[0], otherwise)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def levels(findings: Iterable[Finding]) -> dict[str, str]:
    """The level by subject; of several findings about one subject the last."""
    return {finding.subject: finding.level for finding in findings}


def finding_about(findings: Iterable[Finding], subject: str) -> Finding:
    """The only finding about `subject`."""
    (finding,) = [finding for finding in findings if finding.subject == subject]
    return finding
