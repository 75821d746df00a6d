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
    text = "".join(f"{line}\n" for line in lines)
    try:
        # run() feeds and reads at the same time, and kills and reaps the process should anything interrupt it.
        done = subprocess.run(command, input=text.encode("utf-8"), capture_output=True, check=False)
    except OSError as error:
        raise AggGenError(f"{what}: {java} could not be started: {error}") from error
    printed = done.stdout.decode("utf-8", errors="replace").split("\n")[:-1]
    if done.returncode or len(printed) != len(lines):
        raise AggGenError(f"{what}: {_failure(done, len(printed), len(lines))}")
    return printed


def _failure(done: subprocess.CompletedProcess[bytes], printed: int, wanted: int) -> str:
    said = " ".join(done.stderr.decode("utf-8", errors="replace").split())[-500:]
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        how = f"its Java process was killed ({name}); it takes up to 2 GB of memory"
    elif done.returncode:
        how = f"its Java process ended with {done.returncode}; it needs Java 8 or newer and up to 2 GB of memory"
    else:
        how = f"its Java process printed {printed} lines for {wanted} texts"
    return f"{how}. It said: {said}" if said else how
