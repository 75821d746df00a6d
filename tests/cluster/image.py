"""Builds the images of Ray's nodes and of MLflow with buildah from a base of Debian's packages, without a registry.

    python -m tests.cluster.image

If no container can be run here, it prints the reason and ends with status 0; the tests are skipped then. The build uses
pip's settings of this machine (indexes, folders of wheels, the certificate).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.containers import BUILDAH, IMAGE, LIMITS, MLFLOW_IMAGE, PODMAN, REPO, podman

BASE = "localhost/agggen-base"


def pip_config() -> Iterator[tuple[str, str]]:
    """The options of pip on this machine, with their values."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        name, _, value = line.partition("=")
        yield name.split(".")[-1], value.strip("'\"")


def pip_settings(folder: Path) -> list[str]:
    """Options that pass this machine's pip settings to a build; writes a file into `folder`."""
    kept, options, mounts = {}, [], set()
    for option, value in pip_config():
        if option not in ("find-links", "index-url", "extra-index-url", "cert", "default-timeout"):
            continue
        kept[option] = value
        for place in value.replace("\\n", " ").split():
            local = Path(place.removeprefix("file://"))
            if local.is_absolute() and local.exists():  # the pages of an index lead to files beside them
                mounts.add(local.parent if place.startswith("file://") else local)
                if any(local.glob("torch-*+cpu-*.whl")):
                    options = [f"--build-arg=TORCH_CPU_INDEX=file://{local}"]
    file = folder / "pip.conf"
    file.write_text("[global]\n" + "".join(f"{option} = {value}\n" for option, value in kept.items()))
    options += [f"--volume={place}:{place}:ro" for place in sorted(mounts)]
    return [f"--volume={file}:/etc/pip.conf:ro", *options]


def why_not() -> str | None:
    """Why containers cannot be run here, tested by one with limits on a new network; None if they can."""
    missing = [name for name in ("podman", "buildah", "debootstrap", "runc") if shutil.which(name) is None]
    if missing or os.geteuid():
        return f"missing: {', '.join(missing) or 'root'}"
    if podman("image", "exists", BASE, check=False).returncode:
        command = ["env", f"PODMAN={' '.join(PODMAN)}", "infra/docker/base.sh", BASE]
        if subprocess.run(command, cwd=REPO, stdout=subprocess.DEVNULL).returncode:
            return "infra/docker/base.sh failed"
    network = "agggen-probe"
    for command in (
        ["network", "rm", "--force", network],
        ["network", "create", "--internal", network],
        ["run", "--rm", f"--network={network}", "--memory=512m", "--read-only", *LIMITS, BASE, "true"],
        ["network", "rm", network],
    ):
        if (done := podman(*command, check=False)).returncode:
            return f"podman {' '.join(command)}: {done.stderr.strip()[-300:]}"
    return None


def build(dockerfile: str, image: str) -> None:
    """Builds an image; unchanged layers of an earlier build are reused."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*BUILDAH, "build", "--layers", "--isolation=chroot", "--network=host", "--format=docker"]
        command += [f"--build-arg=BASE={BASE}", *pip_settings(Path(folder))]
        command += [f"--file={dockerfile}", f"--tag={image}", "."]
        subprocess.run(command, cwd=REPO, check=True)


if __name__ == "__main__":
    if reason := why_not():
        print(f"tests/cluster will be skipped, no container can be run here: {reason}")
    else:
        build("infra/docker/Dockerfile", IMAGE)
        build("infra/mlflow/Dockerfile", MLFLOW_IMAGE)
