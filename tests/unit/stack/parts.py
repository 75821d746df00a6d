"""Parts of a stack that start at once: processes that listen, wait or fail."""

from __future__ import annotations

import sys

from infra.stack.errors import UnreadyError
from infra.stack.part import Part, is_free
from infra.stack.processes import Launch
from tests.processes import free_ports

LISTENS = """
import socket, subprocess, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("it listens", flush=True)
time.sleep(600)
"""
FAILS = "import sys; print('no room for the data'); sys.exit(3)"
SILENT = "import time; time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{LISTENS}"


class Toy(Part):
    """A part that runs `code`, and answers when something listens at its port."""

    def __init__(self, code: str = LISTENS, name: str = "toy", port: int | None = None) -> None:
        super().__init__(free_ports(1)[0] if port is None else port)
        self.name = name  # type: ignore[misc]
        self.title = name.capitalize()
        self.code = code
        self.settled = 0

    def prepare(self) -> Launch:
        return Launch([sys.executable, "-c", self.code, str(self.port)])

    def check(self) -> None:
        if is_free(self.port):
            raise UnreadyError("nobody listens")

    def settle(self) -> None:
        self.settled += 1
