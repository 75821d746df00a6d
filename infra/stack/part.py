"""What the supervisor knows of a part of the stack."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from typing import ClassVar

from infra.stack.ports import HOST
from infra.stack.processes import Launch


class Part(ABC):
    """A server."""

    name: ClassVar[str]
    """Of its log and its option: ``--NAME-port``."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    patience: ClassVar[float] = 60.0
    """Seconds that it may take until it answers, on a busy machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    def ports(self) -> dict[str, int]:
        """What it listens on, by the option that sets it."""
        return {f"--{self.name}-port": self.port}

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, with its version."""

    @abstractmethod
    def prepare(self) -> Launch:
        """Makes what it needs on disk.

        Raises:
            StackError: it cannot run here.
        """

    @abstractmethod
    def check(self) -> None:
        """Returns if it answers as it should.

        Raises:
            UnreadyError: it does not, yet.
            StackError: it never will.
        """

    def settle(self) -> None:  # noqa: B027 (not every part has something to do)
        """Called when it answers for the first time: makes what others expect to find."""
