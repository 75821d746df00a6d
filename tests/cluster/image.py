"""Builds the images of Ray nodes and MLflow with buildah from Debian packages, without an image registry.

    python -m tests.cluster.image

Where containers cannot run, it prints the reason and exits with 0, and the tests are skipped. The build uses this
machine's pip settings (indexes, wheel folders, certificate).
"""

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
    """Name and value of each pip option of this machine."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        name, _, value = line.partition("=")
        yield name.split(".")[-1], value.strip("'\"")


def pip_settings(folder: Path) -> list[str]:
    """Build options that pass on this machine's pip settings; writes pip.conf into `folder`."""
    pip_options, options, mounts = {}, [], set()
    for option, value in pip_config():
        if option not in ("find-links", "index-url", "extra-index-url", "cert", "default-timeout"):
            continue
        pip_options[option] = value
        for location in value.replace("\\n", " ").split():
            local_path = Path(location.removeprefix("file://"))
            if local_path.is_absolute() and local_path.exists():  # pages of a local index link to files beside them
                mounts.add(local_path.parent if location.startswith("file://") else local_path)
                if any(local_path.glob("torch-*+cpu-*.whl")):
                    options = [f"--build-arg=TORCH_CPU_INDEX=file://{local_path}"]
    file = folder / "pip.conf"
    file.write_text("[global]\n" + "".join(f"{option} = {value}\n" for option, value in pip_options.items()))
    options += [f"--volume={location}:{location}:ro" for location in sorted(mounts)]
    return [f"--volume={file}:/etc/pip.conf:ro", *options]


def reason_to_skip() -> str | None:
    """Why containers cannot run here, tested with a limited container on a new network; None if they can."""
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
        if (completed := podman(*command, check=False)).returncode:
            return f"podman {' '.join(command)}: {completed.stderr.strip()[-300:]}"
    return None


def build(dockerfile: str, image: str) -> None:
    """Builds an image; unchanged layers of an earlier build are reused."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*BUILDAH, "build", "--layers", "--isolation=chroot", "--network=host", "--format=docker"]
        command += [f"--build-arg=BASE={BASE}", *pip_settings(Path(folder))]
        command += [f"--file={dockerfile}", f"--tag={image}", "."]
        subprocess.run(command, cwd=REPO, check=True)


if __name__ == "__main__":
    if reason := reason_to_skip():
        print(f"tests/cluster will be skipped, since no container can run here: {reason}")
    else:
        build("infra/docker/Dockerfile", IMAGE)
        build("infra/mlflow/Dockerfile", MLFLOW_IMAGE)
