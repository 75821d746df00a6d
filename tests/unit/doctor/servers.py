"""Servers that answer as they are told, or not at all; and what findings say, shortly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from agggen_platform.doctor.findings import Finding

Answer = tuple[int, str]


class Answers:
    """An HTTP server with an answer for each path, 404 for others; a context manager."""

    def __init__(
        self, answers: Mapping[str, Answer], headers: Mapping[str, str] | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Path and headers of each request."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                outer.asked.append((path, dict(self.headers)))
                status, text = answers.get(path, (404, "no such page"))
                self.send_response_only(status)
                for name, value in {"Content-Length": str(len(text.encode())), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Answers:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def black_hole() -> Iterator[int]:
    """The port of a server that takes connections and never says a word."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(64)
        yield one.getsockname()[1]


def said(findings: Iterable[Finding]) -> dict[str, str]:
    """The level of each finding by what it is about; the last one where there are several."""
    return {one.about: one.level.value for one in findings}


def only(findings: Iterable[Finding], about: str) -> Finding:
    """The one finding about something."""
    (found,) = [one for one in findings if one.about == about]
    return found


def distribution(folder: Path, name: str, version: str, *requires: str) -> Path:
    """What an installed package leaves for `importlib.metadata`; the folder is to be put on the path."""
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    lines = [f"Requires-Dist: {one}" for one in requires]
    about.joinpath("METADATA").write_text(
        "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines])
    )
    return folder
