"""Looks whether an image, or any Python environment with agggen, is what it should be; exit status 1 where it is not.

The Dockerfiles run it as the user of the image, as their last step. By hand, in an image (where all checks run) or in a
virtual environment (where those run that are named):

    docker run --rm --read-only --tmpfs /tmp agggen:0.1.0-cpu python /usr/share/agggen/check.py
    python infra/docker/check.py --constraints constraints.txt versions dependencies platform files modules commands

It needs nothing but the standard library and pip, so it can say what is wrong where nothing else works.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib
import importlib.util
import json
import os
import pkgutil
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

USER = 10001
PACKAGES = ("agggen", "agggen_platform", "serve")
JOBS = ("evaluate", "generate", "promote", "segment", "sweep", "train")
PRESETS = ("e2e", "e2e-cleaned", "e2e-cleaned-quick", "e2e-quick", "elements", "webnlg", "webnlg-long", "webnlg-quick")
_SYSTEMS = ("transformer", *(f"agggen{how}" for how in ("", "-ag", "-od", "-unchecked", "-verified")))
_PEOPLE = ("alignment", "plans")
_SEEDS = {"alignment": 3, "e2e": 3, "e2e-cleaned": 3, "e2e-cross": 3, "plans": 3, "webnlg": 3, "webnlg-long": 1}
"""How many of each table have records."""
_TUNED = {"e2e": (2, 3), "e2e-cleaned": (3,), "e2e-cross": (2, 3), "webnlg": (3,), "webnlg-long": (1,)}
"""Seeds that have a record of this system, which came later."""
RECORDS = (
    *(
        f"{table}/{system}-{seed}"
        for table, seeds in _SEEDS.items()
        for system in (("agggen",) if table in _PEOPLE else _SYSTEMS)
        for seed in range(1, seeds + 1)
    ),
    *(f"{table}/agggen-tuned-{seed}" for table, seeds in _TUNED.items() for seed in seeds),
)
"""Run records of the tables."""
DATA = (
    "agggen/corpora/elements/facts.tsv",
    *(f"agggen/corpora/manifests/{name}.tsv" for name in ("e2e", "e2e-cleaned", "webnlg", "webnlg-1.6")),
    *(f"agggen/facts/tagger_model/{name}" for name in ("README.md", "manifest.json", "tagger.json")),
    "agggen/facts/tagger_model/weights.safetensors",
    *(f"agggen_platform/presets/{name}.yaml" for name in PRESETS),
    *(f"agggen_platform/reproduction/records/{name}.json" for name in RECORDS),
    *(f"agggen_platform/sweeps/{name}.yaml" for name in ("predicate-sizes", "rates")),
)
"""What the wheel holds besides modules and its licence."""
_UNPINNED = ("agggen", "pip")
_OF_CUDA = re.compile(r"(nvidia|cuda)-.+|triton")
"""Packages that a CUDA build of torch brings, in versions that its own metadata names."""
_BARE_ENV = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}


@dataclass(frozen=True, slots=True)
class Expected:
    """What the environment is compared with."""

    constraints: Path
    share: Path
    """The folder with the lists of what is installed."""
    jobs: Path
    torch: str | None
    """``cpu`` or ``cuda``; None: any."""


def versions(expected: Expected) -> Iterator[str]:
    """Each package has the version that the constraints name; one that they do not name is a problem too."""
    lines = (line.split("#")[0].strip() for line in expected.constraints.read_text(encoding="utf-8").splitlines())
    pins = {_normal(name): version for name, _, version in (line.partition("==") for line in lines if line)}
    for name, version in _installed().items():
        if name in _UNPINNED or (expected.torch == "cuda" and _OF_CUDA.fullmatch(name)):
            continue
        if name not in pins:
            yield f"{name} {version} is installed, and {expected.constraints} does not name it"
        elif version.split("+")[0] != pins[name]:
            yield f"{name} is {version}, and {expected.constraints} names {pins[name]}"


def dependencies(_: Expected) -> Iterator[str]:
    """No package lacks another one, or has it in a version that it refuses (``pip check``)."""
    done = subprocess.run([*_pip(), "check"], capture_output=True, text=True)
    if done.returncode:
        yield from (done.stdout + done.stderr).strip().splitlines()


def platform(_: Expected) -> Iterator[str]:
    """Nothing hides Python's own module ``platform``; the folder ``platform/`` of the sources would."""
    wanted = Path(sysconfig.get_path("stdlib")) / "platform.py"
    found = importlib.util.find_spec("platform")
    origin = Path(found.origin) if found and found.origin else None
    if origin is None or origin.resolve() != wanted.resolve():
        yield f"`import platform` finds {origin}, not {wanted}"
    for folder in _site_packages():
        if (folder / "platform").exists() or (folder / "platform.py").exists():
            yield f"{folder} holds a `platform`, which is Python's own name"


