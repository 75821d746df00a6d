"""Java, which METEOR, ROUGE-L and CIDEr need beside `agggen[metrics]`; both are optional."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

from agggen.errors import AggGenError
from agggen_platform.doctor.findings import Check, Finding, note, ok, warning
from agggen_platform.doctor.settings import Settings

AREA = "java"
OLDEST = 8
_SECONDS = 30.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL = "apt install default-jre-headless"


def checks(_: Settings) -> list[Check]:
    return [Check(AREA, "runtime", runtime, _SECONDS + 5), Check(AREA, "agggen[metrics]", metrics, 10)]


def runtime() -> Iterator[Finding]:
    """Starts Java with the memory that METEOR gets, so that a machine that cannot give it is found."""
    java = shutil.which("java")
    if java is None:
        yield note("runtime", "no `java` on the PATH: METEOR, ROUGE-L and CIDEr are not computed", _INSTALL)
        return
    command = [java, "-Xmx2G", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        yield warning("runtime", f"{java} does not answer within {_SECONDS:g} s", _INSTALL)
        return
    except OSError as error:
        yield warning("runtime", f"{java} cannot be started: {error.strerror or error}", _INSTALL)
        return
    said = f"{done.stdout}\n{done.stderr}".strip()
    if done.returncode:
        first = said.splitlines()[0] if said else f"exit status {done.returncode}"
        yield warning("runtime", f"{java} does not run with 2 GB of memory: {first}", "java -Xmx2G -version")
        return
    version = _VERSION.search(said)
    if version is None:
        yield warning("runtime", f"{java} says no version: {said[:80]!r}", _INSTALL)
    elif int(version[1]) < OLDEST:
        yield warning("runtime", f"Java {version[1]} at {java}; METEOR needs {OLDEST} or newer", _INSTALL)
    else:
        yield ok("runtime", f"Java {version[1]} at {java}, with 2 GB of memory")


def metrics() -> Iterator[Finding]:
    from agggen.evaluation.java import PACKAGE, package_version

    try:
        yield ok("agggen[metrics]", f"{PACKAGE} {package_version()}")
    except AggGenError as error:
        yield note("agggen[metrics]", f"{error}", "pip install 'agggen[metrics]'")
