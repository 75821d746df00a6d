"""A child process that answers requests as JSON lines, one at a time, with a timeout.

The child reads a request per line from standard input and writes a response per line to standard output. A thread reads
its standard error, so that the child never blocks on a full pipe.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from agggen.errors import AggGenError

_LINES, _LINE_BYTES = 12, 500  # error messages quote the last lines of standard error, each truncated to these bytes


class AllenNLPError(AggGenError):
    """AllenNLP's environment, an archive or the worker process cannot be used."""


class WorkerDied(AllenNLPError):
    """The worker process ended, or was killed because it did not answer in time."""


class JsonLinesProcess:
    """A running child process. It ends at `close`, at garbage collection of this object, and when this process ends."""

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str], scratch: Path | None = None) -> None:
        """`scratch`: a folder to delete after the child has ended. Raises WorkerDied if the child cannot be started."""
        pipe = subprocess.PIPE
        try:
            # In a new session, so that Ctrl-C in the terminal interrupts only this process, which then ends the child.
            self._child = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), start_new_session=True
            )
        except OSError as error:
            if scratch:
                shutil.rmtree(scratch, ignore_errors=True)
            raise WorkerDied(f"cannot start {command[0]}: {error.strerror or error}") from error
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        stderr = self._child.stderr
        self._stderr_reader = threading.Thread(target=_keep_last_lines, args=(stderr, self._lines), daemon=True)
        self._stderr_reader.start()
        self._scratch = scratch
        self._finalizer = weakref.finalize(self, _stop, self._child, scratch, 0.0)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def request(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Sends `message` and returns the response. After any exception the child has ended.

        Raises WorkerDied, with the end of the child's standard error, if the child ended, its response is not a JSON
        object, or was not complete after `timeout` seconds.
        """
        if not self._finalizer.alive:
            raise WorkerDied("the worker has already ended")
        response, timed_out = b"", threading.Event()

        def time_out() -> None:
            timed_out.set()
            _kill(self._child)

        timer = threading.Timer(timeout, time_out)
        timer.start()
        try:
            response = self._exchange(json.dumps(message).encode() + b"\n")
            answer = json.loads(response) if response.endswith(b"\n") else None
        except ValueError:
            answer = None
        except BaseException:
            self._finalizer()  # otherwise the next request would receive the response to this one
            raise
        finally:
            timer.cancel()
        if isinstance(answer, dict):
            return answer
        if timed_out.is_set():
            reason = f"did not answer within {timeout:g} s"
        elif response.endswith(b"\n"):
            reason = f"answered {response[:80]!r}, which is not a JSON object"
        else:
            reason = self._exit_reason()
        self._finalizer()
        self._stderr_reader.join(timeout=5)
        lines = [text for line in tuple(self._lines) if (text := line.decode(errors="replace").strip())]
        output = "its last lines:\n  " + "\n  ".join(lines) if lines else "it wrote nothing to standard error"
        raise WorkerDied(f"the worker {reason}; {output}")

    def _exchange(self, request: bytes) -> bytes:
        """Sends a line and returns the response line, which is incomplete if the child ended."""
        assert self._child.stdin and self._child.stdout
        with contextlib.suppress(BrokenPipeError):  # the child has ended; `request` reports why
            self._child.stdin.write(request)
            self._child.stdin.flush()
        return self._child.stdout.readline()

    def _exit_reason(self) -> str:
        try:
            code = self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "closed its standard output"
        return f"ended with exit status {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"

    def close(self, grace: float = 5.0) -> None:
        """Closes the child's standard input, which makes it end, and kills it after `grace` seconds."""
        if self._finalizer.detach() is not None:
            _stop(self._child, self._scratch, grace)


def _keep_last_lines(stream: IO[bytes], lines: deque[bytes]) -> None:
    with stream:
        lines.extend(iter(lambda: stream.readline(_LINE_BYTES), b""))


def _stop(child: subprocess.Popen[bytes], scratch: Path | None, grace: float) -> None:
    """Closes the child's standard input, kills the child if it does not end within `grace` seconds, and cleans up."""
    if child.stdin:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
    try:
        child.wait(timeout=grace)
    except subprocess.TimeoutExpired:
        _kill(child)
        child.wait()
    if child.stdout:
        child.stdout.close()
    if scratch:
        shutil.rmtree(scratch, ignore_errors=True)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
