"""AllenNLP's own environment: where it is, what is in it, and how it is made (`agggen srl setup`).

AllenNLP 2.10.1, the last release, needs torch below 1.13 and Python below 3.11, so it cannot be installed beside
agggen. It gets a virtual environment of its own, and a worker process there tags for us. Any environment will do that
has allennlp and allennlp-models, a conda one too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from agggen_platform.cache import cache_folder, only_one
from agggen_platform.srl.errors import AllenNLPError, NoPythonError
from agggen_platform.srl.process import JsonLinesProcess
from agggen_platform.srl.worker import PROTOCOL

WORKER = Path(__file__).with_name("worker.py")
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
STAMP = "agggen-srl.json"
"""In an environment that `agggen srl setup` makes: whether it is complete."""
LOG = "agggen-srl-setup.log"
NEEDED = ("allennlp", "allennlp-models", "torch", "transformers", "spacy", "numpy")
REQUIREMENTS = (
    "allennlp==2.10.1",
    "allennlp-models==2.10.1",
    "torch==1.12.1",
    "transformers==4.20.1",
    "spacy==3.3.3",
    "numpy<2",
)
PYTHONS = ("3.10", "3.9")
"""Versions that AllenNLP 2.10.1 was seen to work on, the best first; the constraints are for the first."""
HOW_TO_GET_PYTHON = """AllenNLP needs Python 3.10 or 3.9, and there is none on the PATH. Get one, by any of
  uv python install 3.10
  pyenv install 3.10
  conda create -p ./python310 python=3.10
  apt install python3.10 python3.10-venv         (where the distribution has it)
and call `agggen srl setup` again, with --python ./python310/bin/python where it is not on the PATH; or run in a
container image that has it (python:3.10-slim)"""

# Credentials of ours are none of an archive's business.
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TZ", "LD_LIBRARY_PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PASSED_ON_PREFIXES = ("LC_", "SSL_", "XDG_", "OMP_", "MKL_", "CUDA_", "NVIDIA_", "HF_", "TRANSFORMERS_", "ALLENNLP_")


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder with a Python that has AllenNLP."""

    folder: Path
    versions: dict[str, str]
    """Of the packages in ``NEEDED``."""

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def command(self) -> list[str]:
        """What starts a worker of this process. ``-I``: our PYTHONPATH is not for that Python."""
        return [str(self.python), "-I", "-X", "utf8", str(WORKER), str(os.getpid())]


def environment_folder(given: Path | str | None = None) -> Path:
    """`given`, else ``AGGGEN_SRL_ENV``, else ``srl-env`` in the cache folder."""
    chosen = given or os.environ.get("AGGGEN_SRL_ENV") or cache_folder() / "srl-env"
    return Path(chosen).expanduser().absolute()


def find_environment(given: Path | str | None = None) -> Environment:
    """The environment in ``environment_folder(given)``. Starts nothing.

    Raises:
        AllenNLPError: there is none, or it lacks a package; says how to make it.
    """
    folder = environment_folder(given)
    remedy = f"make one with `agggen srl setup --dir {folder}`, or name one that has AllenNLP by AGGGEN_SRL_ENV"
    if not (folder / "bin" / "python").exists():
        raise AllenNLPError(f"there is no environment for AllenNLP in {folder}; {remedy}")
    if _is_complete(folder) is False:
        raise AllenNLPError(f"the environment in {folder} is half made; run `agggen srl setup --dir {folder}` again")
    places = [str(path) for path in folder.glob("lib*/python3.*/site-packages")]
    installed = {item.metadata["Name"].lower().replace("_", "-"): item.version for item in distributions(path=places)}
    if missing := [name for name in NEEDED if name not in installed]:
        raise AllenNLPError(f"the environment in {folder} lacks {', '.join(missing)}; {remedy}")
    return Environment(folder, {name: installed[name] for name in NEEDED})