def files(_: Expected) -> Iterator[str]:
    """The wheel's files are all there, with the hashes of its RECORD, and its data and licence are among them."""
    try:
        wheel = metadata.distribution("agggen")
    except metadata.PackageNotFoundError:
        yield "agggen is not installed"
        return
    recorded = {str(file): file for file in wheel.files or ()}
    for name in DATA:
        if name not in recorded:
            yield f"the wheel has no {name}"
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in recorded):
        yield "the wheel has no licence"
    for name, file in recorded.items():
        if file.hash is None:  # bytecode, and RECORD itself
            continue
        try:
            content = Path(str(wheel.locate_file(file))).read_bytes()
        except OSError as error:
            yield f"{name} cannot be read: {error.strerror}"
            continue
        if _digest(file.hash.mode, content) != file.hash.value:
            yield f"{name} was changed after it was installed"


def modules(_: Expected) -> Iterator[str]:
    """Every module of ours can be imported."""
    for package in PACKAGES:
        try:
            top = importlib.import_module(package)
        except Exception as error:
            yield _reason(package, error)
            continue
        broken: list[str] = []
        for found in pkgutil.walk_packages(top.__path__, f"{package}.", onerror=broken.append):
            if found.name.endswith(".__main__"):
                continue
            try:
                importlib.import_module(found.name)
            except Exception as error:
                yield _reason(found.name, error)
        yield from (f"the package {name} cannot be imported" for name in broken)


def commands(_: Expected) -> Iterator[str]:
    """``agggen`` starts, and is the version that is installed."""
    command = Path(sys.prefix) / "bin" / "agggen"
    wanted = {"--help": "Usage: agggen", "--version": f"agggen {_installed().get('agggen')}"}
    for option, text in wanted.items():
        yield from _says([command, option], text)


def jobs(expected: Expected) -> Iterator[str]:
    """The scripts for ``ray job submit`` are there and start."""
    for name in JOBS:
        yield from _says([sys.executable, expected.jobs / f"{name}.py", "--help"], "Usage: agggen")


def java(_: Expected) -> Iterator[str]:
    """METEOR can be computed: a Java runtime, and the jar."""
    if shutil.which("java") is None:
        yield "there is no `java` (default-jre-headless)"
    else:
        yield from _says(["java", "-version"], "version")
    package = importlib.util.find_spec("pycocoevalcap")
    folders = package.submodule_search_locations if package else None
    if not folders or not (Path(folders[0]) / "meteor" / "meteor-1.5.jar").is_file():
        yield "pycocoevalcap with METEOR's jar is not installed (the extra `metrics`)"


def torch(expected: Expected) -> Iterator[str]:
    """torch is the build that was asked for."""
    if expected.torch is None:
        return
    cuda = importlib.import_module("torch").version.cuda
    if (cuda is not None) != (expected.torch == "cuda"):
        yield f"torch is built for {f'CUDA {cuda}' if cuda else 'CPUs'}, not {expected.torch}"


def user(_: Expected) -> Iterator[str]:
    """The image's user is not root, may write where it must, and may not change what is installed."""
    if os.geteuid() != USER:
        yield f"this runs as user {os.geteuid()}, not {USER}"
    for folder in (*_site_packages(), Path(sys.prefix), Path(sys.prefix) / "bin"):
        if os.access(folder, os.W_OK):
            yield f"this user may write to {folder}"
    for folder in (Path.home(), Path(tempfile.gettempdir())):
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            yield f"this user cannot write to {folder}: {error.strerror}"


