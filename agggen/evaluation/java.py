"""Runs the Java tools that the Python package pycocoevalcap ships: one process, lines in, as many lines out."""

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
"""UTF-8 whatever the locale; and one thread to collect garbage, which halves METEOR's memory."""


def package_version() -> str:
    """The version of pycocoevalcap, for signatures.

    Raises:
        AggGenError: it is not installed.
    """
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError as error:
        raise AggGenError(
            f"METEOR, ROUGE-L and CIDEr need the package {PACKAGE}, which is not installed: "
            "pip install 'agggen[metrics]'"
        ) from error


def run_lines(what: str, jar: str, options: Sequence[str], arguments: Sequence[str], lines: Sequence[str]) -> list[str]:
    """What the tool prints for each of `lines`, which must hold no line ends.

    Args:
        what: the tool's name in messages.
        jar: its jar, relative to the package.
        options: for Java, before the jar or class.
        arguments: for the tool.

    Raises:
        AggGenError: no `java`, no jar, or the process failed or printed another number of lines.
    """
    version = package_version()
    path = Path(str(metadata.distribution(PACKAGE).locate_file(f"{PACKAGE}/{jar}")))
    if not path.is_file():
        raise AggGenError(
            f"{what} needs {path}, which {PACKAGE} {version} lacks: pip install --force-reinstall {PACKAGE}==1.2"
        )
    java = shutil.which("java")
    if java is None:
        raise AggGenError(
            f"{what} needs a Java runtime, and no `java` is on the PATH (on Debian: apt install default-jre-headless)"
        )
    command = [java, *_OPTIONS, *options, str(path), *arguments]
    code, printed, said = _run(what, command, "".join(f"{line}\n" for line in lines))
    if code or len(printed) != len(lines):
        raise AggGenError(f"{what}: {_failure(code, len(printed), len(lines))}{f'. It said: {said}' if said else ''}")
    return printed


def _run(what: str, command: Sequence[str], text: str) -> tuple[int, list[str], str]:
    """The exit status, the lines printed, and the end of what was said on the error stream."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise AggGenError(f"{what}: {command[0]} could not be started: {error}") from error
    with process:
        try:
            printed, said = process.communicate(text.encode("utf-8", errors="replace"))  # feeds and reads at once
        finally:  # after an interrupt too
            process.kill()
            process.wait()
    words = said.decode("utf-8", errors="replace").split()
    return process.returncode, printed.decode("utf-8", errors="replace").split("\n")[:-1], " ".join(words)[-500:]


def _failure(code: int, printed: int, wanted: int) -> str:
    if code < 0:
        return f"its Java process was killed ({signal.Signals(-code).name}); it takes up to 2 GB of memory"
    if code:
        return f"its Java process ended with {code}; it needs Java 8 or newer and up to 2 GB of memory"
    return f"its Java process printed {printed} lines for {wanted} texts"
