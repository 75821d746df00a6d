"""Checks that an image keeps its promises; the Dockerfiles run it as the image's user, as their last step.

    docker run --rm --read-only --tmpfs /tmp agggen:0.1.0-cpu python /usr/share/agggen/check.py
    python infra/docker/check.py dependencies modules commands       # only these, in any virtual environment

Exit status 1 where a check fails. It needs only the standard library and pip.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import pkgutil
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

USER = 10001
PACKAGES = ("agggen", "agggen_platform", "serve")
JOBS = Path("/opt/agggen/jobs")


def dependencies() -> Iterator[str]:
    """``pip check``: no package lacks another one, or has it in a version that it excludes."""
    pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip", "--python", sys.executable]
    yield from run(*pip, "check")


def modules() -> Iterator[str]:
    """Every module of ours can be imported."""
    for package in PACKAGES:
        names = [package]
        spec = importlib.util.find_spec(package)
        if spec is not None:
            walk = pkgutil.walk_packages(spec.submodule_search_locations, f"{package}.", onerror=names.append)
            names += [module.name for module in walk if not module.name.endswith("__main__")]
        for name in names:
            try:
                importlib.import_module(name)
            except Exception as error:
                yield f"{name} cannot be imported: {type(error).__name__}: {error}"


def commands() -> Iterator[str]:
    """``agggen`` and METEOR's Java start."""
    yield from run(Path(sys.prefix) / "bin" / "agggen", "--version")
    if importlib.util.find_spec("pycocoevalcap"):
        yield from run("java", "-version")


def shell() -> Iterator[str]:
    """A login shell, which resets PATH, finds the commands; so does everything else that the manifests call."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    for command in ("agggen", "ray"):
        yield from run("bash", "-lc", f"command -v {command}", env=bare)
    yield from (f"{command} is not installed" for command in ("tini", "wget") if shutil.which(command) is None)


def jobs() -> Iterator[str]:
    """The scripts for ``ray job submit`` start."""
    scripts = sorted(JOBS.glob("*.py"))
    if not scripts:
        yield f"there are no scripts in {JOBS}"
    for script in scripts:
        yield from run(sys.executable, script, "--help")


def user() -> Iterator[str]:
    """The user is not root, cannot change what is installed, and can write to the folders that must be writable."""
    if os.geteuid() != USER:
        yield f"runs as user {os.geteuid()}, not {USER}"
    for folder in (sys.prefix, sysconfig.get_path("purelib"), sysconfig.get_path("scripts")):
        if os.access(folder, os.W_OK):
            yield f"user {os.geteuid()} can write to {folder}"
    for folder in (Path.home(), Path(tempfile.gettempdir())):
        if not os.access(folder, os.W_OK):
            yield f"user {os.geteuid()} cannot write to {folder}"


def token() -> Iterator[str]:
    """Ray asks for a token."""
    if (mode := os.environ.get("RAY_AUTH_MODE")) != "token":
        yield f"RAY_AUTH_MODE is {mode}, not token"


def torch(build: str) -> Iterator[str]:
    """torch is the build that was requested."""
    cuda = importlib.import_module("torch").version.cuda
    if (cuda is not None) != (build == "cuda"):
        yield f"torch is {f'built for CUDA {cuda}' if cuda else 'a CPU build'}, not {build}"


CHECKS: dict[str, Callable[[], Iterator[str]]] = {
    check.__name__: check for check in (dependencies, modules, commands, shell, jobs, user, token)
}


def run(*command: str | Path, env: dict[str, str] | None = None) -> Iterator[str]:
    """The problem with a command that fails; nothing for one that succeeds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"{command[0]} does not run: {error}"
        return
    if done.returncode:
        output = (done.stdout + done.stderr).strip()
        yield f"`{' '.join(map(str, command))}` failed with status {done.returncode}: {output[-2000:]}"


def main() -> int:
    """Prints a line for each check and each problem."""
    parser = argparse.ArgumentParser(description="Checks that an image keeps its promises.")
    parser.add_argument("checks", nargs="*", metavar="CHECK", choices=[[], *CHECKS], help=f"{', '.join(CHECKS)} [all]")
    parser.add_argument("--torch", choices=("cpu", "cuda"), help="the build of torch that must be installed")
    options = parser.parse_args()
    results = {name: list(CHECKS[name]()) for name in options.checks or CHECKS}
    if options.torch:
        results["torch"] = list(torch(options.torch))
    for name, problems in results.items():
        print(f"{'FAILED' if problems else 'ok'}\t{name}", *problems, sep="\n\t", flush=True)
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