def shell(_: Expected) -> Iterator[str]:
    """A login shell finds our commands; it sets PATH anew."""
    for command in ("agggen", "ray"):
        yield from _says(["bash", "-lc", f"command -v {command}"], f"{sys.prefix}/bin/{command}", _BARE_ENV)
    for command in ("tini", "wget"):
        if shutil.which(command) is None:
            yield f"there is no `{command}`"


def token(_: Expected) -> Iterator[str]:
    """Ray asks for a token unless somebody turns that off."""
    if (mode := os.environ.get("RAY_AUTH_MODE")) != "token":
        yield f"RAY_AUTH_MODE is {mode}, not token"


def lists(expected: Expected) -> Iterator[str]:
    """The lists of what is installed agree with what is installed."""
    for name in ("requirements.txt", "packages.tsv"):
        if not (expected.share / name).is_file() or not (expected.share / name).stat().st_size:
            yield f"{expected.share / name} is missing or empty"
    report = json.loads((expected.share / "pip-inspect.json").read_text(encoding="utf-8"))
    listed = {_normal(each["metadata"]["name"]): each["metadata"]["version"] for each in report["installed"]}
    for name, version in _installed().items():
        if listed.get(name) != version:
            yield f"{name} {version} is installed; pip-inspect.json has {listed.get(name, 'no such package')}"


CHECKS: dict[str, Callable[[Expected], Iterator[str]]] = {
    check.__name__: check
    for check in (
        *(versions, dependencies, platform, files, modules, commands),
        *(jobs, java, torch, user, shell, token, lists),
    )
}


def _installed() -> dict[str, str]:
    """Version by name; of two with one name that which Python finds first."""
    found: dict[str, str] = {}
    for each in metadata.distributions():
        found.setdefault(_normal(each.metadata["Name"]), each.version)
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _site_packages() -> list[Path]:
    return [Path(folder) for folder in site.getsitepackages()]


def _digest(algorithm: str, content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).decode().rstrip("=")


def _pip() -> list[str]:
    """pip of this environment, or of the Python that it was made from."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    return [shutil.which("pip") or "pip", "--python", sys.executable]


def _reason(name: str, error: Exception) -> str:
    return f"{name} cannot be imported: {type(error).__name__}: {error}"


def _says(command: list[str | Path], text: str, env: dict[str, str] | None = None) -> Iterator[str]:
    words = " ".join(map(str, command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"`{words}` does not run: {error}"
        return
    output = (done.stdout + done.stderr).strip()
    if done.returncode:
        yield f"`{words}` ended with {done.returncode}: {output[-400:]}"
    elif text not in output:
        yield f"`{words}` says {output[:200]!r}, not {text!r}"


def main() -> int:
    """Runs the checks that were asked for; one line for each, and one for each problem."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    share = Path("/usr/share/agggen")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}; all by default")
    parser.add_argument("--constraints", type=Path, default=share / "constraints.txt")
    parser.add_argument("--share", type=Path, default=share, help="where the lists of what is installed are")
    parser.add_argument("--jobs", type=Path, default=Path("/opt/agggen/jobs"))
    parser.add_argument("--torch", choices=("cpu", "cuda"))
    options = parser.parse_args()
    if unknown := set(options.checks) - set(CHECKS):
        parser.error(f"no such check: {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    expected = Expected(options.constraints, options.share, options.jobs, options.torch)
    failed = False
    for name in options.checks or CHECKS:
        try:
            problems = list(CHECKS[name](expected))
        except Exception as error:  # a check that cannot be made has failed; the others are still of interest
            problems = [f"{type(error).__name__}: {error}"]
        print(f"{'FAILED' if problems else 'ok'}\t{name}", flush=True)
        for problem in problems:
            print(f"\t{problem}", flush=True)
        failed = failed or bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
