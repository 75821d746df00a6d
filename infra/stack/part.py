"""The interface between the stack and a server that it runs."""

from __future__ import annotations

import signal
import socket
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import httpx

from infra.stack.errors import UnreadyError
from infra.stack.processes import Launch

HOST = "127.0.0.1"


class Part(ABC):
    """A server."""

    name: ClassVar[str]
    """Of its log, and of its port in ``--port NAME=NUMBER``."""
    title: str
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    patience: ClassVar[float] = 60.0
    """Seconds until it must answer, on a busy machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    def ports(self) -> dict[str, int]:
        """What it listens on, by name."""
        return {self.name: self.port}

    @abstractmethod
    def prepare(self) -> Launch:
        """Creates its files.

        Raises:
            StackError: it cannot run here.
        """

    @abstractmethod
    def check(self) -> None:
        """Returns if it answers correctly.

        Raises:
            UnreadyError: it does not answer yet.
            StackError: it never will.
        """

    def settle(self) -> None:  # noqa: B027 (optional)
        """Called once when it answers: creates databases, buckets and the like."""


def get(url: str, status: int | None = 200, **options: Any) -> httpx.Response:
    """The answer to a GET request.

    Raises:
        UnreadyError: there is none, or its status is not `status`.
    """
    try:
        answer = httpx.get(url, timeout=10, trust_env=False, **options)
    except httpx.HTTPError as error:
        raise UnreadyError(str(error) or type(error).__name__) from error
    if status is not None and answer.status_code != status:
        raise UnreadyError(f"status {answer.status_code}: {answer.text[:200]}")
    return answer


def is_free(port: int) -> bool:
    """Whether a server may listen on ``127.0.0.1:port``."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: closed connections do not count
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
