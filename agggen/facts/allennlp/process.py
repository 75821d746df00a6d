"""A child process that answers JSON lines: started, asked one thing at a time, watched, and always reaped.

It gets one line on its standard input and owes one line on its standard output. Writing, reading its answer and
reading what it says on standard error go on at once, so that no pipe can fill up and block both sides, however large a
message is. Nothing in here knows of AllenNLP.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agggen.facts.allennlp.errors import WorkerDied

_CHUNK = 1 << 16
_LINES = 12
"""How many of the last lines of standard error an error shows, and how much of each."""
_LINE_BYTES = 500


class JsonLinesProcess:
    """A running child. It ends with `close`, when this object is no longer used, and when this process ends."""

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str], scratch: Path | None = None) -> None:
        """Starts `command`.

        Args:
            env: the child's whole environment.
            scratch: a folder that is deleted once the child is gone.

        Raises:
            WorkerDied: it cannot be started.
        """
        self.command = [str(part) for part in command]
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        self._line = b""
        try:
            # A session of its own: the terminal's Ctrl-C is for us, and we end the child.
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            _remove(scratch)
            raise WorkerDied(f"cannot start {self.command[0]}: {error.strerror or error}") from error
        self._in, self._out, self._err = (
            pipe.fileno() for pipe in (self._child.stdin, self._child.stdout, self._child.stderr) if pipe
        )
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._stop = weakref.finalize(self, _stop, self._child, scratch, os.getpid(), 0.0)
        self._scratch = scratch

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def ask(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to `message`. After an exception, whatever it is, the child is gone.

        Args:
            timeout: seconds within which the whole answer must be there.

        Raises:
            WorkerDied: the child ended or took too long, or its answer is not JSON; says its last lines.
        """
        if not self._stop.alive:
            raise WorkerDied("the worker was ended before")
        try:
            line = self._exchange(json.dumps(message).encode() + b"\n", timeout)
        except BaseException:
            self.kill()  # interrupted halfway, say: question and answer would no longer belong together
            raise
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.kill()
            raise WorkerDied(f"the worker answered {line[:80]!r}, which is no JSON object{self._last_words()}")
        return answer

    def _exchange(self, question: bytes, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        unsent, answer = memoryview(question), bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            selector.register(self._err, selectors.EVENT_READ)
            selector.register(self._in, selectors.EVENT_WRITE)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._drain()
                    raise WorkerDied(f"the worker did not answer within {timeout:g} s{self._last_words()}")
                ready = {key.fd for key, _ in selector.select(min(left, 1.0))}
                if self._err in ready and self._read_errors() == b"":
                    selector.unregister(self._err)
                if self._out in ready:
                    some = _read(self._out)
                    answer += some or b""
                    if some is not None and some.endswith(b"\n"):
                        return bytes(answer)
                    if some == b"":
                        raise self._ended()
                elif not ready and not self.is_alive:
                    raise self._ended()  # a grandchild may hold its standard output open
                if self._in in ready:
                    unsent = self._write(unsent)
                    if not unsent:
                        selector.unregister(self._in)

    def _write(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._in, unsent[:_CHUNK]) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            return unsent[:0]  # it reads no more; what it wrote before may say why

    def _read_errors(self) -> bytes | None:
        """Reads some of standard error and keeps its last lines."""
        some = _read(self._err)
        if some:
            *whole, self._line = (self._line + some).split(b"\n")
            self._line = self._line[-_LINE_BYTES:]
            self._lines.extend(line[:_LINE_BYTES] for line in whole if line.strip())
        return some

    def _drain(self) -> None:
        """Reads what there is on standard error, without waiting for more."""
        for _ in range(64):  # a child that never stops talking must not hold us
            if not self._read_errors():
                return

    def _ended(self) -> WorkerDied:
        """Why the child ended by itself."""
        try:
            code = self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            code = None  # it closed its standard output and lives on
        self._drain()
        if code is None:
            how = "closed its standard output"
        elif code < 0:
            how = f"was killed by {_signal_name(-code)}"
        else:
            how = f"ended with exit status {code}"
        return WorkerDied(f"the worker {how}{self._last_words()}")

    def _last_words(self) -> str:
        lines = [line.decode(errors="replace").rstrip() for line in (*self._lines, self._line) if line.strip()]
        return "; it said nothing on standard error" if not lines else "; its last lines:\n  " + "\n  ".join(lines)

    def kill(self) -> None:
        """Ends the child at once."""
        self._stop()

    def close(self, grace: float = 5.0) -> None:
        """Asks the child to end, by closing its standard input, and ends it if it does not within `grace` seconds."""
        if self._stop.detach() is not None:
            _stop(self._child, self._scratch, os.getpid(), grace)


def _stop(child: subprocess.Popen[bytes], scratch: Path | None, owner: int, grace: float) -> None:
    if os.getpid() != owner:
        return  # a fork of the process that started it
    if child.stdin:
        child.stdin.close()
    if grace:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=grace)
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()
    _remove(scratch)


def _remove(scratch: Path | None) -> None:
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def _read(descriptor: int) -> bytes | None:
    """Some bytes; none at the end; None where there is nothing now."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
