"""Makes AllenNLP's environment: a Python that it runs on, a virtual environment, pip, and a look whether it works.

Can be interrupted and run again: the stamp says ``complete`` only after the worker has started once, and until then
pip goes on where it was.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agggen.facts.allennlp import pins
from agggen.facts.allennlp.environment import (
    STAMP,
    Environment,
    environment_folder,
    find_environment,
    installed_versions,
    only_one,
    read_stamp,
    worker_environment,
)
from agggen.facts.allennlp.errors import AllenNLPError, NoPythonError
from agggen.facts.allennlp.process import JsonLinesProcess
from agggen.facts.allennlp.worker import PROTOCOL

PYTHONS = ((3, 10), (3, 9))
"""Versions that AllenNLP 2.10.1 was seen to work on, the best first; 3.8 installs, but cannot import it."""
HOW_TO_GET_PYTHON = """AllenNLP needs Python 3.10 or 3.9, and there is none on this machine. Get one, by any of
  uv python install 3.10
  pyenv install 3.10
  conda create -p ./python310 python=3.10        then: agggen srl setup --python ./python310/bin/python
  apt install python3.10 python3.10-venv         (where the distribution has it)
or run in a container image that has it (python:3.10-slim), and call `agggen srl setup` again"""

_PLACES = {
    **dict.fromkeys(("~/miniconda3", "~/anaconda3", "~/miniforge3", "/opt/conda"), "envs/*/bin/{name}"),
    **dict.fromkeys(("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"), "{name}"),
}
_PROBE = "import sys, ssl, venv, ensurepip, json; print(json.dumps([list(sys.version_info[:2]), sys.executable]))"
LOG = "agggen-srl-setup.log"

Say = Callable[[str], None]


def find_python(given: str | Path | None = None) -> tuple[Path, tuple[int, int]]:
    """A Python that AllenNLP runs on, and its version: `given`, or the best on this machine.

    Looked for on PATH and where pyenv, uv, conda and Homebrew put them.

    Raises:
        NoPythonError: there is none; says how to get one.
        AllenNLPError: `given` is none.
    """
    if given is not None:
        found = _probe(Path(shutil.which(str(given)) or given).expanduser())
        if found is None:
            raise AllenNLPError(f"{given} is no Python that can make virtual environments (venv, ensurepip and ssl)")
        if found[1] not in PYTHONS:
            wanted = ", ".join(f"{major}.{minor}" for major, minor in PYTHONS)
            raise AllenNLPError(f"{given} is Python {found[1][0]}.{found[1][1]}; AllenNLP needs one of {wanted}")
        return found
    for version in PYTHONS:
        for candidate in _candidates(version):
            found = _probe(candidate)
            if found and found[1] == version:
                return found
    raise NoPythonError(HOW_TO_GET_PYTHON)


def _candidates(version: tuple[int, int]) -> Iterator[Path]:
    name = f"python{version[0]}.{version[1]}"
    if found := shutil.which(name):
        yield Path(found)
    roots = {
        Path(os.environ.get("PYENV_ROOT", "~/.pyenv")) / "versions": f"{version[0]}.{version[1]}.*/bin/{name}",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python")): f"*/bin/{name}",
        **{Path(folder): pattern.format(name=name) for folder, pattern in _PLACES.items()},
    }
    for root, pattern in roots.items():
        yield from sorted(root.expanduser().glob(pattern), reverse=True)


def _probe(python: Path) -> tuple[Path, tuple[int, int]] | None:
    """The interpreter behind a path and its version; None where it is none or lacks what is needed."""
    try:
        done = subprocess.run([python, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=60)
        (major, minor), executable = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None  # pyenv's shims are there for versions that are not
    return Path(executable), (major, minor)


def set_up(
    folder: Path | str | None = None,
    python: Path | str | None = None,
    locked: bool = True,
    recreate: bool = False,
    say: Say = lambda _: None,
) -> Environment:
    """Makes the environment in ``environment_folder(folder)``; one that is complete is left alone.

    Args:
        python: the interpreter; found by default.
        locked: install the very versions of ``pins.LOCK`` (for Python 3.10; the others have no lock).
        recreate: delete what is there first, if an earlier call made it.
        say: told of each step.

    Raises:
        NoPythonError: no fitting Python.
        AllenNLPError: a folder with something else in it, or pip failed; what is done is kept.
    """
    place = environment_folder(folder)
    with only_one(place):
        stamp = read_stamp(place)
        if place.exists() and any(place.iterdir()) and not stamp:
            raise AllenNLPError(f"{place} is not empty and was not made by `agggen srl setup`; name another folder")
        if stamp and recreate:
            say(f"deleting {place}")
            shutil.rmtree(place)
            stamp = {}
        if stamp.get("complete"):
            say(f"{place} is complete")
            return find_environment(place)
        stamp = _begin(place, stamp, python, say)
        say("pip install: about 2.5 GB, some minutes")
        locked = locked and tuple(stamp["python"]) == pins.LOCKED_PYTHON
        try:
            _install(place, locked)
        except AllenNLPError as error:
            hint = "\nWhere an index lacks one of the locked versions, --no-lock lets pip choose" if locked else ""
            raise AllenNLPError(f"{error}{hint}") from error
        say("looking whether it works")
        versions = worker_versions(Environment(place, place / "bin" / "python", installed_versions(place)))
        _write_stamp(place, stamp | {"complete": True, "versions": versions})
    return find_environment(place)


def _begin(place: Path, stamp: dict[str, Any], python: Path | str | None, say: Say) -> dict[str, Any]:
    """Makes the virtual environment, or mends the one that was begun; the stamp as it is then."""
    base, version = find_python(python or stamp.get("base"))
    if stamp and stamp["python"] != list(version):
        begun = ".".join(map(str, stamp["python"]))
        raise AllenNLPError(f"{place} was begun with Python {begun}; go on with that, or use --recreate")
    say(f"Python {version[0]}.{version[1]} ({base})")
    place.mkdir(parents=True, exist_ok=True)
    stamp = {"complete": False, "base": str(base), "python": list(version)}
    _write_stamp(place, stamp)
    _run([base, "-I", "-m", "venv", place], place)
    return stamp


def _install(place: Path, locked: bool) -> None:
    python = place / "bin" / "python"
    command: list[str | Path] = [python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off"]
    if locked:
        constraints = place / "constraints.txt"
        constraints.write_text(pins.lock(), encoding="utf-8")
        command += ["-c", constraints]
    else:
        _run([*command, "--upgrade", "pip"], place)  # the one that came with Python searches for versions for hours
    _run([*command, *pins.REQUIREMENTS], place)


def _run(command: Sequence[str | Path], place: Path) -> None:
    """Runs a step; what it prints goes to the log.

    Raises:
        AllenNLPError: it failed; says its last lines.
    """
    with (place / LOG).open("ab") as log:
        begin = log.tell()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    if done.returncode:
        with (place / LOG).open("rb") as log:
            log.seek(begin)
            lines = log.read().decode(errors="replace").splitlines()
        words = " ".join(str(part) for part in command[:6])
        raise AllenNLPError(
            f"`{words} ...` ended with exit status {done.returncode}; run it again to go on. All it said is in "
            f"{place / LOG}, the end of it:\n  " + "\n  ".join(lines[-12:])
        )


def worker_versions(environment: Environment, timeout: float = 600.0) -> dict[str, Any]:
    """The versions that a worker started in the environment has imported.

    Raises:
        AllenNLPError: it cannot import them.
    """
    scratch = Path(tempfile.mkdtemp(prefix="agggen-srl-"))
    process = JsonLinesProcess(environment.command, worker_environment(scratch, online=False), scratch)
    try:
        answer = process.ask({"op": "start", "protocol": PROTOCOL, "archive": None, "threads": 1}, timeout)
    finally:
        process.close()
    if "ready" not in answer:
        raise AllenNLPError(f"AllenNLP in {environment.folder} does not work: {answer.get('failed')}")
    return answer["ready"]


def _write_stamp(place: Path, stamp: dict[str, Any]) -> None:
    part = place / f"{STAMP}.part"
    part.write_text(json.dumps(stamp, indent=2) + "\n", encoding="utf-8")
    os.replace(part, place / STAMP)
