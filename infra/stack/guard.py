"""A process beside the supervisor that ends the stack when the supervisor was killed.

It holds the lock of the folder as long as anything of the stack is there, so that the next stack waits.

    python -m infra.stack.guard FOLDER    # its standard input ends when the supervisor does, however it does
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from infra.stack.processes import end_marked


def main(state: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_marked(state)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
