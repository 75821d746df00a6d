"""The Python environment of AllenNLP.

AllenNLP 2.10.1, the last release, needs torch below 1.13 and Python below 3.11, so it cannot be installed in agggen's
environment. A worker process runs it in a separate environment with allennlp and allennlp-models, which users create
with venv and ``requirements.txt``, or with another tool such as conda.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from agggen_platform.cache import cache_folder
from agggen_platform.srl.process import AllenNLPError, JsonLinesProcess
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
        raise AllenNLPError(f"there is no environment for AllenNLP in {folder}; {remedy}")
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
