"""AllenNLP's own environment: where it is, and what is in it. Made by ``agggen srl setup`` (``install.py``).

AllenNLP 2.10.1, the last one, needs torch below 1.13 and Python below 3.11, so it cannot be installed beside agggen. It
gets a virtual environment of its own, and a worker process there tags for us. Any environment will do that has
allennlp and allennlp-models, a conda one too.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from agggen.facts.allennlp.errors import AllenNLPError

WORKER = Path(__file__).with_name("worker.py")
STAMP = "agggen-srl.json"
"""In an environment that `agggen srl setup` makes: what it is made of, and whether it is complete."""
NEEDED = ("allennlp", "allennlp-models", "torch", "transformers", "spacy", "numpy")

# Credentials of ours are none of an archive's business.
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TZ", "LD_LIBRARY_PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PASSED_ON_PREFIXES = ("LC_", "SSL_", "XDG_", "OMP_", "MKL_", "CUDA_", "NVIDIA_", "HF_", "TRANSFORMERS_", "ALLENNLP_")


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder with a Python that has AllenNLP."""

    folder: Path
    python: Path
    versions: dict[str, str]
    """Of the packages in ``NEEDED``."""

    @property
    def command(self) -> list[str]:
        """What starts a worker of this process. ``-I``: our PYTHONPATH is not for that Python."""
        return [str(self.python), "-I", "-X", "utf8", str(WORKER), str(os.getpid())]


def cache_folder() -> Path:
    """``AGGGEN_CACHE``, else ``XDG_CACHE_HOME``/agggen, else ``~/.cache/agggen``."""
    if chosen := os.environ.get("AGGGEN_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agggen"


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Only one process at a time is in here with the same `path`, a file or folder that is being made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
    mend = f"make one with `agggen srl setup --dir {folder}`, or name one that has AllenNLP by AGGGEN_SRL_ENV"
    python = folder / "bin" / "python"
    if not python.exists():
        raise AllenNLPError(f"there is no environment for AllenNLP in {folder}; {mend}")
    if read_stamp(folder).get("complete") is False:
        raise AllenNLPError(f"the environment in {folder} is half made; run `agggen srl setup --dir {folder}` again")
    versions = installed_versions(folder)
    if missing := [name for name in NEEDED if name not in versions]:
        raise AllenNLPError(f"the environment in {folder} lacks {', '.join(missing)}; {mend}")
    return Environment(folder, python, versions)


def installed_versions(folder: Path) -> dict[str, str]:
    """The versions of the packages in ``NEEDED`` that the environment has, read from its files."""
    places = [str(path) for path in folder.glob("lib*/python3.*/site-packages")]
    found = {item.metadata["Name"].lower().replace("_", "-"): item.version for item in distributions(path=places)}
    return {name: found[name] for name in NEEDED if name in found}


def read_stamp(folder: Path) -> dict[str, Any]:
    """What `agggen srl setup` noted in the environment; nothing if it did not make it."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AllenNLPError(f"{folder / STAMP} cannot be read ({error}); delete {folder} and set it up anew") from error
    return stamp if isinstance(stamp, dict) else {}


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
