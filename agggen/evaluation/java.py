"""Runs the Java tools of the Python package pycocoevalcap, which print one line per input line."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from agggen.errors import AggGenError

PACKAGE = "pycocoevalcap"
_OPTIONS = ("-Dfile.encoding=UTF-8", "-XX:+UseSerialGC")
"""UTF-8 in every locale; single-threaded garbage collection, which halves METEOR's memory."""


def package_version() -> str:
    """The version of pycocoevalcap. Raises AggGenError if it is not installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError as error:
        raise AggGenError(
            f"METEOR, ROUGE-L and CIDEr need the package {PACKAGE}, which is not installed: "
            "pip install 'agggen[metrics]'"
        ) from error


def run_lines(tool: str, jar: str, options: Sequence[str], arguments: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The line that the tool prints for each of `lines`.

    Args:
        jar: the path of the tool's jar in the package.
        options: Java's options, before the jar.
        arguments: the tool's arguments, after the jar.

    Raises:
        AggGenError: there is no `java` or no jar, or the process failed or printed a different number of lines.
    """
    version = package_version()
    jar_path = Path(str(metadata.distribution(PACKAGE).locate_file(f"{PACKAGE}/{jar}")))
    if not jar_path.is_file():
        raise AggGenError(
            f"{tool} needs {jar_path}, which {PACKAGE} {version} lacks: pip install --force-reinstall {PACKAGE}==1.2"
        )
    java = shutil.which("java")
    if java is None:
        raise AggGenError(
            f"{tool} needs a Java runtime, and no `java` is on the PATH (on Debian: apt install default-jre-headless)"
        )
    command = [java, *_OPTIONS, *options, str(jar_path), *arguments]
    code, output_lines, stderr = _run(command, "".join(f"{line}\n" for line in lines))
    if code or len(output_lines) != len(lines):
        details = f". Its error output: {stderr}" if stderr else ""
        raise AggGenError(f"{tool}: {_failure(code, len(output_lines), len(lines))}{details}")
    return output_lines


def _run(command: Sequence[str], text: str) -> tuple[int, list[str], str]:
    """The exit status, the lines of stdout, and the last 500 characters of stderr."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            # `communicate` writes and reads concurrently.
            stdout, stderr = process.communicate(text.encode("utf-8", errors="replace"))
        finally:  # also after an interrupt
            process.kill()
            process.wait()
    stderr_words = stderr.decode("utf-8", errors="replace").split()
    return process.returncode, stdout.decode("utf-8", errors="replace").split("\n")[:-1], " ".join(stderr_words)[-500:]


def _failure(code: int, n_printed: int, n_expected: int) -> str:
    """The cause of a failure, by the process's exit status and number of lines."""
    if code < 0:
        return f"its Java process was killed ({signal.Signals(-code).name}); it needs up to 2 GB of memory"
    if code:
        return f"its Java process ended with {code}; it needs Java 8 or newer and up to 2 GB of memory"
    return f"its Java process printed {n_printed} lines for {n_expected} texts"
