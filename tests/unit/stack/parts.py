"""Parts of a stack that take no time: processes that listen, wait or fail as they are told."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from infra.stack.errors import UnreadyError
from infra.stack.part import Part
from infra.stack.ports import HOST, free_ports
from infra.stack.processes import Launch

LISTENS = """
import os, socket, subprocess, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
wait = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(wait, start_new_session=True, env=dict(os.environ))
print("it listens", flush=True)
time.sleep(600)
"""
UNMARKED = LISTENS.replace("dict(os.environ)", '{"PATH": os.environ["PATH"]}')
"""As processes are that give themselves a title: their environment cannot be read any more."""
FAILS = "import sys; print('no room for the data'); sys.exit(3)"
SILENT = "import time; time.sleep(600)"
STUBBORN = LISTENS.replace("import", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nimport", 1)


class Toy(Part):
    """A part that runs `code`, and answers when something listens at its port."""

    name = "toy"
    patience = 60.0

    def __init__(self, code: str = LISTENS, name: str = "toy", port: int | None = None) -> None:
        super().__init__(free_ports(1)[0] if port is None else port)
        self.name = name  # type: ignore[misc]
        self.code = code
        self.settled = 0

    @property
    def title(self) -> str:
        return self.name.capitalize()

    def prepare(self) -> Launch:
        return Launch([sys.executable, "-c", self.code, str(self.port)])

    def check(self) -> None:
        with socket.socket() as one:
            if one.connect_ex((HOST, self.port)):
                raise UnreadyError("nobody listens")

    def settle(self) -> None:
        self.settled += 1


SUPERVISED = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from infra.stack.state import State
from infra.stack.supervisor import Supervisor
from tests.unit.stack.parts import UNMARKED, Toy
state = State(Path(sys.argv[1]))
with state.locked() as lock:
    supervisor = Supervisor(state, [Toy(UNMARKED, "one"), Toy(name="two")], lock)
    supervisor.up()
    print("up", flush=True)
    supervisor.watch()
"""