def worker_environment(scratch: Path, online: bool) -> dict[str, str]:
    """The worker's environment variables.

    Args:
        scratch: its folder for temporary files; AllenNLP unpacks archives there.
        online: whether the model may fetch what it lacks from the Hugging Face hub.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    env |= {"TMPDIR": str(scratch), "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}
    if not online:
        env |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return env


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


# --- making it -------------------------------------------------------------------------------------------------------


def set_up(
    folder: Path | str | None = None,
    python: str | None = None,
    locked: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Environment:
    """Makes the environment in ``environment_folder(folder)``; one that is complete is left alone.

    Interrupted, it goes on where it was when called again.

    Args:
        python: the interpreter; by default the best on the PATH.
        locked: install the very versions of ``CONSTRAINTS`` (for Python 3.10; the others have none).
        say: told of each step.

    Raises:
        NoPythonError: no fitting Python.
        AllenNLPError: a folder with something else in it, or pip failed; what is done is kept.
    """
    place = environment_folder(folder)
    with only_one(place):
        complete = _is_complete(place)
        if complete is None and place.exists() and any(place.iterdir()):
            raise AllenNLPError(f"{place} is not empty and was not made by `agggen srl setup`; name another folder")
        if complete:
            say(f"{place} is complete")
            return find_environment(place)
        base, version = find_python(python)
        say(f"Python {version} ({base})")
        place.mkdir(parents=True, exist_ok=True)
        _write_stamp(place, complete=False)
        _run([base, "-I", "-m", "venv", place], place)
        say("pip install: about 2.5 GB, some minutes")
        pip: list[str | Path] = [place / "bin" / "python", "-I", "-m", "pip", "install", "--no-input"]
        if locked and version == PYTHONS[0]:
            _run([*pip, "-c", CONSTRAINTS, *REQUIREMENTS], place, "; where an index lacks a version, use --no-lock")
        else:
            _run([*pip, "--upgrade", "pip"], place)  # an old pip searches for versions for hours
            _run([*pip, *REQUIREMENTS], place)
        say("looking whether it works")
        worker_versions(Environment(place, {}))
        _write_stamp(place, complete=True)
    return find_environment(place)


def find_python(given: str | None = None) -> tuple[str, str]:
    """A Python that AllenNLP runs on and can make virtual environments, and its version: `given`, or one on the PATH.

    Raises:
        NoPythonError: there is none; says how to get one.
        AllenNLPError: `given` is none.
    """
    probe = "import sys, ssl, venv, ensurepip; print('%d.%d' % sys.version_info[:2], sys.executable)"
    names = [(given, {})] if given else [(f"python{version}", {"PYENV_VERSION": version}) for version in PYTHONS]
    for name, chosen in names:  # pyenv's command of that name runs the version that is chosen, if it has one
        path = shutil.which(str(Path(name).expanduser()))
        env = os.environ | chosen
        done = path and subprocess.run([path, "-I", "-c", probe], capture_output=True, text=True, timeout=60, env=env)
        version, _, path = done.stdout.strip().partition(" ") if done else ("", "", None)
        if path and version in PYTHONS:
            return path, version
        if given:
            what = f"is Python {version}" if version else "is no Python that can make virtual environments"
            raise AllenNLPError(f"{given} {what}; AllenNLP needs Python {' or '.join(PYTHONS)} with venv and ssl")
    raise NoPythonError(HOW_TO_GET_PYTHON)


def _run(command: Sequence[str | Path], place: Path, hint: str = "") -> None:
    """Runs a step; what it prints goes to the log.

    Raises:
        AllenNLPError: it failed; says its last lines.
    """
    with (place / LOG).open("ab+") as log:
        begin = log.tell()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        log.seek(begin)
        output = log.read().decode(errors="replace")
    if done.returncode:
        words = " ".join(str(part) for part in command[:6])
        lines = "\n  ".join(output.splitlines()[-12:])
        raise AllenNLPError(
            f"`{words} ...` ended with exit status {done.returncode}; run it again to go on{hint}. All it said is in "
            f"{place / LOG}, the end of it:\n  {lines}"
        )


def _is_complete(folder: Path) -> bool | None:
    """Whether `agggen srl setup` has finished the environment; None if it did not make it."""
    try:
        return bool(json.loads((folder / STAMP).read_text(encoding="utf-8"))["complete"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AllenNLPError(f"{folder / STAMP} cannot be read ({error}); delete {folder} and set it up anew") from error


def _write_stamp(place: Path, complete: bool) -> None:
    part = place / f"{STAMP}.part"
    part.write_text(json.dumps({"complete": complete}) + "\n", encoding="utf-8")
    os.replace(part, place / STAMP)
