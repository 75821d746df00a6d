"""The Python environment of AllenNLP, and its worker: a child process that answers requests as JSON lines.

AllenNLP 2.10.1, the last release, needs torch below 1.13 and Python below 3.11, so it cannot be installed in agggen's
environment. A worker process runs it in a separate environment with allennlp and allennlp-models, which users create
with venv and ``requirements.txt``, or with another tool such as conda.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import IO, Any

from agggen.errors import AggGenError
from agggen_platform.cache import cache_folder
from agggen_platform.tracking.origin import is_secret

WORKER = Path(__file__).with_name("worker.py")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
"""All packages of the environment, in versions tested with Python 3.10."""
PACKAGES = ("allennlp", "allennlp-models", "torch", "transformers", "spacy", "numpy")
"""The packages that an environment must have; part of the fingerprint of `AllenNLPFrames`."""

_IMPORT_SECONDS = 600.0  # timeout of the worker's imports
# The worker gets only these variables, because the code of an archive must not have access to credentials.
_FORWARDED_NAMES = ("PATH", "HOME", "USER", "LANG", "TZ", "LD_LIBRARY_PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_FORWARDED_PREFIXES = ("LC_", "SSL_", "XDG_", "OMP_", "MKL_", "CUDA_", "NVIDIA_", "HF_", "TRANSFORMERS_", "ALLENNLP_")
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


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment with AllenNLP."""

    folder: Path
    versions: dict[str, str]  # package in `PACKAGES` -> version

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def start_worker(self, online: bool = False) -> JsonLinesProcess:
        """Starts a worker; AllenNLP unpacks archives into a folder that is deleted at its end."""
        scratch = Path(tempfile.mkdtemp(prefix="agggen-srl-"))
        # -I ignores PYTHONPATH, which is set for agggen's Python.
        command = [str(self.python), "-I", "-X", "utf8", str(WORKER), str(os.getpid())]
        return JsonLinesProcess(command, worker_environment(scratch, online), scratch)


def find_environment(path: Path | str | None = None) -> Environment:
    """The environment in `path`, else ``AGGGEN_SRL_ENV``, else ``srl-env`` in the cache folder. Starts no process.

    Raises AllenNLPError, with the commands to create the environment, if it does not exist or lacks a package.
    """
    folder = Path(path or os.environ.get("AGGGEN_SRL_ENV") or cache_folder() / "srl-env").expanduser().absolute()
    commands = f"python3.10 -m venv {folder} && {folder}/bin/pip install -r {REQUIREMENTS}"
    remedy = f"create one with `{commands}`, or set AGGGEN_SRL_ENV to an environment with AllenNLP"
    if not (folder / "bin" / "python").exists():
        raise AllenNLPError(f"no environment for AllenNLP in {folder}; {remedy}")
    folders = [str(path) for path in folder.glob("lib*/python3.*/site-packages")]
    versions = {
        package.metadata["Name"].lower().replace("_", "-"): package.version for package in distributions(path=folders)
    }
    if missing := [name for name in PACKAGES if name not in versions]:
        raise AllenNLPError(f"the environment in {folder} lacks {', '.join(missing)}; {remedy}")
    return Environment(folder, {name: versions[name] for name in PACKAGES})


def worker_environment(scratch: Path, online: bool) -> dict[str, str]:
    env = {
        name: value
        for name, value in os.environ.items()
        if (name.upper() in _FORWARDED_NAMES or name.startswith(_FORWARDED_PREFIXES)) and not is_secret(name)
    }
    env |= {"TMPDIR": str(scratch), "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}
    if not online:
        env |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return env


def worker_versions(environment: Environment) -> dict[str, str]:
    """Starts a worker; returns its versions of Python and of the imported packages. AllenNLPError: an import failed."""
    process = environment.start_worker()
    try:
        answer = process.request({"op": "start", "archive": None, "threads": 1}, _IMPORT_SECONDS)
    finally:
        process.close()
    if "ready" not in answer:
        raise AllenNLPError(f"AllenNLP in {environment.folder} does not work: {answer.get('failed')}")
    return dict(answer["ready"])
