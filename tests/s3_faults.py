"""Fault injection for S3: a proxy in front of the tests' S3 server.

    def test_it(s3: str, faulty_s3: FaultyS3) -> None:  # the environment points to the proxy
        faulty_s3.inject("503", times=2, method="PUT", path="weights")
        ...
        assert faulty_s3.count("PUT", "weights") == 3

Kinds of faults:

    "403", "500", "503"          this status with S3's error document; nothing reaches the server
    "no upload"                  404 for an upload in parts; nothing reaches the server
    "reset"                      the connection is reset before an answer; nothing reaches the server
    "lost answer"                the server executes the request, then the connection is reset
    "cut answer"                 half of the response's body, then the connection is closed
    "short answer"               half of the response's body, with a Content-Length that matches it
    "short upload"               half of the request's body reaches the server, with a Content-Length that matches it
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_CODES = {
    "403": (403, "AccessDenied"),
    "no upload": (404, "NoSuchUpload"),
    "500": (500, "InternalError"),
    "503": (503, "SlowDown"),
}
_KINDS = {*_CODES, "reset", "lost answer", "cut answer", "short answer", "short upload"}
_HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "expect", "content-length", "date", "server"}


@dataclass
class _Fault:
    kind: str
    times: int
    after: int
    method: str
    path: str

    def matches(self, method: str, path: str) -> bool:
        """Whether this request must fail; counts the matching requests."""
        if self.times == 0 or self.method not in ("", method) or self.path not in path:
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


class FaultyS3:
    """The proxy, a context manager. `requests` lists (method, path and query) of each request.

    `bytes_per_second` limits the speed of bodies in both directions.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.requests: list[tuple[str, str]] = []
        self.bytes_per_second: float | None = None
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"faulty": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FaultyS3:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all connections and stops listening."""
        self._server.shutdown()
        self._server.server_close()

    def inject(self, kind: str, times: int = 1, *, after: int = 0, method: str = "", path: str = "") -> None:
        """Fails the next `times` requests (-1: all) of this method whose path and query contain `path`, after the first
        `after` of them."""
        assert kind in _KINDS, f"unknown fault {kind!r}: not in {sorted(_KINDS)}"
        with self._lock:
            self._faults.append(_Fault(kind, times, after, method, path))

    def heal(self) -> None:
        """Ends all faults and forgets the requests."""
        with self._lock:
            self._faults.clear()
            self.requests.clear()
        self.bytes_per_second = None

    @property
    def pending(self) -> int:
        """Number of requests that will still fail, without unlimited faults."""
        with self._lock:
            return sum(max(0, fault.times) for fault in self._faults)

    def count(self, method: str = "", path: str = "") -> int:
        """Number of requests of this method whose path and query contain `path`."""
        with self._lock:
            return sum(method in ("", requested) and path in address for requested, address in self.requests)

    def fault_of(self, method: str, path: str) -> str | None:
        """Records a request and returns the fault to inject, if any."""
        with self._lock:
            self.requests.append((method, path))
            return next((fault.kind for fault in self._faults if fault.matches(method, path)), None)

    def pace(self, size: int) -> None:
        """Sleeps for as long as a transfer of `size` bytes takes."""
        if self.bytes_per_second:
            time.sleep(size / self.bytes_per_second)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        self.close_request(request)  # a shutdown would send FIN before RST

    def server_close(self) -> None:
        super().server_close()
        for connection in self.connections.copy():
            with suppress(OSError):  # already closed
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    faulty: FaultyS3

    def _handle(self) -> None:
        body = self._body()
        fault = self.faulty.fault_of(self.command, self.path)
        if fault == "reset":
            self._reset()
        elif fault in _CODES:
            status, code = _CODES[fault]
            document = f"<Error><Code>{code}</Code><Message>injected by the test</Message></Error>".encode()
            self._answer(status, {"Content-Type": "application/xml"}, document, len(document))
        else:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
            if fault == "short upload":
                body = body[: len(body) // 2]
                headers = {name: value for name, value in headers.items() if name.lower() != "content-md5"}
            self._forward(headers, body, fault)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return body
        remaining, parts = int(self.headers.get("Content-Length", 0)), []
        while remaining and (part := self.rfile.read(min(remaining, 1 << 16))):
            parts.append(part)
            remaining -= len(part)
            self.faulty.pace(len(part))
        return b"".join(parts)

    def _forward(self, headers: Mapping[str, str], body: bytes, fault: str | None) -> None:
        if len(body) < int(self.headers.get("Content-Length", 0)) and fault != "short upload":
            self._reset()  # the client disconnected: S3 stores nothing
            return
        connection = http.client.HTTPConnection(self.faulty.upstream, timeout=60)
        try:
            connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if fault == "lost answer":
            self._reset()
            return
        size = len(content) if self.command != "HEAD" else int(answer.headers.get("Content-Length", 0))
        response_headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
        if fault in ("short answer", "cut answer"):
            content = content[: len(content) // 2]
        self._answer(answer.status, response_headers, content, len(content) if fault == "short answer" else size)
        if fault == "cut answer":
            self.close_connection = True

    def _answer(self, status: int, headers: Mapping[str, str], content: bytes, size: int) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(size)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        for begin in range(0, len(content), 1 << 16):
            chunk = content[begin : begin + (1 << 16)]
            self.faulty.pace(len(chunk))
            self.wfile.write(chunk)

    def _reset(self) -> None:
        """Ends the connection with RST, as the system does for a killed server."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True  # the client may disconnect

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""
